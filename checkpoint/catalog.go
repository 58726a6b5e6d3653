package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"github.com/weirstream/weir/internal/planted"
	"github.com/weirstream/weir/record"
)

// Catalog is the checkpoints of one job in a store. Its methods may be called by any goroutine.
type Catalog struct {
	store Store
	job   string
}

// NewCatalog returns the catalog of a job.
func NewCatalog(store Store, job string) (*Catalog, error) {
	if !validElement(job) {
		return nil, fmt.Errorf("job %q cannot have checkpoints: its name must be letters, digits, dots, dashes or underscores", job)
	}
	return &Catalog{store: store, job: job}, nil
}

// Ref names a manifest without having read it.
type Ref struct {
	Checkpoint record.CheckpointID
	Run        string
	// Location is the name of the manifest in the store.
	Location string
}

const manifestFile = "manifest.json"

func (c *Catalog) location(id record.CheckpointID, run string) string {
	return fmt.Sprintf("%s/chk-%010d-%s/%s", c.job, id, run, manifestFile)
}

// Write stores a manifest, whose Job may be left empty, and returns its location and digest for the witness. All files
// that it refers to must be stored already. The same manifest may be written again; another one under its name is refused
// (ErrExists), and so is one with faults (ErrInvalid).
func (c *Catalog) Write(ctx context.Context, m *Manifest) (record.Blob, error) {
	filled := *m
	filled.Job = c.job
	content, err := filled.Encode()
	if err != nil {
		return record.Blob{}, fmt.Errorf("manifest of checkpoint %d: %w: %w", m.Checkpoint, ErrInvalid, err)
	}
	location := c.location(m.Checkpoint, m.Run)
	if planted.Is(planted.CommitBeforeDurable) {
		return planted.Later(location, content, func() { _, _ = c.store.Create(context.WithoutCancel(ctx), location, content) }), nil
	}
	blob, err := c.store.Create(ctx, location, content)
	if err != nil {
		return record.Blob{}, fmt.Errorf("storing the manifest of checkpoint %d: %w", m.Checkpoint, err)
	}
	return blob, nil
}

// Read returns the manifest at a location. digest is the SHA-256 of the file, or empty where nobody knows it: the
// manifest has one of itself inside. It fails with CorruptError where the file is missing or not what was written.
func (c *Catalog) Read(ctx context.Context, location, digest string) (*Manifest, error) {
	content, err := c.content(ctx, location)
	if errors.Is(err, ErrNotFound) {
		return nil, &CorruptError{location, err}
	}
	if err != nil {
		return nil, fmt.Errorf("reading manifest %s: %w", location, err)
	}
	if got := digestOf(content); digest != "" && got != digest {
		return nil, &CorruptError{location, fmt.Errorf("its SHA-256 is %s, %s was committed", got, digest)}
	}
	m, err := Decode(content)
	if errors.Is(err, ErrVersion) {
		return nil, fmt.Errorf("manifest %s: %w", location, err)
	}
	if err != nil {
		return nil, &CorruptError{location, err}
	}
	if m.Job != c.job || c.location(m.Checkpoint, m.Run) != location {
		return nil, &CorruptError{location, fmt.Errorf("it is checkpoint %d, run %s, of job %s", m.Checkpoint, m.Run, m.Job)}
	}
	return m, nil
}

func (c *Catalog) content(ctx context.Context, name string) (content []byte, err error) {
	f, err := c.store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, maxManifest))
}

var manifestName = regexp.MustCompile(`/chk-([0-9]{10,18})-([^/]+)/` + regexp.QuoteMeta(manifestFile) + `$`)

// List returns the manifests of the job, newest first. Of one checkpoint there may be several, by runs that tried it.
func (c *Catalog) List(ctx context.Context) ([]Ref, error) {
	names, err := c.store.List(ctx, c.job)
	if err != nil {
		return nil, fmt.Errorf("listing the checkpoints of %s: %w", c.job, err)
	}
	return c.refs(names), nil
}

func (c *Catalog) refs(names []string) []Ref {
	var refs []Ref
	for _, name := range names {
		parts := manifestName.FindStringSubmatch(name)
		if parts == nil {
			continue
		}
		id, err := strconv.ParseInt(parts[1], 10, 64)
		if ref := (Ref{record.CheckpointID(id), parts[2], name}); err == nil && c.location(ref.Checkpoint, ref.Run) == name {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(b.Checkpoint, a.Checkpoint), cmp.Compare(b.Run, a.Run))
	})
	return refs
}

// Prepared returns the manifests after a committed checkpoint, oldest first: what a recovery may have to roll forward.
func (c *Catalog) Prepared(ctx context.Context, committed record.CheckpointID) ([]Ref, error) {
	refs, err := c.List(ctx)
	refs = slices.DeleteFunc(refs, func(r Ref) bool { return r.Checkpoint <= committed })
	slices.Reverse(refs)
	return refs, err
}

// Verify reads every file of a checkpoint and reports all that are missing or damaged, each as CorruptError.
func (c *Catalog) Verify(ctx context.Context, m *Manifest) error {
	var faults []error
	for _, blob := range m.Blobs() {
		err := c.verify(ctx, blob)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, ErrNotFound) {
			err = &CorruptError{blob.Name, err}
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (c *Catalog) verify(ctx context.Context, blob record.Blob) (err error) {
	f, err := c.store.Open(ctx, blob.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return verify(ctx, blob, f, io.Discard)
}

// shared is the folder of the files that checkpoints refer to.
func (c *Catalog) shared() string { return c.job + "/shared" }

// Upload stores the file at path, which never changes again, under a name that begins with the run and a slash.
func (c *Catalog) Upload(ctx context.Context, name, path string) (record.Blob, error) {
	return c.store.CreateFrom(ctx, c.shared()+"/"+name, path)
}

// Download puts a file that a manifest refers to at path; see Store.Fetch.
func (c *Catalog) Download(ctx context.Context, blob record.Blob, path string) error {
	err := c.store.Fetch(ctx, blob, path)
	if errors.Is(err, ErrNotFound) {
		return &CorruptError{blob.Name, err}
	}
	return err
}
