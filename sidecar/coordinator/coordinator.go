package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/barrier"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/task"
)

// Coordinator drives the checkpoints of one attempt.
type Coordinator struct {
	opts   Options
	core   *barrier.Coordinator
	events chan barrier.Event
	stop   chan struct{}
	work   *errgroup.Group
	// interval ticks when the next checkpoint is due; the loop owns it.
	interval *time.Ticker
	open     map[record.CheckpointID]*progress
	// opened has the transactions not yet ended, in the order of the checkpoints that they belong to.
	opened []opened
	next   record.CheckpointID
	status atomic.Pointer[Status]
	last   Committed
}

// opened is a transaction whose timeout runs.
type opened struct {
	checkpoint record.CheckpointID
	identity   record.Identity
	at         time.Time
}

// progress is what is known of a checkpoint between its trigger and its commit.
type progress struct {
	Complete
	manifest  record.Blob
	acked     []int
	phase     string
	triggered time.Time
	since     time.Time
}

// reported carries a subtask's report into the loop.
type reported struct {
	barrier.Acknowledged
	report task.Report
}

// prepared carries a manifest into the loop.
type prepared struct {
	barrier.Prepared
	manifest record.Blob
}

// expiringShare is the part of a transaction's timeout after which its attempt ends: the rest is for aborting in order.
const expiringShare = 0.8

// firstInterval is the time from the start of the sources to the first trigger, where Interval is longer. What has piled up
// while nothing ran is worth a checkpoint of its own: its results become visible at once, whatever the interval.
const firstInterval = 100 * time.Millisecond

// New returns the coordinator of one attempt.
func New(o Options) (*Coordinator, error) {
	core, err := barrier.NewCoordinator(o.Core)
	if err != nil {
		return nil, err
	}
	c := &Coordinator{
		opts: o, core: core, next: o.Core.Next,
		events: make(chan barrier.Event, o.Core.Subtasks+8), stop: make(chan struct{}, 1),
		open: map[record.CheckpointID]*progress{},
	}
	c.publish()
	return c, nil
}

// Report takes a subtask's acknowledgement. It may be called by any goroutine while Run runs.
func (c *Coordinator) Report(ctx context.Context, r task.Report) error {
	ack := barrier.Acknowledged{Attempt: r.Attempt, Checkpoint: r.Checkpoint, Subtask: r.Subtask}
	return c.post(ctx, reported{ack, r})
}

// Stop asks for a last checkpoint, after whose commit Run returns nil. It may be called by any goroutine, repeatedly.
func (c *Coordinator) Stop() {
	select {
	case c.stop <- struct{}{}:
	default:
	}
}

func (c *Coordinator) post(ctx context.Context, e barrier.Event) error {
	select {
	case c.events <- e:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run coordinates until a Stop has been carried out (nil), ctx ends, or the attempt must end, with the cause.
func (c *Coordinator) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.work, ctx = errgroup.WithContext(ctx)
	err := c.loop(ctx)
	cancel(err)
	if workErr := c.work.Wait(); err == nil {
		err = workErr
	}
	return err
}

func (c *Coordinator) loop(ctx context.Context) error {
	c.interval = time.NewTicker(c.opts.Interval)
	defer c.interval.Stop()
	var e barrier.Event = barrier.Begin{}
	for {
		done, err := c.step(ctx, e)
		if done || err != nil {
			return err
		}
		c.publish()
		select {
		case e = <-c.events:
		case <-c.interval.C:
			c.interval.Reset(c.opts.Interval)
			if e = c.expiring(); e == nil {
				e = barrier.IntervalElapsed{}
			}
		case <-c.stop:
			e = barrier.Stop{}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// expiring finds a transaction that comes near its timeout.
func (c *Coordinator) expiring() barrier.Event {
	limit := time.Duration(float64(c.opts.TransactionTimeout) * expiringShare)
	if len(c.opened) == 0 || limit == 0 || time.Since(c.opened[0].at) < limit {
		return nil
	}
	return barrier.Expiring{Checkpoint: c.opened[0].checkpoint}
}

// step feeds the core one event and carries out its actions.
func (c *Coordinator) step(ctx context.Context, e barrier.Event) (done bool, err error) {
	for _, a := range c.core.Step(c.note(e)) {
		switch a := a.(type) {
		case barrier.EndAttempt:
			return true, c.explain(a.Cause)
		case barrier.Finished:
			return true, nil
		default:
			c.act(ctx, a)
		}
	}
	return false, nil
}

// explain adds to the end of an attempt whose transaction expires what its checkpoint has waited for.
func (c *Coordinator) explain(cause error) error {
	if !errors.Is(cause, barrier.ErrExpiring) {
		return cause
	}
	if len(c.open) == 0 {
		return fmt.Errorf("%w: no barrier was sent, since the transaction after it is not open yet", cause)
	}
	p := c.open[slices.Min(slices.Collect(maps.Keys(c.open)))]
	since := time.Since(p.since).Round(100 * time.Millisecond)
	if p.phase != "barrier" {
		return fmt.Errorf("%w: its phase %s has lasted for %v", cause, p.phase, since)
	}
	var missing []int
	for i := range c.opts.Core.Subtasks {
		if !slices.Contains(p.acked, i) {
			missing = append(missing, i)
		}
	}
	return fmt.Errorf("%w: subtasks %v have not acknowledged its barrier for %v", cause, missing, since)
}

// note keeps what an event carries beyond what the core needs to know.
func (c *Coordinator) note(e barrier.Event) barrier.Event {
	switch e := e.(type) {
	case reported:
		c.gather(e)
		return e.Acknowledged
	case prepared:
		p := c.open[e.Checkpoint]
		p.manifest = e.manifest
		c.phase(p, "manifest", "prepared")
		return e.Prepared
	case barrier.TransactionOpened:
		c.opened = append(c.opened, opened{c.next, e.Identity, time.Now()})
		c.next++
	}
	return e
}

// gather adds a report to its checkpoint. One that is stale or comes twice adds nothing, and the core ignores it as well.
func (c *Coordinator) gather(e reported) {
	p := c.open[e.Checkpoint]
	if p == nil || e.Attempt != c.opts.Core.Attempt || slices.Contains(p.acked, e.Subtask) {
		return
	}
	p.Positions = append(p.Positions, e.report.Positions...)
	p.States = append(p.States, e.report.States...)
	p.acked = append(p.acked, e.Subtask)
}

// phase closes a phase of p and names the next.
func (c *Coordinator) phase(p *progress, ended, next string) {
	c.opts.Observer.Phase(p.Checkpoint, ended, time.Since(p.since))
	p.phase, p.since = next, time.Now()
}
