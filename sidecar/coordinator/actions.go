package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/weirstream/weir/barrier"
	"github.com/weirstream/weir/internal/failpoint"
	"github.com/weirstream/weir/record"
)

// act carries out one action of the core.
func (c *Coordinator) act(ctx context.Context, a barrier.Action) {
	switch a := a.(type) {
	case barrier.Start:
		c.opts.Subtasks.Begin(a.Identity)
		c.interval.Reset(min(firstInterval, c.opts.Interval))
	case barrier.Trigger:
		c.trigger(a.Barrier)
	case barrier.OpenTransaction:
		c.async(ctx, func() (barrier.Event, error) {
			id, err := c.opts.Transactions.Open(ctx, a.Slot)
			return barrier.TransactionOpened{Slot: a.Slot, Identity: id}, wrap(err, "open the next transaction")
		})
	case barrier.Prepare:
		c.prepare(ctx, a)
	case barrier.Commit:
		c.commit(ctx, a.Permit)
	case barrier.NotifyCommitted:
		c.committed(a.Checkpoint)
	case barrier.ReleaseSlot:
		c.async(ctx, func() (barrier.Event, error) {
			err := c.opts.Transactions.Release(ctx, a.Slot, a.Identity)
			return barrier.SlotReleased{Slot: a.Slot}, wrap(err, "check the markers of the last transaction")
		})
	case barrier.AbortSlot:
		c.async(ctx, func() (barrier.Event, error) {
			err := c.opts.Transactions.Abort(ctx, a.Slot, a.Identity)
			return barrier.SlotReleased{Slot: a.Slot}, wrap(err, "abort the open transaction")
		})
	}
}

func wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// async runs f in a goroutine of its own and feeds the core with its event, or with its failure.
func (c *Coordinator) async(ctx context.Context, f func() (barrier.Event, error)) {
	c.work.Go(func() error {
		e, err := f()
		if err != nil {
			e = barrier.Failed{Cause: err}
		}
		_ = c.post(ctx, e) // where that fails the attempt is over, and nobody listens
		return nil
	})
}

func (c *Coordinator) trigger(b record.Barrier) {
	now := time.Now()
	c.open[b.Checkpoint] = &progress{
		Complete: Complete{Checkpoint: b.Checkpoint, Attempt: b.Attempt},
		phase:    "barrier", triggered: now, since: now,
	}
	c.opts.Subtasks.Trigger(b)
}

func (c *Coordinator) prepare(ctx context.Context, a barrier.Prepare) {
	p := c.open[a.Checkpoint]
	p.Identity = a.Identity
	c.phase(p, "barrier", "manifest")
	complete := p.Complete
	failpoint.Pass(failpoint.AllAcknowledged)
	c.async(ctx, func() (barrier.Event, error) {
		m, err := c.opts.Checkpoints.Prepare(ctx, complete)
		failpoint.Pass(failpoint.ManifestWritten)
		e := prepared{barrier.Prepared{Checkpoint: a.Checkpoint}, m}
		return e, wrap(err, fmt.Sprintf("write the manifest of checkpoint %d", a.Checkpoint))
	})
}

func (c *Coordinator) commit(ctx context.Context, permit barrier.Permit) {
	p := c.open[permit.Checkpoint()]
	p.phase, p.since = "commit", time.Now()
	manifest, complete := p.manifest, p.Complete
	c.async(ctx, func() (barrier.Event, error) {
		return outcome(permit, c.opts.Transactions.Commit(ctx, permit, manifest, complete)), nil
	})
}

// committed closes a checkpoint.
func (c *Coordinator) committed(n record.CheckpointID) {
	p := c.open[n]
	delete(c.open, n)
	c.phase(p, "commit", "committed")
	c.opts.Observer.Phase(n, "total", time.Since(p.triggered))
	for len(c.opened) > 0 && c.opened[0].checkpoint <= n {
		c.opened = c.opened[1:]
	}
	c.last = Committed{Checkpoint: n, At: time.Now(), Manifest: p.manifest}
	c.opts.Checkpoints.Committed(n, p.manifest)
}

// outcome is the event of a commit that ended: without success nothing is known.
func outcome(p barrier.Permit, err error) barrier.Event {
	if err != nil {
		return barrier.CommitUnknown{Checkpoint: p.Checkpoint(), Cause: err}
	}
	return barrier.Committed{Checkpoint: p.Checkpoint()}
}
