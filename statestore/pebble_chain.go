package statestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/record"
)

// A checkpoint with Pebble is a chain: the files of a Pebble checkpoint, the base, and a delta for each checkpoint since
// that changed anything. A delta is a dump of what changed, written as it lies in memory: its price is that of the
// bytes, where the database would sort them and then write them again and again. Before the first base the chain has
// deltas only, and where the state stays small there is never a base: then the deltas are folded into one now and then.
// Checkpoints share the files; each manifest names all that it needs.
type chain struct {
	dir   string // where the local copy lies
	files []string
	blobs []record.Blob
}

const deltaSuffix = ".delta"

func deltaFile(n record.CheckpointID) string { return fmt.Sprintf("%08d%s", n, deltaSuffix) }

func isDelta(file string) bool { return filepath.Ext(file) == deltaSuffix }

// split returns the base and the deltas of a handle as handles of their own.
func split(h record.StateHandle) (base, deltas record.StateHandle) {
	base, deltas = h, h
	base.Paths, base.Blobs, deltas.Paths, deltas.Blobs = nil, nil, nil, nil
	for i, file := range h.Paths {
		to := &base
		if isDelta(file) {
			to = &deltas
		}
		to.Paths, to.Blobs = append(to.Paths, file), append(to.Blobs, h.Blobs[i])
	}
	return base, deltas
}

// persist stores what the snapshot was frozen for: a new base, one delta for all before, or what has changed.
func (t *tier) persist(ctx context.Context, snaps []*Snapshot, up Uploader) (record.StateHandle, error) {
	var err error
	switch last := snaps[len(snaps)-1]; last.extent {
	case unabsorbed:
		err = t.rebase(ctx, last, up)
	case folded:
		err = t.fold(ctx, last, up)
	default:
		err = t.extend(ctx, snaps, up)
	}
	if err != nil {
		return record.StateHandle{}, err
	}
	return record.StateHandle{Format: chainFormat, Paths: slices.Clone(t.chain.files), Blobs: slices.Clone(t.chain.blobs)}, nil
}

// extend adds the changes of snapshots to the chain. Trying again goes on where it failed; a file that may be stored
// already is not written again, since the store may have linked it.
func (t *tier) extend(ctx context.Context, snaps []*Snapshot, up Uploader) error {
	for _, s := range snaps {
		if s.stored || !s.changed() {
			continue
		}
		file := deltaFile(s.n)
		path := filepath.Join(t.chain.dir, file)
		if !s.written {
			if err := t.writeDelta(path, s, (*dumpWriter).writeChanges); err != nil {
				return errors.Join(fmt.Errorf("writing changes: %w", err), remove(path))
			}
			s.written = true
		}
		blob, err := up.Upload(ctx, t.prefix+file, path)
		if err != nil {
			return err
		}
		t.chain.files, t.chain.blobs = append(t.chain.files, file), append(t.chain.blobs, blob)
		s.stored = true
	}
	return nil
}

// changed says whether the generation of the snapshot changed anything.
func (s *Snapshot) changed() bool {
	return slices.ContainsFunc(s.parts, func(p part) bool { return len(p.refs) > 0 })
}

func (t *tier) writeDelta(path string, s *Snapshot, write func(*dumpWriter, part) error) error {
	if err := errors.Join(t.room(), os.MkdirAll(t.chain.dir, 0o755)); err != nil {
		return err
	}
	f, err := (&guardedFS{t.options.fs, s.store.fail}).Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	t.out.Reset(f)
	err = t.delta.dump(t.out, t.options.Groups, s.parts, write)
	if err == nil {
		err = t.out.Flush()
	}
	return errors.Join(err, f.Close())
}
