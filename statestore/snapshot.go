package statestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/record"
)

// ErrOrder means that a snapshot was persisted out of turn or twice: a fault of the caller.
var ErrOrder = errors.New("snapshots must be persisted one at a time, in the order in which they were frozen")

// Snapshot is the state of one operator in one subtask as it was at a barrier. Its methods may be called by any one goroutine.
type Snapshot struct {
	store      *Store
	n          record.CheckpointID
	generation uint32
	bytes      int
	tables     []*Table
	parts      []part
	groups     groupSet
	extent     extent
	released   bool // guarded by store.queue
	// How far Pebble has come with it; guarded by turn. Of a base the database has the entries, of a delta the file is
	// written, and stored.
	absorbed, written, stored bool
}

// extent is which entries a snapshot holds.
type extent uint8

const (
	// changes is a delta: what its generation changed.
	changes extent = iota
	// unabsorbed is all that the cold tier does not have yet: together with that it is the whole state.
	unabsorbed
	// folded is the same as unabsorbed, to be stored as a delta.
	folded
	// everything is the whole state, where there is no cold tier.
	everything
)

// part is what a snapshot reads of one shard. chunks and index are the slices of the moment of freezing: what the owner
// adds later lies behind their length or in copies, see doc.go.
type part struct {
	table  *Table // only its name and id are read
	group  record.KeyGroup
	chunks [][]byte
	next   int      // where the used part of the last chunk ended
	refs   []uint32 // entries that the generation changed
	index  []uint64 // all entries; nil with a cold tier
}

// Checkpoint returns the number that Freeze was given.
func (s *Snapshot) Checkpoint() record.CheckpointID { return s.n }

// Persist stores the snapshot durably and returns where it lies. It runs in the background of the stream, strictly in
// the order of freezing, one at a time. After an error other than ErrOrder it may be called again; what has been
// uploaded is not uploaded twice. Store.Err then tells whether trying again is allowed.
func (s *Snapshot) Persist(ctx context.Context, up Uploader) (record.StateHandle, error) {
	begin := time.Now()
	older, err := s.store.begin(s)
	if err != nil {
		return record.StateHandle{}, err
	}
	done := false
	defer func() { s.store.end(s, done) }()
	handle, err := s.persist(ctx, older, up)
	if err != nil {
		return record.StateHandle{}, fmt.Errorf("%s at checkpoint %d: %w", s.store.options, s.n, err)
	}
	done = true
	s.store.figures.persistNanos.Store(int64(time.Since(begin)))
	return handle, nil
}

func (s *Snapshot) persist(ctx context.Context, older []*Snapshot, up Uploader) (record.StateHandle, error) {
	if err := s.store.Err(); err != nil {
		return record.StateHandle{}, err
	}
	handle, err := s.store.backend.persist(ctx, append(older, s), up)
	o := s.store.options
	handle.Subtask, handle.Operator, handle.Backend = o.Subtask, o.Operator, string(o.Backend)
	handle.KeyGroups = s.groups.list()
	return handle, err
}

// Release gives the snapshot up: no handle will be asked for. Its changes stay part of the state, and are stored with the
// next snapshot that is persisted. It must not be called during Persist.
func (s *Snapshot) Release() {
	s.store.queue.Lock()
	defer s.store.queue.Unlock()
	s.released = true
}

// begin takes the turn of snap and returns the released snapshots before it, whose changes come first.
func (s *Store) begin(snap *Snapshot) (older []*Snapshot, err error) {
	s.queue.Lock()
	defer s.queue.Unlock()
	at := slices.Index(s.queue.pending, snap)
	if s.queue.busy || at < 0 || snap.released {
		return nil, fmt.Errorf("checkpoint %d: %w", snap.n, ErrOrder)
	}
	for _, before := range s.queue.pending[:at] {
		if !before.released {
			return nil, fmt.Errorf("checkpoint %d before %d: %w", snap.n, before.n, ErrOrder)
		}
	}
	s.queue.busy = true
	return slices.Clone(s.queue.pending[:at]), nil
}

// end gives the turn back. The store of persisted is what allows the owner to change the snapshot's entries in place: all
// reads of them have happened before.
func (s *Store) end(snap *Snapshot, done bool) {
	s.queue.Lock()
	defer s.queue.Unlock()
	s.queue.busy = false
	if !done {
		return
	}
	at := slices.Index(s.queue.pending, snap)
	for _, gone := range s.queue.pending[:at+1] {
		s.figures.frozenBytes.Add(-int64(gone.bytes))
		gone.parts, gone.tables = nil, nil
	}
	s.queue.pending = slices.Delete(s.queue.pending, 0, at+1)
	s.persisted.Store(snap.generation)
}

// groupSet is a set of key groups as bits.
type groupSet []uint64

func (g *groupSet) add(group, groups int) {
	if *g == nil {
		*g = make(groupSet, (groups+63)/64)
	}
	(*g)[group/64] |= 1 << (group % 64)
}

func (g groupSet) list() []record.KeyGroup {
	var list []record.KeyGroup
	for i := range 64 * len(g) {
		if g[i/64]&(1<<(i%64)) != 0 {
			list = append(list, record.KeyGroup(i))
		}
	}
	return list
}
