package sidecar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/topology"
	"github.com/weirstream/weir/txsink"
)

// base is the checkpoint that an attempt goes on from; all zero for a new job.
type base struct {
	checkpoint record.CheckpointID
	committed  time.Time
	manifest   record.Blob
	positions  []record.Position
	states     []record.StateHandle
}

// LostCheckpointError says that a checkpoint is committed, its results visible, and its manifest or state not to be read.
type LostCheckpointError struct {
	Job        string
	Checkpoint record.CheckpointID
	Location   string
	Cause      error
}

// Error names the place in the store, and says why no earlier checkpoint will do.
func (e *LostCheckpointError) Error() string {
	return fmt.Sprintf("checkpoint %d is committed, but cannot be restored from %s: %v; bring the store back as it was (is its file system mounted?), "+
		"for going back further would write results twice",
		e.Checkpoint, e.Location, e.Cause)
}

// Unwrap returns the cause.
func (e *LostCheckpointError) Unwrap() error { return e.Cause }

// OperatorDecides marks errors that no restart can mend.
func (e *LostCheckpointError) OperatorDecides() bool { return true }

// recover settles what was left behind and finds the checkpoint to go on from.
func (a *attempt) recover(ctx context.Context) error {
	if !a.job.settings.ExactlyOnce() {
		return a.recoverNewest(ctx)
	}
	hint, err := a.txns.Hint(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	if err := a.awaitSilence(ctx, hint); err != nil {
		return err
	}
	prepared, err := prepared(ctx, a.job.catalog, hint, a.job.settings.Logger)
	if err != nil {
		return err
	}
	last, err := a.txns.Recover(ctx, prepared)
	if err != nil {
		return fmt.Errorf("settle the transactions of before: %w", err)
	}
	if err := a.count(ctx, last); err != nil {
		return err
	}
	if last == nil {
		return a.withoutWitness(ctx)
	}
	m, err := a.job.catalog.Read(ctx, last.Manifest.Name, last.Manifest.SHA256)
	if err != nil {
		a.base.checkpoint, a.base.manifest = last.Checkpoint, last.Manifest
		return a.lost(err)
	}
	return a.goOnFrom(m, last.Manifest)
}

// lost adds to an error of restoring the base, where files of it are missing, damaged or of an unknown format, that there
// is no way back from it.
func (a *attempt) lost(err error) error {
	if corrupt := (*checkpoint.CorruptError)(nil); errors.As(err, &corrupt) || errors.Is(err, statestore.ErrCorrupt) ||
		errors.Is(err, statestore.ErrFormat) {
		return &LostCheckpointError{a.job.settings.Job, a.base.checkpoint, a.base.manifest.Name, err}
	}
	return err
}

// goOnFrom makes a checkpoint the base of the attempt.
func (a *attempt) goOnFrom(m *checkpoint.Manifest, manifest record.Blob) error {
	a.base = base{m.Checkpoint, m.Created, manifest, m.Positions, m.States}
	if m.Groups != a.plan.Groups { // topics have got partitions since; the number of groups was chosen once
		plan, err := topology.NewPlanWithGroups(a.job.settings.Graph, a.partitions, a.plan.Subtasks, m.Groups)
		if err != nil {
			return &PlanError{err}
		}
		a.plan = plan
	}
	if err := a.sameOutputs(m); err != nil {
		return err
	}
	leave, err := fits(m, a.plan, a.job.settings)
	for _, operator := range leave {
		a.job.settings.Logger.Warn("state is left behind, as accepted", "operator", operator, "checkpoint", m.Checkpoint)
	}
	a.base.states = slices.DeleteFunc(slices.Clone(m.States), func(h record.StateHandle) bool { return slices.Contains(leave, h.Operator) })
	return err
}

// count gives the attempt a number above all that the ledger, the store and this process know of.
func (a *attempt) count(ctx context.Context, last *txsink.Witness) error {
	if last != nil {
		a.number = last.Attempt
	}
	refs, err := a.job.catalog.List(ctx)
	if err != nil {
		return err
	}
	for _, r := range refs {
		if n, ok := checkpoint.RunAttempt(r.Run); ok {
			a.number = max(a.number, n)
		}
	}
	a.number = max(a.number, a.job.lastAttempt()) + 1
	a.run = checkpoint.NewRun(a.number, a.job.lease.id)
	a.job.numbered(a)
	return nil
}

// recoverNewest goes on from the newest checkpoint that can be read: without transactions there is nothing to settle, and
// going further back only repeats results.
func (a *attempt) recoverNewest(ctx context.Context) error {
	if err := a.count(ctx, nil); err != nil {
		return err
	}
	m, manifest, err := a.newest(ctx)
	if err != nil || m == nil {
		return err
	}
	return a.goOnFrom(m, manifest)
}

// newest returns the newest checkpoint in the store that can be read, nil where there is none.
func (a *attempt) newest(ctx context.Context) (*checkpoint.Manifest, record.Blob, error) {
	refs, err := a.job.catalog.List(ctx)
	if err != nil {
		return nil, record.Blob{}, err
	}
	for _, r := range refs {
		m, err := a.job.catalog.Read(ctx, r.Location, "")
		var corrupt *checkpoint.CorruptError
		if errors.As(err, &corrupt) {
			a.job.settings.Logger.Warn("a checkpoint is damaged, looking at the one before", "location", r.Location, "error", err)
			continue
		}
		if err != nil {
			return nil, record.Blob{}, err
		}
		w, err := witnessOf(m, r.Location)
		return m, w.Manifest, err
	}
	return nil, record.Blob{}, nil
}
