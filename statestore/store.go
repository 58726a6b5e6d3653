package statestore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/record"
)

// Classes of what Err returns and Persist wraps.
var (
	// ErrSync means that the operating system could not make a file durable, and may say the contrary next time.
	ErrSync = errors.New("fsync failed: the files of this process cannot be trusted any more")
	// ErrBroken means that the database under the state cannot go on.
	ErrBroken = errors.New("the state database stopped")
	// ErrNoSpace means that the disk under the state is nearly full: free some, and the next try will do.
	ErrNoSpace = errors.New("no space left for state")
)

// Uploader puts files into the checkpoint store.
type Uploader interface {
	// Upload stores the file at path durably under name, which is relative to the state of the job. The file never changes
	// afterwards, so an implementation may link instead of copying. Storing the same content again is no error; other
	// content under a name that is taken is one.
	Upload(ctx context.Context, name, path string) (record.Blob, error)
}

// Fetcher brings files back from the checkpoint store.
type Fetcher interface {
	// Download puts the blob at path after checking size and digest. The file may share its storage with the store, and is
	// never written to.
	Download(ctx context.Context, blob record.Blob, path string) error
}

// backend is what differs between the ways to keep state. absorb and persist are called by the background, one call at a
// time; committed at any time; close by the owner when no other call runs.
type backend interface {
	// absorb puts what a snapshot holds where the cold tier finds it, if there is one.
	absorb(ctx context.Context, s *Snapshot) error
	// persist stores the state as of the last of snaps. Those before it were released since the last call.
	persist(ctx context.Context, snaps []*Snapshot, up Uploader) (record.StateHandle, error)
	committed(n record.CheckpointID) error
	close() error
}

// coldTier finds what is not in memory. The value is valid until the next call.
type coldTier interface {
	get(table uint32, group record.KeyGroup, key []byte) (value []byte, found bool, err error)
}

type grownShard struct {
	shard *shard
	table *Table
}

// Store is the keyed state of one operator in one subtask. Its methods belong to the goroutine of the subtask, except where
// they say otherwise; Snapshots are handed to one background goroutine.
type Store struct {
	options Options
	owned   func(record.KeyGroup) bool
	tables  []*Table // by id
	backend backend
	cold    coldTier // nil where memory holds everything
	memory

	// persisted is the newest generation on whose entries no snapshot depends any more; the background raises it.
	persisted atomic.Uint32
	// absorbed is the newest generation that the cold tier has, with all before it; the background raises it.
	absorbed atomic.Uint32
	// rooted says that the chain of this run's checkpoints holds all that the cold tier has: there is a base, or nothing
	// was restored. The background sets it.
	rooted  atomic.Bool
	failure atomic.Pointer[error]
	figures figures

	queue struct {
		sync.Mutex
		pending []*Snapshot // in the order of freezing: not persisted yet
		busy    bool        // a Persist is running
	}
}

// memory is the accounting of the owner goroutine.
type memory struct {
	generation uint32
	bytes      int // of all shards
	dirtyBytes int // of the current generation
	// walked is the generation of the newest snapshot that reads entries of older generations too.
	walked uint32
	since  growth
	hits   int64
	misses int64
	// grown are the shards that have taken memory since the last maintenance.
	grown []grownShard
	hand  clockHand
}

// growth is what has been frozen as deltas: the bytes since the last base, and bytes and number since the deltas were last
// folded into one, or that base.
type growth struct {
	sinceBase, bytes, deltas int
}

