package sidecar

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/sidecar/coordinator"
)

// checkpoints stores the manifests of an attempt and collects what is not needed any more. Collecting runs in a goroutine
// of its own: it is never in the way of a commit, and when it falls behind it skips to the latest.
type checkpoints struct {
	attempt *attempt
	latest  chan record.CheckpointID
	done    sync.WaitGroup
	cancel  context.CancelFunc
}

func newCheckpoints(a *attempt) *checkpoints {
	ctx, cancel := context.WithCancel(context.Background())
	c := &checkpoints{attempt: a, latest: make(chan record.CheckpointID, 1), cancel: cancel}
	c.done.Go(func() { c.collect(ctx) })
	return c
}

// Prepare implements coordinator.Checkpoints.
func (c *checkpoints) Prepare(ctx context.Context, done coordinator.Complete) (manifest record.Blob, err error) {
	a := c.attempt
	m := &checkpoint.Manifest{
		Checkpoint: done.Checkpoint, Attempt: done.Attempt, Run: a.run, Instance: a.job.settings.Instance, Parent: done.Checkpoint - 1, Created: time.Now().UTC(),
		Transaction: done.Identity, Groups: a.plan.Groups, Plan: layouts(a.plan), Outputs: a.outputs,
		Positions: done.Positions, States: done.States,
	}
	what := fmt.Sprintf("the manifest of checkpoint %d", done.Checkpoint)
	err = a.job.writes.write(ctx, what, func(ctx context.Context) (err error) {
		manifest, err = a.job.catalog.Write(ctx, m)
		return err
	})
	return manifest, err
}

// Committed implements coordinator.Checkpoints.
func (c *checkpoints) Committed(n record.CheckpointID, _ record.Blob) {
	select {
	case <-c.latest: // superseded
	default:
	}
	c.latest <- n
}

// Looking through the store costs milliseconds, so where checkpoints come fast it is done for several of them at once.
const (
	collectCount = 8
	collectAfter = time.Second
)

func (c *checkpoints) collect(ctx context.Context) {
	var last record.CheckpointID
	var at time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-c.latest:
			if n-last >= collectCount || time.Since(at) >= collectAfter {
				c.collectUpTo(ctx, n)
				last, at = n, time.Now()
			}
		}
	}
}

func (c *checkpoints) collectUpTo(ctx context.Context, n record.CheckpointID) {
	c.attempt.states.committed(n)
	s := c.attempt.job.settings
	_, err := c.attempt.job.catalog.Collect(ctx, checkpoint.Retention{Keep: s.Checkpoint.Keep, Committed: n, Run: c.attempt.run}, time.Now())
	if err != nil && ctx.Err() == nil {
		s.Logger.Warn("older checkpoints stay for now", "error", err)
	}
}

func (c *checkpoints) close() {
	c.cancel()
	c.done.Wait()
}
