package sidecar

import (
	"errors"
	"time"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/barrier"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/sidecar/coordinator"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/task"
	"github.com/weirstream/weir/txsink"
)

// Status implements admin.Job.
func (j *Job) Status() admin.Status {
	j.mu.Lock()
	a, state, reason := j.mu.current, j.mu.state, j.mu.reason
	number, began := j.mu.attempt, j.mu.began
	j.mu.Unlock()
	s := admin.Status{
		Identity: admin.Identity{
			Job: j.settings.Job, Instance: j.settings.Instance, Version: j.settings.Version, Guarantee: j.settings.guarantee(),
		},
		State: state, Reason: reason, Started: j.started, Attempt: int64(number), AttemptStarted: began,
		TransactionTimeoutSeconds: j.settings.TransactionTimeout.Seconds(),
	}
	s.Checkpoints.MaxInFlight = j.settings.Checkpoint.inFlight()
	s.Checkpoints.IntervalSeconds = j.settings.Checkpoint.Interval.Seconds()
	j.failures.Fill(&s)
	if a != nil {
		a.fill(&s)
	}
	j.retries.Fill(&s)
	j.writes.fill(&s)
	return s
}

func (s *Settings) guarantee() string {
	if s.ExactlyOnce() {
		return "exactly_once"
	}
	return "at_least_once"
}

// fill adds the picture of an attempt that is built.
func (a *attempt) fill(s *admin.Status) {
	a.fillCheckpoints(s, a.coordinator.Status())
	for _, p := range a.consumer.Status() {
		s.Sources = append(s.Sources, admin.SourcePartition{
			Source: p.Source, Topic: p.Topic, Partition: p.Partition, Position: p.Fetched, HighWatermark: p.HighWatermark,
			Records: p.Records, Bytes: p.Bytes,
		})
	}
	for i, o := range a.plan.Outputs {
		records, bytes := a.writer.Written(i)
		s.Outputs = append(s.Outputs, admin.Output{Output: o.Name, Topic: o.Topic, Records: records, Bytes: bytes})
	}
	s.Retries = a.writer.Stats().Retries()
	a.fillSubtasks(s)
	a.states.fill(s)
}

func (a *attempt) fillCheckpoints(s *admin.Status, c coordinator.Status) {
	if last := c.Last; last.Checkpoint > 0 {
		s.Checkpoints.Committed = &admin.Committed{ID: int64(last.Checkpoint), Time: last.At, Manifest: last.Manifest.Name}
	} else if a.base.checkpoint > 0 {
		s.Checkpoints.Committed = &admin.Committed{ID: int64(a.base.checkpoint), Time: a.base.committed, Manifest: a.base.manifest.Name}
	}
	for _, o := range c.Open {
		s.Checkpoints.InProgress = append(s.Checkpoints.InProgress, admin.InProgress{
			ID: int64(o.Checkpoint), Phase: o.Phase, Since: o.Since, Acknowledged: o.Acknowledged,
		})
	}
	for _, t := range c.Transactions {
		s.Transactions = append(s.Transactions, admin.Transaction{
			TransactionalID: t.Identity.TransactionalID, ProducerID: t.Identity.ProducerID, Epoch: t.Identity.Epoch, Since: t.Since,
		})
	}
}

func (a *attempt) fillSubtasks(s *admin.Status) {
	for i, t := range a.subtasks {
		st := t.Stats()
		lane, sink := a.consumer.Lane(i), a.writer.Lane(i)
		s.Subtasks = append(s.Subtasks, admin.Subtask{
			Subtask: i, RecordsIn: st.RecordsIn.Load(), RecordsOut: st.RecordsOut.Load(),
			Prefetch: buffer(lane.Bytes()), Produce: buffer(sink.Bytes()),
		})
	}
	for e, edge := range a.plan.Edges {
		for from := range a.plan.Subtasks {
			for to := range a.plan.Subtasks {
				if ch := a.mesh.Channel(e, from, to); ch != nil {
					s.Channels = append(s.Channels, admin.Channel{Edge: edge.Name, From: from, To: to,
						Buffer: buffer(ch.Bytes(), int64(a.job.settings.Buffers.Exchange))})
				}
			}
		}
	}
}

func buffer(bytes, limit int64) admin.Buffer {
	return admin.Buffer{Bytes: bytes, LimitBytes: limit, Full: bytes >= limit}
}

func (s *states) fill(to *admin.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.open {
		m := o.Metrics()
		to.States = append(to.States, admin.OperatorState{
			Operator: o.operator, Subtask: o.subtask, Entries: m.Entries, Bytes: m.Bytes, DirtyBytes: m.DirtyBytes, FrozenBytes: m.FrozenBytes,
		})
	}
}

// observer passes phases on to the metrics.
type observer struct{ metrics *admin.Metrics }

// Phase implements coordinator.Observer.
func (o observer) Phase(_ record.CheckpointID, phase string, took time.Duration) {
	o.metrics.Phase(admin.Phase(phase), took)
}

// step is told of the steps of a commit.
func (o observer) step(s txsink.Step, took time.Duration) { o.metrics.Phase(admin.Phase(s), took) }

// causeOf classes the end of an attempt.
func causeOf(err error) admin.Cause {
	var (
		code   *kafka.Error
		store  *StoreError
		lost   *LostCheckpointError
		layout *LayoutError
		left   *StateLeftError
		other  *AnotherInstanceError
	)
	switch {
	case errors.As(err, &other):
		return admin.CauseFenced
	case errors.As(err, &store):
		return admin.CauseStore
	case errors.Is(err, checkpoint.ErrSync):
		return admin.CauseStore
	case errors.As(err, &lost), errors.As(err, &layout), errors.As(err, &left), errors.Is(err, statestore.ErrSync),
		errors.Is(err, statestore.ErrBroken):
		return admin.CauseState
	case operatorDecides(err):
		return admin.CauseData
	case errors.Is(err, txsink.ErrFenced):
		return admin.CauseFenced
	case errors.Is(err, barrier.ErrCommitUnknown), errors.Is(err, txsink.ErrUndecided):
		return admin.CauseUndecided
	case errors.Is(err, barrier.ErrExpiring):
		return admin.CauseTimeout
	case errors.Is(err, task.ErrStateLost):
		return admin.CauseState
	case errors.Is(err, task.ErrOperator):
		return admin.CauseOperator
	case errors.As(err, &code), errors.Is(err, kafka.ErrNoLeader), kafka.Permanent(err):
		return admin.CauseKafka
	}
	return admin.CauseOther
}
