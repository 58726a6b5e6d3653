package statestore

import (
	"fmt"
	"hash/maphash"

	"github.com/weirstream/weir/record"
)

// Table is one table of the operator's state: byte strings by key within a key group. It is called by the goroutine of its
// subtask alone. A returned slice is valid until the next call on
// the same table: an operator may use another table in between. Only Store.Tidy moves entries.
type Table struct {
	id     uint32
	name   string
	store  *Store
	seed   maphash.Seed
	shards []*shard // by key group; nil where nothing was stored
	warm   warmer
}

// Upsert returns the value of key for change in place, and records it as changed. A key that is absent, or whose value
// has another length, gets a value of size bytes, zeroed; found tells whether the key was there.
func (t *Table) Upsert(group record.KeyGroup, key []byte, size int) (value []byte, found bool, err error) {
	s, err := t.writable(group)
	if err != nil {
		return nil, false, err
	}
	hash := t.hash(key)
	place, ref := s.find(hash, key)
	if ref == 0 {
		return t.insert(s, place, hash, group, key, size, true)
	}
	t.store.touch(s, place)
	if e := s.arena.entry(ref); e.generation() == t.store.generation && e.valueWord() == uint32(size) {
		return e.value(), true, nil
	}
	return t.update(s, place, hash, ref, size)
}

// Put stores a copy of value.
func (t *Table) Put(group record.KeyGroup, key, value []byte) error {
	s, err := t.writable(group)
	if err != nil {
		return err
	}
	hash := t.hash(key)
	place, ref := s.find(hash, key)
	var to []byte
	if ref == 0 {
		to, _, err = t.insert(s, place, hash, group, key, len(value), false)
	} else {
		t.store.touch(s, place)
		to, _, err = t.update(s, place, hash, ref, len(value))
	}
	copy(to, value)
	return err
}

// Get returns the value of key for reading.
func (t *Table) Get(group record.KeyGroup, key []byte) (value []byte, found bool, err error) {
	s, err := t.writable(group)
	if err != nil {
		return nil, false, err
	}
	hash := t.hash(key)
	place, ref := s.find(hash, key)
	if ref != 0 {
		t.store.touch(s, place)
		if e := s.arena.entry(ref); !e.tombstone() {
			return e.value(), true, nil
		}
		return nil, false, nil
	}
	if !s.incomplete {
		return nil, false, nil
	}
	return t.load(s, place, hash, group, key)
}

// Delete removes key; removing an absent key is no error.
func (t *Table) Delete(group record.KeyGroup, key []byte) error {
	s, err := t.writable(group)
	if err != nil {
		return err
	}
	hash := t.hash(key)
	place, ref := s.find(hash, key)
	if ref == 0 {
		if !s.incomplete {
			return nil
		}
		if _, _, err := t.insert(s, place, hash, group, key, 0, false); err != nil {
			return err
		}
		place, ref = s.find(hash, key)
	} else if s.arena.entry(ref).tombstone() {
		return nil
	}
	// Going through update makes the entry one of the current generation, which may be changed in place.
	if _, _, err := t.update(s, place, hash, ref, 0); err != nil {
		return err
	}
	e := s.arena.entry(uint32(s.index[place]))
	e.bury()
	s.live--
	s.garbage += e.size()
	return nil
}

// Changed calls f for each key that was changed since the last barrier and still exists, key group by key group, within
// one in the order of the first change. f must not call the table.
func (t *Table) Changed(f func(group record.KeyGroup, key, value []byte) error) error {
	for group, s := range t.shards {
		if s == nil {
			continue
		}
		for _, ref := range s.dirty {
			e := s.arena.entry(ref)
			if e.valueWord()&flags != 0 {
				continue
			}
			if err := f(record.KeyGroup(group), e.key(), e.value()); err != nil {
				return err
			}
		}
	}
	return nil
}

// writable returns the shard of group.
func (t *Table) writable(group record.KeyGroup) (*shard, error) {
	if uint(group) < uint(len(t.shards)) {
		if s := t.shards[group]; s != nil {
			return s, nil
		}
	}
	return t.newShard(group)
}

func (t *Table) newShard(group record.KeyGroup) (*shard, error) {
	if group < 0 || int(group) >= len(t.shards) || !t.store.owned(group) {
		return nil, fmt.Errorf("%s: key group %d of %d is not owned here: the routes of the plan and the ownership of the store "+
			"disagree", t, group, len(t.shards))
	}
	s := &shard{index: make([]uint64, minIndex)}
	t.shards[group] = s
	t.store.bytes += s.bytes()
	return s, nil
}

