package barrier

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/record"
)

// ErrExpiring ends an attempt whose oldest transaction comes near its timeout. Its results would be aborted by Kafka
// anyway, and never without those of the checkpoints after it.
var ErrExpiring = errors.New("transaction comes near its timeout")

// ErrCommitUnknown ends an attempt in which no answer tells whether a transaction is committed. Recovery finds out.
var ErrCommitUnknown = errors.New("outcome of the commit is unknown")

// CoordinatorOptions describe one attempt.
type CoordinatorOptions struct {
	Attempt record.Attempt
	// Subtasks is the number of acknowledgements that complete a checkpoint.
	Subtasks int
	// Next is the first checkpoint to be triggered: one more than the last committed.
	Next record.CheckpointID
	// Slots is the number of transactional ids, at least 2, or 0 for a job without transactions.
	Slots int
	// MaxInFlight bounds the checkpoints that are triggered and not committed.
	MaxInFlight int
}

func (o CoordinatorOptions) validate() error {
	switch {
	case o.Subtasks < 1:
		return fmt.Errorf("a coordinator of %d subtasks", o.Subtasks)
	case o.Next < 1:
		return fmt.Errorf("checkpoints start at 1, not at %d", o.Next)
	case o.Slots < 0 || o.Slots == 1:
		return fmt.Errorf("%d transactional ids: one transaction must be open while another is committed", o.Slots)
	case o.MaxInFlight < 1:
		return fmt.Errorf("at most %d checkpoints in flight", o.MaxInFlight)
	}
	return nil
}

// Coordinator drives the checkpoints of one attempt, from the first transaction to the end of the attempt or the last
// commit after a Stop.
type Coordinator struct {
	opts CoordinatorOptions
	// begun is set by Begin; started once the sources run.
	begun, started bool
	// due is set while an interval has elapsed without a trigger. The barrier of a drain is due from Stop on.
	due      bool
	draining bool
	// drained is set once the final barrier is out, or there is nothing that needs one.
	drained bool
	over    bool
	// next is the checkpoint whose records are being read now; current is the slot of its transaction.
	next    record.CheckpointID
	current int
	slots   []slot
	// ready lists the open slots that no barrier has named yet, oldest first; flight the checkpoints that are triggered
	// and not committed, by number.
	ready  []int
	flight []flight
	out    []Action
}

// noSlot stands for the slot of a checkpoint without a transaction.
const noSlot = -1

// NewCoordinator returns a coordinator that waits for Begin.
func NewCoordinator(o CoordinatorOptions) (*Coordinator, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("checkpoint coordinator: %w", err)
	}
	return &Coordinator{opts: o, next: o.Next, current: noSlot, slots: make([]slot, o.Slots)}, nil
}

// InFlight returns the number of checkpoints that are triggered and not committed.
func (c *Coordinator) InFlight() int { return len(c.flight) }

// Step takes one event and returns what is to be done about it. After EndAttempt or Finished it returns nothing,
// whatever comes.
func (c *Coordinator) Step(e Event) []Action {
	if c.over {
		return nil
	}
	c.out = nil
	if err := c.take(e); err != nil {
		c.end(err)
		return c.out
	}
	c.prepare()
	c.commit()
	c.trigger()
	c.finish()
	return c.out
}

// take records what e says. An error ends the attempt.
func (c *Coordinator) take(e Event) error {
	switch e := e.(type) {
	case Begin:
		return c.begin()
	case IntervalElapsed:
		c.due = c.started
	case TransactionOpened:
		return c.opened(e.Slot, e.Identity)
	case SlotReleased:
		return c.released(e.Slot)
	case Acknowledged:
		return c.acknowledged(e)
	case Prepared:
		return c.advance(e.Checkpoint, preparing, prepared)
	case Committed:
		return c.committed(e.Checkpoint)
	case CommitUnknown:
		return fmt.Errorf("checkpoint %d: %w: %w", e.Checkpoint, ErrCommitUnknown, e.Cause)
	case Expiring:
		if e.Checkpoint >= c.oldest() {
			return fmt.Errorf("checkpoint %d: %w", e.Checkpoint, ErrExpiring)
		}
	case Failed:
		return fmt.Errorf("attempt %d: %w", c.opts.Attempt, e.Cause)
	case Stop:
		c.draining = true
	}
	return nil
}

func (c *Coordinator) begin() error {
	if c.begun {
		return fmt.Errorf("%w: the attempt began twice", ErrProtocol)
	}
	c.begun = true
	for i := range c.slots {
		c.open(i)
	}
	if len(c.slots) == 0 {
		c.start(record.Identity{})
	}
	return nil
}

func (c *Coordinator) start(i record.Identity) {
	c.started = true
	c.emit(Start{i})
}

// trigger sends the next barrier where one is due and everything that it needs is there.
func (c *Coordinator) trigger() {
	if !c.started || c.drained || !c.due && !c.draining || len(c.flight) == c.opts.MaxInFlight {
		return
	}
	b := record.Barrier{Checkpoint: c.next, Attempt: c.opts.Attempt, Final: c.draining}
	following := noSlot
	if !c.draining && len(c.slots) > 0 {
		if len(c.ready) == 0 {
			return
		}
		following, c.ready = c.ready[0], c.ready[1:]
		b.Next = c.slots[following].identity
	}
	c.flight = append(c.flight, newFlight(c.next, c.current, c.opts.Subtasks))
	c.current = following
	c.next++
	c.due, c.drained = false, c.draining
	c.emit(Trigger{b})
}

// finish closes what a drained attempt leaves behind.
func (c *Coordinator) finish() {
	if !c.draining || len(c.flight) > 0 {
		return
	}
	if !c.started { // no record was read, so no barrier is needed
		c.drained = true
	}
	if !c.drained {
		return
	}
	for _, i := range c.ready {
		c.abort(i)
	}
	c.ready = nil
	if !slices.ContainsFunc(c.slots, func(s slot) bool { return s.state != free }) {
		c.over = true
		c.emit(Finished{})
	}
}

func (c *Coordinator) end(cause error) {
	c.over = true
	c.emit(EndAttempt{cause})
}

func (c *Coordinator) emit(a Action) { c.out = append(c.out, a) }
