package txsink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/barrier"
	"github.com/weirstream/weir/internal/failpoint"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/internal/planted"
	"github.com/weirstream/weir/record"
)

// TransactionOptions are what the transactions of a job are made from.
type TransactionOptions struct {
	// Job is the key of the witness, and the prefix of the transactional ids: Job-0, Job-1, …
	Job     string
	Slots   int
	Outputs []Output
	// TopicIDs are the ids of the outputs and the ledger as the attempt found them. A commit fails (*RecreatedError) where one has
	// changed since; what is not named is not compared.
	TopicIDs map[string]record.TopicID
	// Ledger is the topic of the witness. Group, if not empty, is where offsets are committed for ordinary tools to see.
	Ledger, Group string
	// Timeout is that of a transaction on the broker.
	Timeout        time.Duration
	RequestTimeout time.Duration
	// LastOffsets returns what Writer.LastOffsets does; nil in a process that only recovers.
	LastOffsets func(record.Identity) map[kafka.TopicPartition]int64
	// Took, if not nil, is told how long each step of a commit took. Any goroutine calls it.
	Took func(Step, time.Duration)
	// Tried, if not nil, is told of each error that is tried again.
	Tried  func(error)
	Logger *slog.Logger
}

// Step is a part of a commit.
type Step string

// The steps.
const (
	// StepWitness writes the witness and the group's offsets.
	StepWitness Step = "witness"
	// StepEndTxn commits the transaction.
	StepEndTxn Step = "end_txn"
	// StepMarkers waits until the markers are in all partitions.
	StepMarkers Step = "markers"
)

// Transactions opens, commits and recovers the transactions of one job. Nothing else sends the requests that it sends. The
// coordinator of an attempt calls it, for one slot from one goroutine at a time.
type Transactions struct {
	cluster *kafka.Cluster
	opts    TransactionOptions
	slots   []slot
	// strays are ids of the job beyond its slots, left by a run that had more of them. They are only fenced.
	strays []*slot
	group  *kafka.Coordinator
	// groupTaken is set once it was said that the group has members of its own.
	groupTaken atomic.Bool
	// asNobody is set once the brokers have refused the sentinel member in a group without members.
	asNobody atomic.Bool
	// partitions are all that belong to a transaction: the outputs' and the ledger.
	partitions []kafka.TopicPartition
}

// slot is one transactional id.
type slot struct {
	id          string
	coordinator *kafka.Coordinator
	// last is the identity that Kafka gave out last; fresh says that no transaction was opened with it.
	last  record.Identity
	fresh bool
	// opened says that a transaction was opened under the id by this attempt; it may have ended since.
	opened bool
	// witness is the ledger offset of the last transaction's witness, -1 where none was written.
	witness int64
}

