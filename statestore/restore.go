package statestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	return dropAllCopies(s.options.Dir)
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

// load reads the owned key groups of the handles as changes of the first generations, and has the cold tier take them up.
// Snapshots are bases then until one is stored: what the cold tier has is in no checkpoint of this run.
func (s *Store) load(ctx context.Context, restore []record.StateHandle, fetch Fetcher) error {
	for _, h := range restore {
		if err := read(ctx, h, s.options, fetch, s.owned, func(e stored) error { return s.take(ctx, e) }); err != nil {
			return fmt.Errorf("restoring what subtask %d stored: %w", h.Subtask, err)
		}
	}
	if err := s.seal(ctx); err != nil {
		return err
	}
	s.since = growth{}
	s.rooted.Store(len(restore) == 0)
	return nil
}

// take makes a stored entry a change of the current generation.
func (s *Store) take(ctx context.Context, e stored) error {
	t, err := s.Table(e.table)
	if err != nil {
		return err
	}
	if e.deleted {
		err = t.Delete(e.group, e.key)
	} else {
		err = t.Put(e.group, e.key, e.value)
	}
	if err != nil || s.cold == nil || !s.Full() {
		return err
	}
	if err := s.seal(ctx); err != nil {
		return err
	}
	return s.Tidy()
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
	visit visitor) error {
	filter := func(e stored) error {
		if !wanted(e.group) {
			return nil
		}
		return visit(e)
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
		base, deltas := split(h)
		if err := readDatabase(ctx, base, o, fetch, wanted, visit); err != nil {
			return err
		}
		return readDeltas(ctx, deltas, o, fetch, filter)
	}
	return fmt.Errorf("back end %q: %w", h.Backend, ErrFormat)
}

func readDumpFile(ctx context.Context, h record.StateHandle, o Options, fetch Fetcher, visit visitor) error {
	if len(h.Blobs) != 1 {
		return fmt.Errorf("a dump in %d files: %w", len(h.Blobs), ErrCorrupt)
	}
	return readDeltas(ctx, h, o, fetch, visit)
}

// readDeltas reads dumps one after the other.
func readDeltas(ctx context.Context, h record.StateHandle, o Options, fetch Fetcher, visit visitor) (err error) {
	dir, err := os.MkdirTemp(o.Dir, "restore-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := download(ctx, h, o.Dir, dir, fetch); err != nil {
		return err
	}
	for _, file := range h.Paths {
		if err := readFile(filepath.Join(dir, file), o.Groups, visit); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if planted.Is(planted.ReuseLocalStore) {
		left, _ := filepath.Glob(filepath.Join(o.Dir, "chk-*", "*"+deltaSuffix))
		for _, path := range left {
			if !slices.Contains(h.Paths, filepath.Base(path)) {
				_ = readFile(path, o.Groups, visit)
			}
		}
	}
	return nil
}

func readFile(path string, groups int, visit visitor) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = readDump(f, groups, visit)
	return errors.Join(err, f.Close())
}

// check refuses handles that this version cannot read, and file names that would leave the folder.
func check(h record.StateHandle) error {
	formats := map[Backend]int{Memory: dumpVersion, FS: dumpVersion, Pebble: chainFormat}
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