// String names the table in messages.
func (t *Table) String() string { return fmt.Sprintf("table %s of %s", t.name, t.store.options) }

func (t *Table) hash(key []byte) uint32 { return uint32(maphash.Bytes(t.seed, key)) & hashMask }

// insert adds a key that is not in memory. With merge the cold tier is asked for its value; without, the caller
// overwrites it anyway.
func (t *Table) insert(s *shard, place int, hash uint32, group record.KeyGroup, key []byte, size int, merge bool) (
	value []byte, found bool, err error) {
	if merge && s.incomplete {
		_, found, err := t.load(s, place, hash, group, key)
		if err != nil {
			return nil, false, err
		}
		if found {
			place, ref := s.find(hash, key)
			return t.update(s, place, hash, ref, size)
		}
	}
	place = t.reserve(s, place, hash, key)
	ref, e, err := t.newEntry(s, key, size)
	if err != nil {
		return nil, false, err
	}
	s.set(place, hash, ref, t.store.persisted.Load())
	s.live++
	t.markDirty(s, ref, e)
	return e.value(), false, nil
}

// update makes the entry at place one of the current generation with a value of size bytes. An entry that a snapshot may
// still read is copied, never changed: see doc.go.
func (t *Table) update(s *shard, place int, hash, ref uint32, size int) (value []byte, found bool, err error) {
	e := s.arena.entry(ref)
	found = !e.tombstone()
	keep := found && e.valueLength() == size
	if t.store.mayChange(e.generation()) && size <= e.room() {
		if !found {
			s.live++
			s.garbage -= e.size()
		}
		e.setValueWord(uint32(size))
		if !keep {
			clear(e.value())
		}
		t.markDirty(s, ref, e)
		return e.value(), found, nil
	}
	to, fresh, err := t.newEntry(s, e.key(), size)
	if err != nil {
		return nil, false, err
	}
	if keep {
		copy(fresh.value(), e.value())
	}
	if found { // a tombstone is counted as garbage already
		s.garbage += e.size()
	} else {
		s.live++
	}
	if e.generation() == t.store.generation {
		e.kill()
		t.store.dirtyBytes -= e.size()
	}
	s.set(place, hash, to, t.store.persisted.Load())
	t.markDirty(s, to, fresh)
	return fresh.value(), found, nil
}

// newEntry allocates an entry of no generation yet.
func (t *Table) newEntry(s *shard, key []byte, size int) (ref uint32, e entry, err error) {
	if size < 0 || len(key) > maxEntry || size > maxEntry-len(key) {
		return 0, nil, fmt.Errorf("%s: a key of %d and a value of %d bytes are over the limit of %d",
			t, len(key), size, maxEntry)
	}
	before := s.arena.size
	ref, b, grown, err := s.arena.alloc(entrySize(len(key), size))
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", t, err)
	}
	if grown {
		t.store.bytes += s.arena.size - before
		t.store.grown = append(t.store.grown, grownShard{s, t})
	}
	entry(b).init(0, key, size)
	return ref, entry(b), nil
}

func (t *Table) markDirty(s *shard, ref uint32, e entry) {
	if e.generation() == t.store.generation {
		return
	}
	e.setGeneration(t.store.generation)
	if s.dirty == nil {
		s.dirty = make([]uint32, 0, s.lastDirty)
	}
	s.dirty = append(s.dirty, ref)
	t.store.dirtyBytes += e.size()
}

// load brings a key from the cold tier into memory as a clean entry.
func (t *Table) load(s *shard, place int, hash uint32, group record.KeyGroup, key []byte) ([]byte, bool, error) {
	t.store.misses++
	old, found, err := t.store.cold.get(t.id, group, key)
	if err != nil || !found {
		return nil, false, err
	}
	value, err := t.admit(s, place, hash, key, old)
	return value, err == nil, err
}

// admit adds a clean entry for a key that is not in memory.
func (t *Table) admit(s *shard, place int, hash uint32, key, value []byte) ([]byte, error) {
	place = t.reserve(s, place, hash, key)
	ref, e, err := t.newEntry(s, key, len(value))
	if err != nil {
		return nil, err
	}
	copy(e.value(), value)
	s.set(place, hash, ref, t.store.persisted.Load())
	s.live++
	return e.value(), nil
}

// reserve makes room in the index for key and returns its place.
func (t *Table) reserve(s *shard, place int, hash uint32, key []byte) int {
	before := s.bytes()
	if s.reserve() {
		t.store.bytes += s.bytes() - before
		place, _ = s.find(hash, key)
	}
	return place
}