// NewTransactions makes the transactions of a job; Recover comes first.
func NewTransactions(cluster *kafka.Cluster, o TransactionOptions) *Transactions {
	if o.RequestTimeout == 0 {
		o.RequestTimeout = DefaultRequestTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Transactions{cluster: cluster, opts: o, group: cluster.GroupCoordinator(o.Group)}
	for i := range o.Slots {
		id := fmt.Sprintf("%s-%d", o.Job, i)
		if planted.Is(planted.IgnoreFencing) {
			id += fmt.Sprintf("-%d", time.Now().UnixNano())
		}
		t.slots = append(t.slots, t.newSlot(id))
	}
	for _, out := range o.Outputs {
		for p := range out.Partitions {
			t.partitions = append(t.partitions, kafka.TopicPartition{Topic: out.Topic, Partition: p})
		}
	}
	t.partitions = append(t.partitions, kafka.TopicPartition{Topic: o.Ledger})
	return t
}

func (t *Transactions) newSlot(id string) slot {
	return slot{id: id, coordinator: t.cluster.TransactionCoordinator(id), witness: -1}
}

// all returns the slots and the strays.
func (t *Transactions) all() []*slot {
	all := slices.Clone(t.strays)
	for i := range t.slots {
		all = append(all, &t.slots[i])
	}
	return all
}

// took notes the time of a step that began at the given moment, and returns the present one.
func (t *Transactions) took(s Step, began time.Time) time.Time {
	now := time.Now()
	if t.opts.Took != nil {
		t.opts.Took(s, now.Sub(began))
	}
	return now
}

func (t *Transactions) tried(err error) {
	if t.opts.Tried != nil {
		t.opts.Tried(err)
	}
}

// noIdentity asks InitProducerId unconditionally.
var noIdentity = record.Identity{ProducerID: -1, Epoch: -1} //nolint:gochecknoglobals // a constant that the language cannot write

// initialise gets a slot's next identity: conditionally, from its last one, or unconditionally, which fences whoever has it.
// It returns when the markers of the last transaction are written (51 until then).
func (t *Transactions) initialise(ctx context.Context, s *slot, from record.Identity) error {
	req := &sarama.InitProducerIDRequest{
		Version: 4, TransactionalID: &s.id, TransactionTimeout: t.opts.Timeout, ProducerID: from.ProducerID, ProducerEpoch: from.Epoch,
	}
	op := "get the next identity of " + s.id
	err := s.coordinator.Do(ctx, kafka.InitProducerID, op, t.tried, func(b *sarama.Broker) (sarama.KError, error) {
		resp, err := b.InitProducerID(req)
		if err != nil {
			return 0, err
		}
		if resp.Err == sarama.ErrNoError {
			s.last = record.Identity{TransactionalID: s.id, ProducerID: resp.ProducerID, Epoch: resp.ProducerEpoch}
			s.fresh = true
		}
		return resp.Err, nil
	})
	return fenced(kafka.InitProducerID, err)
}

// fenced adds ErrFenced where an answer means that.
func fenced(r kafka.Request, err error) error {
	if err != nil && kafka.Classify(r, err) == kafka.Fenced {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return err
}

// Open begins the next transaction of a slot: every output partition and the ledger belong to it when it returns. It fails
// with ErrFenced where somebody else has taken the slot over.
func (t *Transactions) Open(ctx context.Context, i int) (record.Identity, error) {
	s := &t.slots[i]
	if !s.fresh {
		if err := t.initialise(ctx, s, s.last); err != nil {
			return record.Identity{}, err
		}
	}
	s.fresh, s.witness, s.opened = false, -1, true
	return s.last, t.addPartitions(ctx, s, t.partitions)
}

// addPartitions makes partitions part of the slot's transaction, opening it. All go into one request: several at once are
// answered 51 by the thousand.
func (t *Transactions) addPartitions(ctx context.Context, s *slot, parts []kafka.TopicPartition) error {
	req := &sarama.AddPartitionsToTxnRequest{
		Version: 3, TransactionalID: s.id, ProducerID: s.last.ProducerID, ProducerEpoch: s.last.Epoch, TopicPartitions: map[string][]int32{},
	}
	for _, p := range parts {
		req.TopicPartitions[p.Topic] = append(req.TopicPartitions[p.Topic], p.Partition)
	}
	err := s.coordinator.Do(ctx, kafka.AddPartitionsToTxn, "open a transaction of "+s.id, t.tried, func(b *sarama.Broker) (sarama.KError, error) {
		resp, err := b.AddPartitionsToTxn(req)
		if err != nil {
			return 0, err
		}
		return worst(resp.Errors), nil
	})
	return fenced(kafka.AddPartitionsToTxn, err)
}

// worst picks the error that tells: 55 only says that another partition of the request failed.
func worst(errs map[string][]*sarama.PartitionError) sarama.KError {
	code := sarama.ErrNoError
	for _, parts := range errs {
		for _, p := range parts {
			if p.Err != sarama.ErrNoError && (code == sarama.ErrNoError || code == sarama.ErrOperationNotAttempted) {
				code = p.Err
			}
		}
	}
	return code
}

// Commit writes the witness and the group's offsets into the transaction that p permits to commit, and commits it. Nil
// means that it is committed, ErrUndecided that only the ledger tells. All its writes must be acknowledged.
func (t *Transactions) Commit(ctx context.Context, p barrier.Permit, w Witness) error {
	s := t.slotOf(p.Identity())
	if s == nil || s.last != p.Identity() {
		return fmt.Errorf("checkpoint %d: %v is not an open transaction of this attempt", p.Checkpoint(), p.Identity())
	}
	w.Job, w.Checkpoint, w.Identity = t.opts.Job, p.Checkpoint(), p.Identity()
	if err := t.awaitLeaders(ctx); err != nil {
		return err
	}
	began := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		s.witness, err = t.writeWitness(gctx, w)
		return fenced(kafka.ProduceBatch, err)
	})
	g.Go(func() error { return t.commitOffsets(gctx, s, w.Positions) })
	if err := g.Wait(); err != nil {
		return err
	}
	began = t.took(StepWitness, began)
	failpoint.Pass(failpoint.WitnessWritten)
	err := t.end(ctx, s, p.Identity(), true)
	t.took(StepEndTxn, began)
	failpoint.Pass(failpoint.TransactionCommitted)
	return err
}

