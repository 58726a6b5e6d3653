package task

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/exchange"
	"github.com/weirstream/weir/internal/failpoint"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology"
)

// checkpoint is what one barrier has gathered in this subtask so far.
type checkpoint struct {
	id        record.CheckpointID
	positions []record.Position
	snapshots []frozen
	// left is the number of chains that the barrier has yet to pass.
	left int
	// froze is how long the stream stood still for freezing.
	froze time.Duration
	// aligned is the longest that a chain has held channels for the barrier.
	aligned time.Duration
}

type frozen struct {
	operator string
	snapshot Snapshot
}

// pass lets barrier b through chain c: results owed, state frozen, barrier sent on.
func (s *Subtask) pass(c *chain, b record.Barrier) error {
	cp := s.checkpointOf(b)
	for _, i := range c.steps {
		if err := s.passStep(i, b, cp); err != nil {
			return err
		}
	}
	for _, ch := range c.out {
		ch.Send(exchange.Message{Barrier: b})
	}
	if c.sinks {
		s.passSink(c, b)
	}
	if cp.left--; cp.left == 0 {
		s.open = slices.DeleteFunc(s.open, func(o *checkpoint) bool { return o == cp })
		s.handoff <- cp // never blocks: its capacity is the number of checkpoints in flight
	}
	return nil
}

// checkpointOf returns the entry of b's checkpoint; the first chain to pass makes it, and notes the positions.
func (s *Subtask) checkpointOf(b record.Barrier) *checkpoint {
	for _, cp := range s.open {
		if cp.id == b.Checkpoint {
			return cp
		}
	}
	cp := &checkpoint{id: b.Checkpoint, left: len(s.chains)}
	for _, p := range s.positions {
		cp.positions = append(cp.positions, p)
	}
	s.open = append(s.open, cp)
	return cp
}

func (s *Subtask) passStep(i int, b record.Barrier, cp *checkpoint) error {
	st := &s.steps[i]
	err := s.call(i, func(op topology.Operator) error { return op.Barrier(b.Checkpoint, &st.owed) })
	if err != nil {
		return err
	}
	if len(st.owed.Records) > 0 {
		if err := s.deliver(s.opts.Plan.Steps[i].Out, &st.owed); err != nil {
			return err
		}
		st.owed.Reset()
	}
	if st.state != nil {
		begin := time.Now()
		cp.snapshots = append(cp.snapshots, frozen{s.opts.Plan.Steps[i].Name, st.state.Freeze(b.Checkpoint)})
		cp.froze += time.Since(begin)
	}
	return nil
}

// passSink switches the sink to the next transaction once every chain with a sink is past the barrier. Those that were
// first wait: what they write next belongs to the next transaction.
func (s *Subtask) passSink(c *chain, b record.Barrier) {
	c.waiting = true
	if s.sunk++; s.sunk < s.sinks {
		return
	}
	s.sunk = 0
	for _, other := range s.chains {
		other.waiting = false
	}
	s.opts.Sink.Barrier(b.Checkpoint, b.Next)
}

// snapshots makes checkpoints durable in their order and reports them.
func (s *Subtask) snapshots(ctx context.Context) error {
	for cp := range s.handoff {
		report := Report{Attempt: s.opts.Attempt, Checkpoint: cp.id, Subtask: s.opts.Index, Positions: cp.positions, Align: cp.aligned, Freeze: cp.froze}
		begin := time.Now()
		for _, f := range cp.snapshots {
			h, err := f.snapshot.Persist(ctx)
			if err != nil {
				return fmt.Errorf("checkpoint %d of operator %s: %w", cp.id, f.operator, err)
			}
			h.Subtask, h.Operator = s.opts.Index, f.operator
			report.States = append(report.States, h)
		}
		failpoint.Pass(failpoint.StateStored)
		report.Persist, begin = time.Since(begin), time.Now()
		s.opts.Waker.Wake() // the state may not be full any more
		if err := s.awaitWritten(ctx, cp.id); err != nil {
			return err
		}
		failpoint.Pass(failpoint.WritesAcknowledged)
		report.Write = time.Since(begin)
		if err := s.opts.Report(ctx, report); err != nil {
			return err
		}
	}
	return nil
}

func (s *Subtask) awaitWritten(ctx context.Context, n record.CheckpointID) error {
	for record.CheckpointID(s.written.Load()) < n {
		select {
		case <-s.writtenMore:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
