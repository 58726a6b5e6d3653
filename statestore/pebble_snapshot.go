package statestore

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/record"
)

// uploadsAtOnce bounds the parallel uploads of one snapshot.
const uploadsAtOnce = 4

// reserve is the disk space below which a snapshot is not begun. Our own files fail cleanly on a full disk; Pebble cannot
// go on when its manifest does, so it is left some room.
const reserve = 16 << 20

// tier is the Pebble back end: a database that memory is written to now and then, and deltas of memory between.
type tier struct {
	*database
	options Options
	prefix  string // of names in the checkpoint store
	tables  int    // tables whose names the database has
	begun   bool   // the database has its format record
	tries   int    // numbers the files to ingest
	ready   string // folder of the Pebble checkpoint that is complete and not uploaded yet
	chain   chain  // what the last checkpoint consists of
	delta   dumpWriter
	out     *bufio.Writer

	mu struct {
		sync.Mutex
		// known are the immutable files that the checkpoint store has, by Pebble's name. Names are unique within one run of
		// the database, and files that it was restored with keep theirs.
		known map[string]record.Blob
	}
}

func newTier(db *database, o Options, prefix string) *tier {
	t := &tier{database: db, options: o, prefix: prefix, chain: chain{dir: localCopy(o.Dir, 0)},
		out: bufio.NewWriterSize(nil, 64<<10)}
	t.mu.known = map[string]record.Blob{}
	return t
}

// absorb writes what the database does not have as one sorted table and hands it over: cheaper than its memtable, and it is
// on disk when this returns. Memory may give up these entries then.
func (t *tier) absorb(ctx context.Context, s *Snapshot) error {
	if !t.begun || len(s.parts) > 0 || t.tables < len(s.tables) {
		if err := t.room(); err != nil {
			return err
		}
		t.tries++
		path := filepath.Join(t.options.Dir, fmt.Sprintf("ingest-%d.sst", t.tries))
		if err := t.writeTable(path, s); err != nil {
			return errors.Join(fmt.Errorf("writing changes: %w", err), remove(path))
		}
		// Ingesting takes the file away on success. Doing it twice with the same content does no harm.
		err := orderly(s.store.Err, func() error { return t.db.Ingest(context.WithoutCancel(ctx), []string{path}) })
		if err != nil {
			return errors.Join(fmt.Errorf("ingesting changes: %w", err), remove(path))
		}
		t.tables, t.begun = len(s.tables), true
	}
	s.absorbed = true
	s.store.absorbed.Store(s.generation)
	return nil
}

func (t *tier) room() error {
	usage, err := t.options.fs.GetDiskUsage(t.options.Dir)
	if err != nil {
		return fmt.Errorf("looking for disk space: %w", err)
	}
	if usage.AvailBytes < reserve {
		return fmt.Errorf("%d bytes left in %s: %w", usage.AvailBytes, t.options.Dir, ErrNoSpace)
	}
	return nil
}

func (t *tier) writeTable(path string, s *Snapshot) error {
	f, err := (&guardedFS{t.options.fs, s.store.fail}).Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), t.write)
	err = t.writeAbout(w, s)
	sorter := sorter{absorbed: s.store.absorbed.Load()}
	for _, p := range s.parts {
		if err != nil {
			break
		}
		err = sorter.write(w, p)
	}
	return errors.Join(err, w.Close())
}

// writeAbout writes what the database says about itself, which sorts before all entries.
func (t *tier) writeAbout(w *sstable.Writer, s *Snapshot) error {
	if !t.begun {
		if err := w.Set(aboutKey(aboutFormat), aboutFormatValue(t.options.Groups)); err != nil {
			return err
		}
	}
	for _, table := range s.tables[t.tables:] {
		key := binary.BigEndian.AppendUint32(aboutKey(aboutTables), table.id)
		if err := w.Set(key, []byte(table.name)); err != nil {
			return err
		}
	}
	return nil
}

// sorter writes the entries of one part after another that are newer than what the database has, in the order of keys.
type sorter struct {
	absorbed uint32
	order    []sortable
	key      []byte
}

type sortable struct {
	first uint64 // the first eight bytes of the key, which decide most comparisons
	entry entry
}

