package checkpoint

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/weirstream/weir/internal/failpoint"
	"github.com/weirstream/weir/record"
)

// Dir is a Store in a folder of a file system with hard links, local or shared.
type Dir struct {
	root string
	disk disk
}

// temporary is where files are written before they get their name.
const temporary = ".tmp"

// NewDir returns the store in a folder, which is made if it is not there.
func NewDir(root string) (*Dir, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	return newDir(root, system{})
}

// OpenDir returns the store in a folder that is there, for reading: nothing is made, so the folder may be one that this process
// cannot write to. Writing to it needs NewDir.
func OpenDir(root string) (*Dir, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(root)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", root)
	}
	if err != nil {
		return nil, err
	}
	return &Dir{root: root, disk: system{}}, nil
}

func newDir(root string, d disk) (*Dir, error) {
	s := &Dir{root: root, disk: d}
	if err := s.makeFolder(filepath.Join(root, temporary)); err != nil {
		return nil, fmt.Errorf("checkpoint store %s: %w", root, err)
	}
	return s, nil
}

// Create implements Store.
func (d *Dir) Create(ctx context.Context, name string, content []byte) (record.Blob, error) {
	return d.store(ctx, name, bytes.NewReader(content))
}

// CreateFrom implements Store. On the file system of the store it links.
func (d *Dir) CreateFrom(ctx context.Context, name, path string) (record.Blob, error) {
	f, err := os.Open(path)
	if err != nil {
		return record.Blob{}, err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := copyContext(ctx, sum, f)
	if err != nil {
		return record.Blob{}, err
	}
	if err := d.disk.sync(f); err != nil {
		return record.Blob{}, err
	}
	blob := record.Blob{Name: name, Size: size, SHA256: hexDigest(sum)}
	err = d.name(ctx, path, blob)
	if err == nil || errors.Is(err, ErrExists) || !cannotLink(err) {
		return blob, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return record.Blob{}, err
	}
	return d.store(ctx, name, f)
}

// cannotLink tells the errors of link(2) after which a copy may still work.
func cannotLink(err error) bool {
	for _, no := range []error{syscall.EXDEV, syscall.EPERM, syscall.EMLINK} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// store writes content under a temporary name, makes it durable, and gives it its name.
func (d *Dir) store(ctx context.Context, name string, content io.Reader) (blob record.Blob, err error) {
	from := filepath.Join(d.root, temporary, rand.Text())
	f, err := d.disk.create(from)
	if err != nil {
		return record.Blob{}, err
	}
	defer func() { err = errors.Join(err, d.discard(from)) }()
	sum := sha256.New()
	size, err := copyContext(ctx, io.MultiWriter(f, sum), content)
	if err == nil {
		err = d.disk.sync(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return record.Blob{}, err
	}
	blob = record.Blob{Name: name, Size: size, SHA256: hexDigest(sum)}
	return blob, d.name(ctx, from, blob)
}

// name links the file at from, which is durable, to its name, if that is free.
func (d *Dir) name(ctx context.Context, from string, blob record.Blob) error {
	if !ValidName(blob.Name) {
		return fmt.Errorf("%q is no name for a checkpoint file", blob.Name)
	}
	to := d.path(blob.Name)
	failpoint.Pass(failpoint.FileUnpublished)
	err := d.link(from, to)
	if errors.Is(err, fs.ErrExist) {
		if err := d.same(ctx, blob); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	// Also where the name was there: its writer may have died between link and fsync.
	return d.disk.syncFolder(filepath.Dir(to))
}

// link makes the folder of to as well, again where a Remove took the empty folder away meanwhile.
func (d *Dir) link(from, to string) error {
	const tries = 5
	var err error
	for range tries {
		if err = d.makeFolder(filepath.Dir(to)); err != nil {
			return err
		}
		if err = d.disk.link(from, to); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// same says whether the file under a name has the content of blob.
func (d *Dir) same(ctx context.Context, blob record.Blob) error {
	err := d.verify(ctx, blob)
	if corrupt := (*CorruptError)(nil); errors.As(err, &corrupt) {
		return fmt.Errorf("%s: %w", blob.Name, ErrExists)
	}
	return err
}

func (d *Dir) verify(ctx context.Context, blob record.Blob) error {
	f, err := d.Open(ctx, blob.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	return verify(ctx, blob, f, io.Discard)
}

// Open implements Store.
func (d *Dir) Open(_ context.Context, name string) (io.ReadCloser, error) {
	if !ValidName(name) {
		return nil, fmt.Errorf("%q is no name for a checkpoint file", name)
	}
	f, err := os.Open(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return f, err
}

// Fetch implements Store. On the file system of the store it links.
func (d *Dir) Fetch(ctx context.Context, blob record.Blob, path string) error {
	f, err := d.Open(ctx, blob.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	err = os.Link(d.path(blob.Name), path)
	if err == nil {
		err = verify(ctx, blob, f, io.Discard)
	} else if cannotLink(err) {
		err = fetchCopy(ctx, blob, f, path)
	} else {
		return err
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func fetchCopy(ctx context.Context, blob record.Blob, from io.Reader, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(verify(ctx, blob, from, f), f.Close())
}

// List implements Store.
func (d *Dir) List(ctx context.Context, folder string) ([]string, error) {
	if !ValidName(folder) {
		return nil, fmt.Errorf("%q is no name for a folder of checkpoints", folder)
	}
	var names []string
	err := filepath.WalkDir(d.path(folder), func(at string, e fs.DirEntry, err error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if errors.Is(err, fs.ErrNotExist) { // removed while we look, or nothing there
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(d.root, at)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	slices.Sort(names)
	return names, err
}

// Remove implements Store. Folders that become empty go too, without making that durable.
func (d *Dir) Remove(_ context.Context, name string) error {
	if !ValidName(name) {
		return fmt.Errorf("%q is no name for a checkpoint file", name)
	}
	at := d.path(name)
	if err := d.disk.remove(at); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := d.disk.syncFolder(filepath.Dir(at)); err != nil {
		return err
	}
	d.prune(path.Dir(name))
	return nil
}

// prune removes a folder and those above it as far as they are empty, which they are not as a rule.
func (d *Dir) prune(folder string) {
	for folder != "." && os.Remove(d.path(folder)) == nil {
		folder = path.Dir(folder)
	}
}

// Sweep implements Store.
func (d *Dir) Sweep(_ context.Context, before time.Time) error {
	entries, err := os.ReadDir(filepath.Join(d.root, temporary))
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.ModTime().Before(before) { // an error: its writer has removed it
			continue
		}
		if err := d.discard(filepath.Join(d.root, temporary, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dir) discard(path string) error {
	if err := d.disk.remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (d *Dir) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

// makeFolder makes a folder and those above it, each durable in the one above.
func (d *Dir) makeFolder(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if above := filepath.Dir(path); above != path {
		if err := d.makeFolder(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.disk.syncFolder(filepath.Dir(path))
}

// verify copies from to to and checks that it is blob.
func verify(ctx context.Context, blob record.Blob, from io.Reader, to io.Writer) error {
	sum := sha256.New()
	size, err := copyContext(ctx, io.MultiWriter(to, sum), from)
	if err != nil {
		return err
	}
	if size != blob.Size {
		return &CorruptError{blob.Name, fmt.Errorf("it has %d bytes, %d were written", size, blob.Size)}
	}
	if got := hexDigest(sum); got != blob.SHA256 {
		return &CorruptError{blob.Name, fmt.Errorf("its SHA-256 is %s, %s was written", got, blob.SHA256)}
	}
	return nil
}

func hexDigest(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// copyContext is io.Copy that looks at ctx between pieces.
func copyContext(ctx context.Context, to io.Writer, from io.Reader) (int64, error) {
	const piece = 1 << 20
	total := int64(0)
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := io.CopyN(to, from, piece)
		total += n
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}
