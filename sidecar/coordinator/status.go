package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/weirstream/weir/record"
)

// Status is a picture of the coordinator at one moment.
type Status struct {
	// Last is the last checkpoint committed in this attempt; its Checkpoint is 0 before the first.
	Last Committed
	// Open are the checkpoints between trigger and commit, oldest first.
	Open []Open
	// Transactions are those whose timeout runs, oldest first.
	Transactions []Transaction
}

// Committed is a checkpoint whose transaction is committed.
type Committed struct {
	Checkpoint record.CheckpointID
	At         time.Time
	Manifest   record.Blob
}

// Open is a checkpoint in progress.
type Open struct {
	Checkpoint record.CheckpointID
	// Phase is barrier, manifest, prepared or commit; Since when it is in it.
	Phase string
	Since time.Time
	// Acknowledged are the subtasks that have reported.
	Acknowledged []int
}

// Transaction is an open transaction.
type Transaction struct {
	Identity record.Identity
	Since    time.Time
}

// Status returns the latest picture. Any goroutine may call it.
func (c *Coordinator) Status() Status { return *c.status.Load() }

func (c *Coordinator) publish() {
	s := &Status{Last: c.last}
	for _, n := range slices.Sorted(maps.Keys(c.open)) {
		p := c.open[n]
		s.Open = append(s.Open, Open{n, p.phase, p.since, slices.Clone(p.acked)})
	}
	for _, o := range c.opened {
		s.Transactions = append(s.Transactions, Transaction{o.identity, o.at})
	}
	c.status.Store(s)
}
