package sidecar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/barrier"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/consumer"
	"github.com/weirstream/weir/exchange"
	"github.com/weirstream/weir/internal/failpoint"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/sidecar/coordinator"
	"github.com/weirstream/weir/task"
	"github.com/weirstream/weir/topology"
	"github.com/weirstream/weir/txsink"
)

// attempt is one run of the job from a restore to its end.
type attempt struct {
	job        *Job
	number     record.Attempt
	run        string
	partitions topology.Partitions
	// outputs are the topics that are written to, the ledger among them.
	outputs     []checkpoint.Topic
	plan        *topology.Plan
	base        base
	wakers      []task.Waker
	mesh        *exchange.Mesh
	consumer    *consumer.Consumer
	writer      *txsink.Writer
	txns        *txsink.Transactions
	states      *states
	checkpoints *checkpoints
	subtasks    []*task.Subtask
	coordinator *coordinator.Coordinator
	began       time.Time
}

// newAttempt recovers and restores. What it opened is closed by close, also after an error.
func (j *Job) newAttempt(ctx context.Context) (*attempt, error) {
	a := &attempt{job: j, began: time.Now()}
	if err := a.layOut(ctx); err != nil {
		return a, err
	}
	a.wakers = make([]task.Waker, a.plan.Subtasks)
	for i := range a.wakers {
		a.wakers[i] = task.NewWaker()
	}
	a.buildWriter()
	if err := a.recover(ctx); err != nil {
		return a, err
	}
	return a, a.build(ctx)
}

// layOut asks for the partition counts and makes the plan.
func (a *attempt) layOut(ctx context.Context) (err error) {
	s := a.job.settings
	_ = a.job.cluster.Refresh(ctx, s.topics()...) // what is wrong with a topic is said below, for each
	inputs, _ := s.Graph.Topics()
	a.partitions = topology.Partitions{}
	for i, name := range s.topics() {
		t, err := a.job.topic(ctx, name)
		if err != nil {
			return err
		}
		a.partitions[name] = len(t.Partitions)
		if i >= len(inputs) {
			a.outputs = append(a.outputs, checkpoint.Topic{Topic: name, ID: record.TopicID(t.ID), Partitions: len(t.Partitions)})
		}
	}
	a.plan, err = topology.NewPlan(a.job.settings.Graph, a.partitions, a.job.settings.Subtasks)
	return err
}

func (a *attempt) wake(subtask int) { a.wakers[subtask].Wake() }

// buildWriter makes the writer and the transactions, which recovery needs.
func (a *attempt) buildWriter() {
	s := a.job.settings
	ids := map[string]record.TopicID{}
	for _, t := range a.outputs {
		ids[t.Topic] = t.ID
	}
	var outputs []txsink.Output
	for _, o := range a.plan.Outputs {
		outputs = append(outputs, txsink.Output{Topic: o.Topic, Partitions: o.Partitions})
	}
	a.writer = txsink.NewWriter(a.job.cluster, txsink.WriterOptions{
		Outputs: outputs, Subtasks: a.plan.Subtasks, Wake: a.wake, Transactional: s.ExactlyOnce(),
		Acked:  func(subtask int, n record.CheckpointID) { a.subtasks[subtask].Written(n) },
		Buffer: int64(s.Buffers.Sink), BatchRecords: s.Buffers.BatchRecords, BatchBytes: s.Buffers.BatchBytes,
		Codec: s.Buffers.Compression, RequestTimeout: s.Kafka.RequestTimeout, Logger: s.Logger,
	})
	a.txns = txsink.NewTransactions(a.job.cluster, txsink.TransactionOptions{
		Job: s.Job, Slots: s.Checkpoint.Transactions, Outputs: outputs, TopicIDs: ids, Ledger: s.Ledger, Group: s.Group,
		Timeout: s.TransactionTimeout, RequestTimeout: s.Kafka.RequestTimeout, LastOffsets: a.writer.LastOffsets,
		Tried: a.job.tried, Took: observer{a.job.metrics}.step, Logger: s.Logger,
	})
}