// Open starts a store that is empty or holds the key groups in owned of what restore refers to: the states of all
// subtasks and operators of one checkpoint, written by any number of subtasks and any back end; those of other operators
// are left out. Whatever lies in the folder from before is deleted, never read: only a checkpoint is known to be whole. A
// nil owned owns all key groups.
func Open(ctx context.Context, o Options, restore []record.StateHandle, fetch Fetcher,
	owned func(record.KeyGroup) bool) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", o, err)
	}
	if owned == nil {
		owned = func(record.KeyGroup) bool { return true }
	}
	s := &Store{options: o.withDefaults(), owned: owned}
	s.generation = 1
	if err := s.open(ctx, restore, fetch); err != nil {
		err = fmt.Errorf("%s: %w", o, err)
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Table opens a table; the second call for a name returns the same one.
func (s *Store) Table(name string) (*Table, error) {
	if len(name) == 0 || len(name) > maxName {
		return nil, fmt.Errorf("%s: table %q: a name must have 1 to %d bytes", s.options, name, maxName)
	}
	for _, t := range s.tables {
		if t.name == name {
			return t, nil
		}
	}
	return s.addTable(name), nil
}

const maxName = 1 << 10

func (s *Store) addTable(name string) *Table {
	t := &Table{id: uint32(len(s.tables)), name: name, store: s, seed: maphash.MakeSeed(),
		shards: make([]*shard, s.options.Groups)}
	s.tables = append(s.tables, t)
	return t
}

// Freeze closes the current set of changes as the state of checkpoint n. It takes microseconds: work is proportional to
// the key groups, not to the entries.
func (s *Store) Freeze(n record.CheckpointID) *Snapshot {
	begin := time.Now()
	snap := s.freeze()
	snap.n = n
	s.publish(time.Since(begin), snap.bytes)
	return snap
}

func (s *Store) freeze() *Snapshot {
	snap := &Snapshot{store: s, generation: s.generation, bytes: s.dirtyBytes, tables: s.tables[:len(s.tables):len(s.tables)],
		extent: s.nextExtent()}
	if snap.extent != changes {
		s.walked = s.generation
	}
	absorbed := s.absorbed.Load()
	for _, t := range s.tables {
		for group, sh := range t.shards {
			if sh == nil {
				continue
			}
			snap.groups.add(group, s.options.Groups)
			if p, ok := sh.freeze(s.generation, snap.extent, absorbed); ok {
				p.table, p.group = t, record.KeyGroup(group)
				snap.parts = append(snap.parts, p)
			}
		}
	}
	s.generation++
	s.dirtyBytes = 0
	s.queue.Lock()
	s.queue.pending = append(s.queue.pending, snap)
	s.queue.Unlock()
	s.figures.frozenBytes.Add(int64(snap.bytes))
	return snap
}

// maxDeltas bounds the files between two bases: each is named in every manifest, and read in a restore.
const maxDeltas = 64

// nextExtent decides what the next snapshot has to hold. A base makes room: what it moves to the cold tier may leave memory,
// and its deltas need not be read in a restore. It costs ten times as much for an entry as a delta. So as long as memory has
// room, and what is not in the cold tier is less than a restore may have to read, the deltas are folded into one instead,
// unless that would write much for little change.
func (s *Store) nextExtent() extent {
	g, limit := &s.since, s.options.DeltaBytes
	sinceBase, sinceFold := int64(g.sinceBase+s.dirtyBytes), int64(g.bytes+s.dirtyBytes)
	kept := min(sinceBase, int64(s.bytes)) // what the cold tier does not have, at most
	pressed := int64(s.bytes) > s.options.CacheBytes/2 && sinceBase >= limit/2
	due := sinceFold >= limit || g.deltas == maxDeltas
	switch {
	case s.cold == nil:
		return everything
	case !s.rooted.Load(), pressed, due && (kept >= limit || sinceFold < kept/2):
		*g = growth{}
		return unabsorbed
	case due:
		*g = growth{sinceBase: int(sinceBase), deltas: 1}
		return folded
	case s.dirtyBytes > 0:
		g.sinceBase, g.bytes = int(sinceBase), int(sinceFold)
		g.deltas++
	}
	return changes
}

// freeze captures the shard for a snapshot and starts a new list of changes. It says whether the snapshot needs the shard.
func (s *shard) freeze(generation uint32, e extent, absorbed uint32) (p part, needed bool) {
	p = part{chunks: s.arena.chunks, next: s.arena.next, refs: s.dirty}
	needed = len(s.dirty) > 0
	if needed {
		s.changed = generation
	}
	switch e {
	case unabsorbed, folded:
		needed = s.changed > absorbed
	case everything:
		p.index, s.walker = s.index, generation
		needed = needed || s.live > 0
	}
	s.dirty, s.lastDirty = nil, len(s.dirty)
	return p, needed
}

// Full says that the changes not yet persisted have reached their bound: the subtask should take no more input until a
// checkpoint has been persisted.
func (s *Store) Full() bool {
	return int64(s.dirtyBytes)+s.figures.frozenBytes.Load() >= s.options.DirtyBytes
}

// Committed tells that checkpoint n is committed: local copies of older ones are dropped. Any goroutine may call it.
func (s *Store) Committed(n record.CheckpointID) error { return s.backend.committed(n) }

// Close releases memory and files. Every Persist must have returned. What was not persisted is gone, as intended.
func (s *Store) Close() error {
	if s.backend == nil {
		return nil
	}
	return s.backend.close()
}

// Err returns what made the store unusable, or nil. Any goroutine may call it. After ErrSync the process must end: nobody
// knows what the operating system kept of the files. After ErrBroken a store opened anew from a checkpoint will do.
func (s *Store) Err() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *Store) fail(err error) { s.failure.CompareAndSwap(nil, &err) }

// mayChange says whether no snapshot needs the bytes of an entry of generation g any more. A delta reads only the entries
// that its generation changed; other snapshots read older ones too, so nothing but the current generation may change
// while one of them is pending.
func (s *Store) mayChange(g uint32) bool {
	if g == s.generation {
		return true
	}
	persisted := s.persisted.Load()
	return g <= persisted && s.walked <= persisted
}

// touch notes a hit and, where entries can be evicted, that the key is in use.
func (s *Store) touch(sh *shard, place int) {
	s.hits++
	if s.cold != nil {
		sh.index[place] |= clockBit
	}
}
