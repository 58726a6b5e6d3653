package statestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/weirstream/weir/internal/planted"
	"github.com/weirstream/weir/record"
)

// open makes the back end and fills the tables from the handles.
func (s *Store) open(ctx context.Context, restore []record.StateHandle, fetch Fetcher) error {
	if err := s.openBackend(ctx, restore, fetch); err != nil {
		return err
	}
	return dropCopies(s.options.Dir, math.MaxInt64)
}

func (s *Store) openBackend(ctx context.Context, restore []record.StateHandle, fetch Fetcher) error {
	if s.options.Backend != Memory {
		if err := claim(s.options.Dir); err != nil {
			return err
		}
	}
	restore = s.relevant(restore)
	prefix := fmt.Sprintf("%s/%s/%d/", s.options.Run, s.options.Operator, s.options.Subtask)
	switch s.options.Backend {
	case Memory:
		s.backend = inline{s.options.Groups}
	case FS:
		s.backend = &dumps{groups: s.options.Groups, dir: s.options.Dir, prefix: prefix}
	case Pebble:
		var err error
		if restore, err = s.openTier(ctx, restore, fetch, prefix); err != nil {
			return err
		}
	}
	return s.load(ctx, restore, fetch)
}

// marker tells a folder of ours, which may be emptied, from one that a slip in the configuration named.
const marker = "weir-state"

// claim empties the folder of a store, or makes it. Local copies of checkpoints stay until the restore is done.
func claim(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	ours := len(entries) == 0 || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == marker })
	if !ours {
		return fmt.Errorf("folder %s holds files that are not Weir's and would be deleted: set state.dir to another folder", dir)
	}
	for _, e := range entries {
		if planted.Is(planted.ReuseLocalStore) {
			break
		}
		if _, copied := copyOf(e.Name()); e.Name() != marker && !copied {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, marker), []byte("State of a Weir subtask. It is emptied at every start.\n"), 0o644)
}

// relevant leaves out handles of other operators and those without a key group of ours.
func (s *Store) relevant(restore []record.StateHandle) []record.StateHandle {
	return slices.DeleteFunc(slices.Clone(restore), func(h record.StateHandle) bool {
		return h.Operator != s.options.Operator || !slices.ContainsFunc(h.KeyGroups, s.owned)
	})
}

// load reads the owned key groups of the handles as changes of the first generations, and makes them clean.
func (s *Store) load(ctx context.Context, restore []record.StateHandle, fetch Fetcher) error {
	for _, h := range restore {
		err := read(ctx, h, s.options, fetch, s.owned, func(name string, group record.KeyGroup, key, value []byte) error {
			t, err := s.Table(name)
			if err != nil {
				return err
			}
			if err := t.Put(group, key, value); err != nil {
				return err
			}
			if s.cold == nil || !s.Full() {
				return nil
			}
			return s.seal(ctx)
		})
		if err != nil {
			return fmt.Errorf("restoring what subtask %d stored: %w", h.Subtask, err)
		}
	}
	return s.seal(ctx)
}

// seal makes all changes clean, as if they had been persisted: they come from a checkpoint.
func (s *Store) seal(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	snap := s.freeze()
	if _, err := s.begin(snap); err != nil {
		return err
	}
	err := s.backend.absorb(ctx, snap)
	s.end(snap, err == nil)
	return err
}

// read visits the entries of a handle in the key groups that are wanted.
func read(ctx context.Context, h record.StateHandle, o Options, fetch Fetcher, wanted func(record.KeyGroup) bool,
	visit Visitor) error {
	filter := func(table string, group record.KeyGroup, key, value []byte) error {
		if !wanted(group) {
			return nil
		}
		return visit(table, group, key, value)
	}
	if err := check(h); err != nil {
		return err
	}
	switch Backend(h.Backend) {
	case Memory:
		return readDump(bytes.NewReader(h.Inline), o.Groups, filter)
	case FS:
		return readDumpFile(ctx, h, o, fetch, filter)
	case Pebble:
		return readDatabase(ctx, h, o, fetch, wanted, visit)
	}
	return fmt.Errorf("back end %q: %w", h.Backend, ErrFormat)
}

func readDumpFile(ctx context.Context, h record.StateHandle, o Options, fetch Fetcher, visit Visitor) error {
	if len(h.Blobs) != 1 {
		return fmt.Errorf("a dump in %d files: %w", len(h.Blobs), ErrCorrupt)
	}
	dir, err := os.MkdirTemp(o.Dir, "restore-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at := filepath.Join(dir, h.Paths[0])
	if err := fetch.Download(ctx, h.Blobs[0], at); err != nil {
		return err
	}
	f, err := os.Open(at)
	if err != nil {
		return err
	}
	err = readDump(f, o.Groups, visit)
	return errors.Join(err, f.Close())
}

// check refuses handles that this version cannot read, and file names that would leave the folder.
func check(h record.StateHandle) error {
	formats := map[Backend]int{Memory: dumpVersion, FS: dumpVersion, Pebble: pebbleFormat}
	if format, ok := formats[Backend(h.Backend)]; !ok || h.Format != format {
		return fmt.Errorf("back end %q, format %d: %w", h.Backend, h.Format, ErrFormat)
	}
	if len(h.Paths) != len(h.Blobs) {
		return fmt.Errorf("%d files with %d names: %w", len(h.Blobs), len(h.Paths), ErrCorrupt)
	}
	for _, p := range h.Paths {
		if p == "" || p != path.Base(p) || p == ".." || p == "." || p == "/" {
			return fmt.Errorf("file name %q: %w", p, ErrCorrupt)
		}
	}
	return nil
}