// build restores state and positions and makes everything that runs.
func (a *attempt) build(ctx context.Context) (err error) {
	s := a.job.settings
	sources := make([]consumer.Source, len(a.plan.Sources))
	for i, src := range a.plan.Sources {
		sources[i] = consumer.Source{
			Name: src.Name, Topic: src.Topic, Start: startOf(src.Start), AcceptLoss: s.accepts(src.Name),
		}
	}
	a.consumer, err = consumer.New(ctx, a.job.cluster, consumer.Options{
		Sources: sources, Positions: a.base.positions, Subtasks: a.plan.Subtasks, Wake: a.wake, Owner: a.owner,
		Prefetch: s.Buffers.Prefetch, FetchBytes: s.Buffers.FetchBytes, MaxWait: s.Buffers.FetchWait, Discovery: s.Discovery, MissingAfter: s.MissingAfter,
		Logger: s.Logger,
	})
	if err != nil {
		return err
	}
	a.mesh = exchange.NewMesh(len(a.plan.Edges), a.plan.Subtasks, s.Buffers.Exchange,
		func(edge int) bool { return a.plan.Edges[edge].Route == nil }, a.wake)
	a.states = &states{settings: s, plan: a.plan, run: a.run, files: a.job.catalog, writes: &a.job.writes, restore: a.base.states}
	for i := range a.plan.Subtasks {
		if err := a.addSubtask(ctx, i); err != nil {
			return a.lost(fmt.Errorf("subtask %d: %w", i, err))
		}
	}
	failpoint.Pass(failpoint.Restored)
	a.checkpoints = newCheckpoints(a)
	a.coordinator, err = coordinator.New(coordinator.Options{
		Core: barrier.CoordinatorOptions{
			Attempt: a.number, Subtasks: a.plan.Subtasks, Next: a.base.checkpoint + 1,
			Slots: s.Checkpoint.Transactions, MaxInFlight: s.Checkpoint.InFlight,
		},
		Interval: s.Checkpoint.Interval, TransactionTimeout: s.TransactionTimeout,
		Transactions: transactions{a.txns}, Checkpoints: a.checkpoints, Subtasks: a, Observer: observer{a.job.metrics},
	})
	return err
}

func startOf(s topology.Start) int64 {
	switch {
	case s.Latest:
		return consumer.StartLatest
	case s.At.IsZero():
		return consumer.StartEarliest
	}
	return consumer.StartAt(s.At)
}

// owner is the subtask of a partition; one that the plan did not know, added since, goes by its number.
func (a *attempt) owner(source, partition int32) int {
	if owners := a.plan.Sources[source].Owner; int(partition) < len(owners) {
		return int(owners[partition])
	}
	return int(partition) % a.plan.Subtasks
}

func (a *attempt) addSubtask(ctx context.Context, i int) error {
	s, err := task.New(task.Options{
		Index: i, Plan: a.plan, Attempt: a.number, Waker: a.wakers[i], Source: a.consumer.Lane(i), Sink: a.writer.Lane(i),
		State: func(step int) (task.State, error) { return a.states.store(ctx, i, step) }, Mesh: a.mesh,
		Positions: a.consumer.Positions(i), InFlight: a.job.settings.Checkpoint.InFlight,
		Report: a.report, Logger: a.job.settings.Logger,
	})
	a.subtasks = append(a.subtasks, s)
	return err
}

// report passes a subtask's acknowledgement on, and how long its part took.
func (a *attempt) report(ctx context.Context, r task.Report) error {
	m := a.job.metrics
	m.Phase(admin.PhaseAlign, r.Align)
	m.Phase(admin.PhaseFreeze, r.Freeze)
	m.Phase(admin.PhasePersist, r.Persist)
	m.Phase(admin.PhaseWrite, r.Write)
	return a.coordinator.Report(ctx, r)
}

// Begin implements coordinator.Subtasks.
func (a *attempt) Begin(first record.Identity) {
	for _, s := range a.subtasks {
		s.Begin(first)
	}
	a.job.began(a)
}

// Trigger implements coordinator.Subtasks.
func (a *attempt) Trigger(b record.Barrier) {
	for _, s := range a.subtasks {
		s.Trigger(b)
		failpoint.Pass(failpoint.BarriersOut)
	}
}

// errDrained ends the group of an attempt whose last checkpoint is committed.
var errDrained = errors.New("drained")

// work runs until the attempt is drained (nil) or fails.
func (a *attempt) work(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.consumer.Run(ctx) })
	g.Go(func() error { return a.writer.Run(ctx) })
	for _, s := range a.subtasks {
		g.Go(func() error { return s.Run(ctx) })
	}
	g.Go(func() error {
		if err := a.coordinator.Run(ctx); err != nil {
			return err
		}
		return errDrained
	})
	err := g.Wait()
	if errors.Is(err, errDrained) {
		return nil
	}
	if failing := a.job.writes.failure(); failing != nil && errors.Is(err, barrier.ErrExpiring) {
		err = fmt.Errorf("%w: %w", err, failing) // which is what the transaction has waited for
	}
	return err
}

// committed says that the attempt got somewhere.
func (a *attempt) committed() bool {
	return a.coordinator != nil && a.coordinator.Status().Last.Checkpoint > 0
}

// close frees what the attempt holds, after work.
func (a *attempt) close() {
	if a.states != nil {
		a.states.close()
	}
	if a.checkpoints != nil {
		a.checkpoints.close()
	}
}

// transactions fits txsink.Transactions to the coordinator.
type transactions struct{ *txsink.Transactions }

// Commit implements coordinator.Transactions.
func (t transactions) Commit(ctx context.Context, p barrier.Permit, manifest record.Blob, c coordinator.Complete) error {
	return t.Transactions.Commit(ctx, p, txsink.Witness{Attempt: c.Attempt, Manifest: manifest, Positions: c.Positions})
}

// Abort implements coordinator.Transactions.
func (t transactions) Abort(ctx context.Context, slot int, _ record.Identity) error {
	return t.Transactions.Abort(ctx, slot)
}
