package coordinator

import (
	"context"
	"time"

	"github.com/weirstream/weir/barrier"
	"github.com/weirstream/weir/record"
)

// Complete is a checkpoint to which every subtask has contributed.
type Complete struct {
	Checkpoint record.CheckpointID
	Attempt    record.Attempt
	Identity   record.Identity
	Positions  []record.Position
	States     []record.StateHandle
}

// Transactions opens and ends the transactions of a job. A slot is one transactional id of its pool.
type Transactions interface {
	// Open begins the next transaction of a slot: when it returns, every output partition belongs to it.
	Open(ctx context.Context, slot int) (record.Identity, error)
	// Commit writes witness and offsets and commits, answering nil only when the commit is certain.
	Commit(ctx context.Context, p barrier.Permit, manifest record.Blob, c Complete) error
	// Release makes sure that nothing of the slot's last transaction is stuck, so that the slot may be used again.
	Release(ctx context.Context, slot int, last record.Identity) error
	// Abort ends an open transaction without effect.
	Abort(ctx context.Context, slot int, open record.Identity) error
}

// Checkpoints stores manifests.
type Checkpoints interface {
	// Prepare writes the manifest of c and returns when it is durable.
	Prepare(ctx context.Context, c Complete) (record.Blob, error)
	// Committed is told of each committed checkpoint in order, to collect older ones. It must not block for long.
	Committed(n record.CheckpointID, manifest record.Blob)
}

// Subtasks are all subtasks of the job.
type Subtasks interface {
	Begin(first record.Identity)
	Trigger(b record.Barrier)
}

// Observer is told how checkpoints come along, for metrics.
type Observer interface {
	// Phase is called when a phase of a checkpoint ends: barrier (trigger until the last acknowledgement), manifest,
	// commit (witness, offsets and EndTxn) and total (trigger until committed).
	Phase(n record.CheckpointID, phase string, took time.Duration)
}

// Options are what an attempt's coordinator is built from.
type Options struct {
	Core barrier.CoordinatorOptions
	// Interval is the time between two triggers. The first one comes sooner.
	Interval time.Duration
	// TransactionTimeout is the broker's limit on an open transaction; 0 where there are none.
	TransactionTimeout time.Duration
	Transactions       Transactions
	Checkpoints        Checkpoints
	Subtasks           Subtasks
	Observer           Observer
}