func (t *Transactions) slotOf(id record.Identity) *slot {
	for _, s := range t.all() {
		if s.id == id.TransactionalID {
			return s
		}
	}
	return nil
}

// end repeats EndTxn until it is answered. Only success is an answer about this transaction.
func (t *Transactions) end(ctx context.Context, s *slot, id record.Identity, commit bool) error {
	req := &sarama.EndTxnRequest{
		Version: 3, TransactionalID: id.TransactionalID, ProducerID: id.ProducerID, ProducerEpoch: id.Epoch, TransactionResult: commit,
	}
	op := "commit the transaction of " + id.String()
	if !commit {
		op = "abort the transaction of " + id.String()
	}
	err := s.coordinator.Do(ctx, kafka.EndTxn, op, t.tried, func(b *sarama.Broker) (sarama.KError, error) {
		resp, err := b.EndTxn(req)
		if err != nil {
			return 0, err
		}
		return resp.Err, nil
	})
	if err != nil && kafka.Classify(kafka.EndTxn, err) == kafka.Witness {
		if planted.Is(planted.InvalidStateIsSuccess) {
			return nil
		}
		return fmt.Errorf("%w: %w", ErrUndecided, err)
	}
	return err
}

// Abort ends the open transaction of a slot without effect.
func (t *Transactions) Abort(ctx context.Context, i int) error {
	s := &t.slots[i]
	return t.end(ctx, s, s.last, false)
}

// AbortOpen ends the open transactions of all slots without effect, as far as Kafka answers before ctx ends. No other call may
// be under way. A transaction that is over already, in either way, stays as it is.
func (t *Transactions) AbortOpen(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range t.slots {
		if s := &t.slots[i]; s.opened {
			g.Go(func() error {
				if err := t.end(ctx, s, s.last, false); !errors.Is(err, ErrUndecided) {
					return err
				}
				return nil
			})
		}
	}
	return g.Wait()
}

// awaitLeaders waits until every partition has a leader: a broker of version 4.3 writes no marker for one that has none.
func (t *Transactions) awaitLeaders(ctx context.Context) error {
	err := kafka.Repeat(ctx, "wait for leaders before a commit", func() error {
		if err := t.cluster.Refresh(ctx, t.topics()...); err != nil {
			return err
		}
		for _, p := range t.partitions {
			if _, _, err := t.cluster.Leader(p.Topic, p.Partition); err != nil {
				return err
			}
		}
		return nil
	}, func(err error) bool {
		t.tried(err)
		return !kafka.Permanent(err)
	})
	if err != nil {
		return err
	}
	return t.sameTopics(ctx)
}

// sameTopics compares the ids of the topics with those that the attempt began with: what was acknowledged by a topic that is
// gone must not be taken for written.
func (t *Transactions) sameTopics(ctx context.Context) error {
	for name, old := range t.opts.TopicIDs {
		topic, err := t.cluster.Topic(ctx, name)
		if err != nil {
			return err
		}
		if id := record.TopicID(topic.ID); id != old {
			return &RecreatedError{Topic: name, Old: old, New: id}
		}
	}
	return nil
}

func (t *Transactions) topics() []string {
	topics := []string{t.opts.Ledger}
	for _, o := range t.opts.Outputs {
		topics = append(topics, o.Topic)
	}
	return topics
}
