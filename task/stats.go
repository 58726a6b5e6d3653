package task

import "sync/atomic"

// Stats are counters of one subtask since its start. They may be read by any goroutine.
type Stats struct {
	RecordsIn, RecordsOut atomic.Int64
	// Dropped and DeadLetters count records that an operator could not process, by what became of them.
	Dropped, DeadLetters atomic.Int64
}

// Stats returns the subtask's counters.
func (s *Subtask) Stats() *Stats { return &s.stats }
