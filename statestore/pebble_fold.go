package statestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// fold stores all that the database does not have as one delta, which takes the place of all deltas before. The chain gets a
// folder of its own with that, so that the folder with those can go. Trying again goes on where it failed.
func (t *tier) fold(ctx context.Context, s *Snapshot, up Uploader) error {
	base := chain{dir: localCopy(t.options.Dir, s.n)}
	for i, file := range t.chain.files {
		if !isDelta(file) {
			base.files, base.blobs = append(base.files, file), append(base.blobs, t.chain.blobs[i])
		}
	}
	file := deltaFile(s.n)
	path := filepath.Join(base.dir, file)
	if !s.written {
		if err := t.beginFolder(base); err != nil {
			return fmt.Errorf("beginning a folder of deltas: %w", err)
		}
		if err := t.writeDelta(path, s, unabsorbedSince(s.store.absorbed.Load())); err != nil {
			return errors.Join(fmt.Errorf("writing changes: %w", err), remove(path))
		}
		s.written = true
	}
	blob, err := up.Upload(ctx, t.prefix+file, path)
	if err != nil {
		return err
	}
	base.files, base.blobs = append(base.files, file), append(base.blobs, blob)
	t.chain = base
	return nil
}

// beginFolder makes the folder of a chain that so far has the files of the base.
func (t *tier) beginFolder(c chain) error {
	if err := errors.Join(t.room(), os.RemoveAll(c.dir), os.MkdirAll(c.dir, 0o755)); err != nil {
		return err
	}
	for _, file := range c.files {
		if err := os.Link(filepath.Join(t.chain.dir, file), filepath.Join(c.dir, file)); err != nil {
			return err
		}
	}
	return nil
}

// unabsorbedSince returns what writes of a part the entries that are newer than the generation, in the order in which they lie in
// memory: of one key the newest comes last.
func unabsorbedSince(absorbed uint32) func(*dumpWriter, part) error {
	return func(d *dumpWriter, p part) (err error) {
		if err := d.begin(p.table, p.group); err != nil {
			return err
		}
		walk(p.chunks, p.next, func(e entry) {
			if err == nil && e.generation() > absorbed && !e.dead() {
				err = d.add(e)
			}
		})
		return err
	}
}
