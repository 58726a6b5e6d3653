package statestore

import (
	"sync/atomic"
	"time"
)

// Metrics are the figures of one store. Those of the owner goroutine are as of the last Freeze.
type Metrics struct {
	// Entries and Bytes are what memory holds; Bytes includes free room.
	Entries, Bytes int64
	// DirtyBytes is the size of the changes since the last Freeze, at the last Freeze; FrozenBytes that of the changes
	// that wait to be persisted now.
	DirtyBytes, FrozenBytes int64
	// Hits and Misses count accesses that found their key in memory and those that asked the cold tier.
	Hits, Misses int64
	// Freeze and Persist are how long the last of each took.
	Freeze, Persist time.Duration
}

type figures struct {
	entries, bytes, dirtyBytes, frozenBytes, hits, misses, freezeNanos, persistNanos atomic.Int64
}

// publish is called by the owner goroutine, just after a freeze.
func (s *Store) publish(freeze time.Duration, dirty int) {
	entries := 0
	for _, t := range s.tables {
		for _, sh := range t.shards {
			if sh != nil {
				entries += sh.live
			}
		}
	}
	s.figures.entries.Store(int64(entries))
	s.figures.bytes.Store(int64(s.bytes))
	s.figures.dirtyBytes.Store(int64(dirty))
	s.figures.hits.Store(s.hits)
	s.figures.misses.Store(s.misses)
	s.figures.freezeNanos.Store(int64(freeze))
}

// Metrics returns the figures. Any goroutine may call it.
func (s *Store) Metrics() Metrics {
	f := &s.figures
	return Metrics{
		Entries: f.entries.Load(), Bytes: f.bytes.Load(),
		DirtyBytes: f.dirtyBytes.Load(), FrozenBytes: f.frozenBytes.Load(),
		Hits: f.hits.Load(), Misses: f.misses.Load(),
		Freeze: time.Duration(f.freezeNanos.Load()), Persist: time.Duration(f.persistNanos.Load()),
	}
}
