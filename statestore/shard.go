package statestore

import "bytes"

// A shard is the part of a table that belongs to one key group: an open-addressing index with linear probing over an
// arena. A slot of the index is one word: bit 63 the clock bit of eviction, 31 bits of the key's hash, 32 bits of ref;
// a zero word is free. Deleted keys keep their slot as a tombstone until a rebuild.
type shard struct {
	index []uint64
	used  int // slots taken, tombstones included
	live  int // slots that are no tombstones
	arena arena
	// garbage estimates the bytes that a rebuild would free: replaced entries, and tombstones.
	garbage int
	// rebuildAt is the arena size below which a rebuild is not worth its price again.
	rebuildAt int
	// dirty lists the entries of the current generation in the order in which they were first changed.
	dirty     []uint32
	lastDirty int // length of dirty at the last freeze, a hint for the next
	// changed is the newest frozen generation that changed an entry here.
	changed uint32
	// incomplete says that the cold tier may hold keys which are not here.
	incomplete bool
	// walker is the newest generation whose snapshot walks index; a slot must not change before that is persisted.
	walker uint32
}

const (
	clockBit = 1 << 63
	hashMask = 1<<31 - 1
	minIndex = 8
)

func slotHash(slot uint64) uint32 { return uint32(slot>>32) & hashMask }

// find returns the place of key in the index and its ref, or a free place and ref 0. The index must have a free place.
func (s *shard) find(hash uint32, key []byte) (place int, ref uint32) {
	mask := uint32(len(s.index) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		slot := s.index[i]
		if slot == 0 {
			return int(i), 0
		}
		if slotHash(slot) == hash {
			if bytes.Equal(s.arena.entry(uint32(slot)).key(), key) {
				return int(i), uint32(slot)
			}
		}
	}
}

// set fills a place. persisted is the newest generation on which no snapshot depends: while an older index is being
// walked, the change goes to a copy of it.
func (s *shard) set(place int, hash, ref, persisted uint32) {
	if s.walker > persisted {
		s.index = append([]uint64(nil), s.index...)
		s.walker = 0
	}
	if s.index[place] == 0 {
		s.used++
	}
	s.index[place] = uint64(hash)<<32 | uint64(ref)
}

// reserve makes sure that one more key fits, and tells whether the index was replaced.
func (s *shard) reserve() bool {
	if (s.used+1)*4 <= len(s.index)*3 {
		return false
	}
	old := s.index
	s.index, s.walker = make([]uint64, max(minIndex, 2*len(old))), 0
	for _, slot := range old {
		if slot != 0 {
			s.index[s.free(slotHash(slot))] = slot
		}
	}
	return true
}

func (s *shard) free(hash uint32) int {
	mask := uint32(len(s.index) - 1)
	i := hash & mask
	for s.index[i] != 0 {
		i = (i + 1) & mask
	}
	return int(i)
}

func (s *shard) bytes() int { return s.arena.size + 8*len(s.index) }

// A keeper decides in a rebuild about an entry that is not of the current generation.
type keeper func(slot uint64, e entry) bool

// rebuild copies what is kept into a new arena and a new index; snapshots go on reading the old ones. The entries of the
// current generation are always kept, in their order, the others as keep says.
func (s *shard) rebuild(generation uint32, hash func([]byte) uint32, keep keeper) error {
	fresh := shard{index: make([]uint64, indexFor(s.used)), lastDirty: s.lastDirty, changed: s.changed}
	for _, ref := range s.dirty {
		e := s.arena.entry(ref)
		if e.dead() {
			continue
		}
		to, err := fresh.adopt(hash(e.key()), e)
		if err != nil {
			return err
		}
		fresh.dirty = append(fresh.dirty, to)
	}
	for _, slot := range s.index {
		if slot == 0 {
			continue
		}
		e := s.arena.entry(uint32(slot))
		if e.generation() == generation || !keep(slot, e) {
			continue
		}
		if _, err := fresh.adopt(slotHash(slot), e); err != nil {
			return err
		}
	}
	fresh.incomplete = s.incomplete // keep may have set it
	fresh.rebuildAt = fresh.arena.size + fresh.arena.size/4
	*s = fresh
	return nil
}

func (s *shard) adopt(hash uint32, e entry) (ref uint32, err error) {
	ref, b, _, err := s.arena.alloc(e.size())
	if err != nil {
		return 0, err
	}
	copy(b, e[:e.size()])
	s.index[s.free(hash)] = uint64(hash)<<32 | uint64(ref)
	s.used++
	if e.tombstone() {
		s.garbage += e.size()
	} else {
		s.live++
	}
	return ref, nil
}

func indexFor(keys int) int {
	n := minIndex
	for n*3 < (keys+1)*4 {
		n *= 2
	}
	return n
}
