package barrier

import (
	"fmt"

	"github.com/weirstream/weir/record"
)

// phase is how far a triggered checkpoint has come.
type phase uint8

const (
	collecting phase = iota // acknowledgements are missing
	preparing               // the manifest is being written
	prepared                // the manifest is durable
	committing              // the permit is given out
)

// flight is a checkpoint between its trigger and its commit.
type flight struct {
	checkpoint record.CheckpointID
	slot       int
	phase      phase
	acked      []bool
	missing    int
}

func newFlight(n record.CheckpointID, slot, subtasks int) flight {
	return flight{checkpoint: n, slot: slot, acked: make([]bool, subtasks), missing: subtasks}
}

// oldest returns the first checkpoint that is not committed.
func (c *Coordinator) oldest() record.CheckpointID {
	return c.next - record.CheckpointID(len(c.flight))
}

// find returns the flight of checkpoint n, nil where there is none.
func (c *Coordinator) find(n record.CheckpointID) *flight {
	if n < c.oldest() || n >= c.next {
		return nil
	}
	return &c.flight[n-c.oldest()]
}

// acknowledged ignores what is stale: another attempt, a checkpoint that is over, a repetition.
func (c *Coordinator) acknowledged(e Acknowledged) error {
	if e.Attempt != c.opts.Attempt {
		return nil
	}
	if e.Checkpoint >= c.next || e.Subtask < 0 || e.Subtask >= c.opts.Subtasks {
		return fmt.Errorf("%w: subtask %d acknowledged checkpoint %d before its trigger", ErrProtocol, e.Subtask, e.Checkpoint)
	}
	f := c.find(e.Checkpoint)
	if f == nil || f.acked[e.Subtask] {
		return nil
	}
	f.acked[e.Subtask] = true
	f.missing--
	return nil
}

// advance moves checkpoint n from one phase to another.
func (c *Coordinator) advance(n record.CheckpointID, from, to phase) error {
	f := c.find(n)
	if f == nil || f.phase != from {
		return fmt.Errorf("%w: an answer for checkpoint %d that was not asked for", ErrProtocol, n)
	}
	f.phase = to
	return nil
}

// prepare asks for the manifests of complete checkpoints, in order: a manifest may build on the one before.
func (c *Coordinator) prepare() {
	for i := range c.flight {
		f := &c.flight[i]
		if f.missing > 0 {
			return
		}
		if f.phase == collecting {
			f.phase = preparing
			c.emit(Prepare{f.checkpoint, c.identity(f.slot)})
		}
	}
}

// commit gives out the permit of the oldest checkpoint once it is prepared. That it is the oldest means that the one
// before is committed. Without transactions the manifest is all there is, so the checkpoint is committed at once.
func (c *Coordinator) commit() {
	for len(c.flight) > 0 && c.flight[0].phase == prepared {
		f := &c.flight[0]
		f.phase = committing
		if f.slot == noSlot {
			c.settle()
			continue
		}
		c.emit(Commit{Permit{f.checkpoint, c.identity(f.slot)}})
	}
}

func (c *Coordinator) committed(n record.CheckpointID) error {
	if len(c.flight) == 0 || c.flight[0].checkpoint != n || c.flight[0].phase != committing {
		return fmt.Errorf("%w: a commit of checkpoint %d that was not permitted", ErrProtocol, n)
	}
	c.settle()
	return nil
}

// settle removes the oldest checkpoint, which is committed.
func (c *Coordinator) settle() {
	f := c.flight[0]
	c.flight = c.flight[1:]
	c.emit(NotifyCommitted{f.checkpoint})
	if f.slot != noSlot {
		c.release(f.slot)
	}
}
