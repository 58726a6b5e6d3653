package barrier

import "github.com/weirstream/weir/record"

// Event is what a Coordinator is told by its driver.
type Event interface{ event() }

// Begin starts the attempt. Recovery is over: every transactional id is fenced and nothing of an older attempt is open.
type Begin struct{}

// IntervalElapsed asks for the next checkpoint.
type IntervalElapsed struct{}

// TransactionOpened answers OpenTransaction: writers may use Identity, and no transaction before had it. The identity must
// be obtained on the condition that the slot's last one is still current, so that a deposed attempt learns that it is.
type TransactionOpened struct {
	Slot     int
	Identity record.Identity
}

// Acknowledged says that a subtask is done with a checkpoint: its state is durable and everything that it wrote before
// the barrier is acknowledged by Kafka, with nothing in flight. It may arrive late or twice, and from an older attempt.
type Acknowledged struct {
	Attempt    record.Attempt
	Checkpoint record.CheckpointID
	Subtask    int
}

// Prepared answers Prepare: the manifest is durable.
type Prepared struct{ Checkpoint record.CheckpointID }

// Committed answers Commit: EndTxn(commit) returned success.
type Committed struct{ Checkpoint record.CheckpointID }

// CommitUnknown answers Commit where no answer of Kafka tells whether the transaction is committed.
type CommitUnknown struct {
	Checkpoint record.CheckpointID
	Cause      error
}

// SlotReleased answers ReleaseSlot and AbortSlot: the last transaction of the slot is over, with its markers written in
// every partition.
type SlotReleased struct{ Slot int }

// Expiring says that the transaction of a checkpoint comes near its timeout.
type Expiring struct{ Checkpoint record.CheckpointID }

// Failed ends the attempt: a subtask, a writer or an action failed for good.
type Failed struct{ Cause error }

// Stop asks for a last checkpoint, after which nothing stays open.
type Stop struct{}

func (Begin) event()             {}
func (IntervalElapsed) event()   {}
func (TransactionOpened) event() {}
func (Acknowledged) event()      {}
func (Prepared) event()          {}
func (Committed) event()         {}
func (CommitUnknown) event()     {}
func (SlotReleased) event()      {}
func (Expiring) event()          {}
func (Failed) event()            {}
func (Stop) event()              {}

// Action is what a Coordinator asks its driver to do. Actions of one Step are started in their order; they may finish
// in any.
type Action interface{ action() }

// OpenTransaction asks for a fresh identity of the slot's transactional id, with all partitions added to it.
type OpenTransaction struct{ Slot int }

// Start lets the sources begin. Results go to Identity, which is zero where the job has no transactions.
type Start struct{ Identity record.Identity }

// Trigger sends a barrier to every source subtask.
type Trigger struct{ Barrier record.Barrier }

// Prepare asks for the manifest of a checkpoint, whose results are in the transaction Identity, to be made durable.
type Prepare struct {
	Checkpoint record.CheckpointID
	Identity   record.Identity
}

// Commit asks for witness and offsets to be written into the transaction and for its EndTxn(commit).
type Commit struct{ Permit Permit }

// NotifyCommitted tells the subtasks, and whoever collects old checkpoints, that a checkpoint is committed.
type NotifyCommitted struct{ Checkpoint record.CheckpointID }

// ReleaseSlot asks for proof that the markers of the committed transaction Identity are in all its partitions.
type ReleaseSlot struct {
	Slot     int
	Identity record.Identity
}

// AbortSlot asks for the transaction Identity, which nothing was written to, to be aborted.
type AbortSlot struct {
	Slot     int
	Identity record.Identity
}

// EndAttempt is the last action of an attempt that did not drain: everything stops, and recovery decides.
type EndAttempt struct{ Cause error }

// Finished is the last action of an attempt that drained: all is committed and no transaction is open.
type Finished struct{}

func (OpenTransaction) action() {}
func (Start) action()           {}
func (Trigger) action()         {}
func (Prepare) action()         {}
func (Commit) action()          {}
func (NotifyCommitted) action() {}
func (ReleaseSlot) action()     {}
func (AbortSlot) action()       {}
func (EndAttempt) action()      {}
func (Finished) action()        {}
