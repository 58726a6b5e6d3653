package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirstream/weir/exchange"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology"
)

// Source hands out what was fetched for one subtask. Its methods are called by the subtask's goroutine.
type Source interface {
	// Poll returns the next batch, of one partition, or nil when none is ready; then the subtask is woken when one is.
	Poll() *record.Batch
	// Release gives a batch back once its records were processed.
	Release(*record.Batch)
	// Position describes a partition that was not there at the start. Its offset is where reading starts.
	Position(record.SourcePartition) record.Position
}

// Sink takes the results of one subtask. Its methods are called by the subtask's goroutine and do not block.
type Sink interface {
	// Begin sets the first transaction. It is called once, before the first Write.
	Begin(record.Identity)
	// Write copies the records (not the bytes they refer to). The partition is the record's group mod the output's
	// partition count.
	Write(output int, records []record.Record) error
	// Full says that the subtask should hold back. It is woken when that changes.
	Full() bool
	// Flush sends what is accumulated: the subtask has nothing else to do.
	Flush()
	// Barrier ends the transaction of checkpoint n for this subtask and goes on with next. When all writes of n are
	// acknowledged and none is in flight, Subtask.Written(n) must be called.
	Barrier(n record.CheckpointID, next record.Identity)
}

// State is the keyed state of one operator in one subtask.
type State interface {
	// Table opens a table, at start only.
	Table(name string) (topology.Table, error)
	// Freeze marks the state as of barrier n; called by the subtask's goroutine, it takes microseconds.
	Freeze(n record.CheckpointID) Snapshot
	// Tidy does maintenance; it is called between two batches, when no operator holds memory of a table.
	Tidy() error
	// Full says that so much is changed and not yet durable that the subtask should stop reading until a barrier has
	// passed. What is on its way to a barrier is still processed.
	Full() bool
}

// Snapshot is frozen state on its way to durable storage.
type Snapshot interface {
	// Persist makes the state durable, trying again what may pass: an error ends the attempt. It is called once, from one
	// goroutine in the order of the checkpoints.
	Persist(ctx context.Context) (record.StateHandle, error)
}

// ErrStateLost says that state cannot be made durable from here any more, as after a failed fsync.
var ErrStateLost = errors.New("the state on this disk must not be trusted any more")

// RecordError is the end of a job at a record that an operator cannot process, where on_error is fail.
type RecordError struct {
	Operator string
	// Source, Topic, Partition and Offset say where the record came from; Source is empty where several made it.
	Source, Topic string
	Partition     int32
	Offset        int64
	Cause         error
}

// Error names the record, what is wrong with it, and what may be done.
func (e *RecordError) Error() string {
	where, policy := "a record", ""
	if e.Source != "" {
		where = fmt.Sprintf("the record at offset %d of %s-%d", e.Offset, e.Topic, e.Partition)
		policy = fmt.Sprintf(" of source %s (sources.%s.on_error)", e.Source, e.Source)
	}
	return fmt.Sprintf("%s cannot be processed: %v; the policy%s is to fail: mend the pipeline, or let on_error be dead_letter or drop; "+
		"the next start comes to this record again", where, e.Cause, policy)
}

// Unwrap returns what is wrong with the record.
func (e *RecordError) Unwrap() error { return e.Cause }

// OperatorDecides marks errors that no restart can mend: the record comes again.
func (e *RecordError) OperatorDecides() bool { return true }

// ErrOperator marks an error or panic of an operator: the same input brings it up again.
var ErrOperator = errors.New("operator")

// Report is a subtask's acknowledgement of a checkpoint: its state is durable and its results are written.
type Report struct {
	Attempt    record.Attempt
	Checkpoint record.CheckpointID
	Subtask    int
	Positions  []record.Position
	States     []record.StateHandle
	// Align is how long channels were held for the barrier, Freeze how long the stream stood still, Persist how long it
	// took to make the state durable, Write how long the acknowledgement of the writes took after that.
	Align, Freeze, Persist, Write time.Duration
}

// Options are what a subtask is built from.
type Options struct {
	Index   int
	Plan    *topology.Plan
	Attempt record.Attempt
	Waker   Waker
	Source  Source
	Sink    Sink
	// State opens the state of a keyed step.
	State func(step int) (State, error)
	Mesh  *exchange.Mesh
	// Positions are those of the partitions that this subtask reads.
	Positions map[record.SourcePartition]record.Position
	// InFlight is the most checkpoints that may be open at once.
	InFlight int
	// Report takes an acknowledgement. It is called by the snapshot goroutine and may block.
	Report func(context.Context, Report) error
	Logger *slog.Logger
}

// Waker lets a subtask sleep until something changed for it.
type Waker chan struct{}

// NewWaker returns a waker.
func NewWaker() Waker { return make(Waker, 1) }

// Wake ends the present or the next sleep. It never blocks and may be called by any goroutine.
func (w Waker) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}