func (o *sorter) write(w *sstable.Writer, p part) error {
	o.gather(p)
	o.key = appendPrefix(o.key[:0], p.table.id, p.group)
	var before entry
	for _, s := range o.order {
		if before != nil && bytes.Equal(before.key(), s.entry.key()) {
			continue // replaced by before
		}
		before = s.entry
		key := append(o.key, s.entry.key()...)
		o.key = key[:prefixSize]
		var err error
		if s.entry.tombstone() {
			err = w.Delete(key)
		} else {
			err = w.Set(key, s.entry.value())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gather sorts the entries by key, the newest of a key first. Going through memory as it lies finds replaced entries as
// well, but reads it once and in order.
func (o *sorter) gather(p part) {
	o.order = o.order[:0]
	walk(p.chunks, p.next, func(e entry) {
		if e.generation() > o.absorbed && !e.dead() {
			o.order = append(o.order, sortable{firstBytes(e.key()), e})
		}
	})
	slices.SortFunc(o.order, func(a, b sortable) int {
		if c := cmp.Compare(a.first, b.first); c != 0 {
			return c
		}
		if c := bytes.Compare(a.entry.key(), b.entry.key()); c != 0 {
			return c
		}
		return cmp.Compare(b.entry.generation(), a.entry.generation())
	})
}

func firstBytes(key []byte) uint64 {
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// rebase stores the database with all that memory has, as the new beginning of the chain.
func (t *tier) rebase(ctx context.Context, s *Snapshot, up Uploader) error {
	if !s.absorbed {
		if err := t.absorb(ctx, s); err != nil {
			return err
		}
	}
	dir := localCopy(t.options.Dir, s.n)
	if t.ready != dir {
		if err := errors.Join(t.room(), os.RemoveAll(dir)); err != nil {
			return err
		}
		if err := orderly(s.store.Err, func() error { return t.db.Checkpoint(dir) }); err != nil {
			return fmt.Errorf("taking a checkpoint of the database: %w", err)
		}
		t.ready = dir
	}
	fresh, err := t.uploadAll(ctx, dir, s.n, up)
	if err != nil {
		return err
	}
	t.ready, t.chain = "", fresh
	t.forget(fresh.files)
	s.store.rooted.Store(true)
	return nil
}

// uploadAll stores the files of a Pebble checkpoint.
func (t *tier) uploadAll(ctx context.Context, dir string, n record.CheckpointID, up Uploader) (chain, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return chain{}, err
	}
	c := chain{dir: dir, files: make([]string, len(files)), blobs: make([]record.Blob, len(files))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(uploadsAtOnce)
	for i, f := range files {
		c.files[i] = f.Name()
		group.Go(func() (err error) {
			c.blobs[i], err = t.upload(ctx, up, n, f.Name())
			return err
		})
	}
	return c, group.Wait()
}

// upload stores one file of a checkpoint. Tables are immutable and stored once; the others are few and small, and differ
// each time.
func (t *tier) upload(ctx context.Context, up Uploader, n record.CheckpointID, file string) (record.Blob, error) {
	path := filepath.Join(localCopy(t.options.Dir, n), file)
	if !immutable(file) {
		return up.Upload(ctx, fmt.Sprintf("%s%08d/%s", t.prefix, n, file), path)
	}
	t.mu.Lock()
	blob, ok := t.mu.known[file]
	t.mu.Unlock()
	if ok {
		return blob, nil
	}
	blob, err := up.Upload(ctx, t.prefix+file, path)
	if err == nil {
		t.learn(file, blob)
	}
	return blob, err
}

func (t *tier) learn(file string, blob record.Blob) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.known[file] = blob
}

// forget drops the files that the newest checkpoint no longer has: they never come back.
func (t *tier) forget(have []string) {
	keep := map[string]bool{}
	for _, file := range have {
		keep[file] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for file := range t.mu.known {
		if !keep[file] {
			delete(t.mu.known, file)
		}
	}
}

// immutable says of a file of a checkpoint that nobody ever writes to it again.
func immutable(file string) bool {
	switch filepath.Ext(file) {
	case ".sst", ".blob", ".dump", deltaSuffix:
		return true
	}
	return false
}

// committed drops the local copies that checkpoint n does not build on.
func (t *tier) committed(n record.CheckpointID) error { return dropCopies(t.options.Dir, n) }
