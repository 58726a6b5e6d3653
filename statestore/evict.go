package statestore

// clockHand points at the shard that is next to give up entries.
type clockHand struct {
	table, group int
}

// Tidy does the maintenance that is due after memory was taken: it moves entries, so no slice that a table of the store has
// returned is valid afterwards. The owner calls it between two batches, when no operator holds one. It costs nothing
// where nothing is due.
func (s *Store) Tidy() error {
	if len(s.grown) == 0 {
		return nil
	}
	for _, g := range s.grown {
		sh := g.shard
		if sh.garbage <= sh.arena.used()/2 || sh.arena.size < sh.rebuildAt {
			continue
		}
		if err := s.rebuild(g.table, sh, s.keepAll(s.absorbed.Load())); err != nil {
			return err
		}
	}
	clear(s.grown)
	s.grown = s.grown[:0]
	// While changes wait to be persisted in bulk, eviction would mostly copy what must stay.
	if s.cold != nil && int64(s.bytes) > s.options.CacheBytes && !s.Full() {
		return s.evict()
	}
	return nil
}

// evict lets the clock hand go over the shards until memory is under its limit again, one turn at most. An entry that was
// used since the hand last passed stays, unless memory is an eighth over the limit: then only what the cold tier does not
// have stays.
func (s *Store) evict() error {
	absorbed := s.absorbed.Load()
	for turns := len(s.tables) * s.options.Groups; turns > 0 && int64(s.bytes) > s.options.CacheBytes; turns-- {
		t, sh := s.advance()
		if sh == nil || sh.used == 0 {
			continue
		}
		force := int64(s.bytes) > s.options.CacheBytes+s.options.CacheBytes/8
		if err := s.rebuild(t, sh, s.keepHot(sh, absorbed, force)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) advance() (*Table, *shard) {
	h := &s.hand
	if h.group++; h.group >= s.options.Groups {
		h.group, h.table = 0, (h.table+1)%len(s.tables)
	}
	t := s.tables[h.table]
	return t, t.shards[h.group]
}

func (s *Store) rebuild(t *Table, sh *shard, keep keeper) error {
	before := sh.bytes()
	if err := sh.rebuild(s.generation, t.hash, keep); err != nil {
		return err
	}
	s.bytes += sh.bytes() - before
	return nil
}

// keepAll drops tombstones that the cold tier has, or that nothing needs because there is none.
func (s *Store) keepAll(absorbed uint32) keeper {
	return func(_ uint64, e entry) bool {
		return !e.tombstone() || s.cold != nil && e.generation() > absorbed
	}
}

// keepHot also drops entries that the cold tier has and that were not used lately, and notes that the shard no longer knows
// every key.
func (s *Store) keepHot(sh *shard, absorbed uint32, force bool) keeper {
	return func(slot uint64, e entry) bool {
		if e.generation() > absorbed || slot&clockBit != 0 && !force && !e.tombstone() {
			return true
		}
		sh.incomplete = sh.incomplete || !e.tombstone()
		return false
	}
}
