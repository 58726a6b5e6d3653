package statestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/weirstream/weir/record"
)

// openTier opens the Pebble back end: on the base of a checkpoint where that holds exactly our key groups, else empty. It
// returns the handles that are left to be read.
func (s *Store) openTier(ctx context.Context, restore []record.StateHandle, fetch Fetcher, prefix string) (
	[]record.StateHandle, error) {
	dir := filepath.Join(s.options.Dir, "db")
	var base, deltas record.StateHandle
	if len(restore) == 1 && restore[0].Backend == string(Pebble) && s.ownsAll(restore[0].KeyGroups) {
		if err := check(restore[0]); err != nil {
			return nil, err
		}
		base, deltas = split(restore[0])
	}
	adopt := len(base.Blobs) > 0
	if adopt {
		if err := download(ctx, base, s.options.Dir, dir, fetch); err != nil {
			return nil, err
		}
	}
	db, err := openDatabase(dir, s.options, false, s.fail)
	if err != nil {
		return nil, err
	}
	t := newTier(db, s.options, prefix)
	s.backend, s.cold = t, t
	if !adopt {
		return restore, nil
	}
	return []record.StateHandle{deltas}, s.adopt(t, base)
}

func (s *Store) ownsAll(groups []record.KeyGroup) bool {
	return !slices.ContainsFunc(groups, func(g record.KeyGroup) bool { return !s.owned(g) })
}

// adopt makes the tables of a restored database known, and loads key groups into memory while there is room for them.
func (s *Store) adopt(t *tier, h record.StateHandle) error {
	names, err := t.about(s.options.Groups)
	if err != nil {
		return err
	}
	for i, file := range h.Paths {
		if immutable(file) {
			t.learn(file, h.Blobs[i])
		}
	}
	t.begun, t.tables = true, len(names)
	for _, name := range names {
		table := s.addTable(name)
		for _, group := range h.KeyGroups {
			if err := s.warm(table, group); err != nil {
				return err
			}
		}
	}
	return nil
}

// warm loads a key group of a table while memory is below three quarters of its limit; the rest comes key by key.
func (s *Store) warm(t *Table, group record.KeyGroup) error {
	sh, err := t.newShard(group)
	if err != nil {
		return err
	}
	sh.incomplete = true
	err = s.backend.(*tier).scanGroup(t.id, group, func(key, value []byte) error {
		if int64(s.bytes) > s.options.CacheBytes/4*3 {
			return errWarm
		}
		hash := t.hash(key)
		place, _ := sh.find(hash, key)
		_, err := t.admit(sh, place, hash, key, value)
		return err
	})
	if errors.Is(err, errWarm) {
		return nil
	}
	sh.incomplete = err != nil
	return err
}

var errWarm = errors.New("memory is warm")

// download brings the files of a handle into dir: by a link where copies has them. What nobody writes to may share its
// storage with the checkpoint store; the other files of Pebble must not.
func download(ctx context.Context, h record.StateHandle, copies, dir string, fetch Fetcher) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, blob := range h.Blobs {
		path := filepath.Join(dir, h.Paths[i])
		if immutable(path) && reuse(copies, h.Paths[i], blob, path) {
			continue
		}
		if immutable(path) {
			if err := fetch.Download(ctx, blob, path); err != nil {
				return err
			}
			continue
		}
		shared := path + ".download"
		if err := fetch.Download(ctx, blob, shared); err != nil {
			return err
		}
		content, err := os.ReadFile(shared)
		if err == nil {
			err = os.WriteFile(path, content, 0o644)
		}
		if err := errors.Join(err, remove(shared)); err != nil {
			return err
		}
	}
	return nil
}

// readDatabase visits the wanted key groups of a stored database, if there is one.
func readDatabase(ctx context.Context, h record.StateHandle, o Options, fetch Fetcher, wanted func(record.KeyGroup) bool,
	visit visitor) (err error) {
	if len(h.Blobs) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp(o.Dir, "restore-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := download(ctx, h, o.Dir, dir, fetch); err != nil {
		return err
	}
	var broken error
	db, err := openDatabase(dir, o, true, func(err error) { broken = err })
	if err != nil {
		return damaged(err)
	}
	defer func() { err = errors.Join(err, db.close(), broken) }()
	names, err := db.about(o.Groups)
	if err != nil {
		return err
	}
	for id, name := range names {
		for _, group := range h.KeyGroups {
			if !wanted(group) {
				continue
			}
			err := db.scanGroup(uint32(id), group, func(key, value []byte) error {
				return visit(stored{table: name, group: group, key: key, value: value})
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// damaged says of an error of stored files that they are corrupt, unless it is the operating system that would not have them
// read just now: too many open files, no memory.
func damaged(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != syscall.ENOENT {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}
