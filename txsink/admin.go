package txsink

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
)

// TransactionState is what Kafka tells of one transactional id of the job.
type TransactionState struct {
	TransactionalID string
	// State is the coordinator's word for it: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort; Absent
	// for an id that was never used, or so long ago that it is forgotten.
	State string
	// Identity is the current one, zero for an absent id.
	Identity record.Identity
	// Started is when the open transaction began, zero where none is open; Timeout is when the brokers abort it after that.
	Started time.Time
	Timeout time.Duration
	// Partitions are those of the open transaction, or those still without a marker.
	Partitions []kafka.TopicPartition
}

// Absent is the state of an id that the brokers do not know.
const Absent = "Absent"

// errIDNotFound is TRANSACTIONAL_ID_NOT_FOUND (org.apache.kafka.common.protocol.Errors), which sarama does not name.
const errIDNotFound sarama.KError = 105

// Open says that the transaction holds readers back: it is neither committed nor aborted, or its markers are still being
// written.
func (s TransactionState) Open() bool {
	return s.State == "Ongoing" || strings.HasPrefix(s.State, "Prepare")
}

// States asks for the state of each transactional id of the job, in their order, and then of those that a run with more of
// them has left. It changes nothing; the right needed is Describe on the transactional ids.
func (t *Transactions) States(ctx context.Context) ([]TransactionState, error) {
	if err := t.findStrays(ctx); err != nil {
		return nil, err
	}
	var ids []*slot
	for i := range t.slots {
		ids = append(ids, &t.slots[i])
	}
	ids = append(ids, t.strays...)
	states := make([]TransactionState, len(ids))
	for i, s := range ids {
		if err := t.describe(ctx, s, &states[i]); err != nil {
			return nil, err
		}
	}
	return states, nil
}

func (t *Transactions) describe(ctx context.Context, s *slot, into *TransactionState) error {
	*into = TransactionState{TransactionalID: s.id, State: Absent}
	req := &sarama.DescribeTransactionsRequest{TransactionalIDs: []string{s.id}}
	return s.coordinator.Do(ctx, kafka.FindCoordinator, "describe the transactions of "+s.id, t.tried, func(b *sarama.Broker) (sarama.KError, error) {
		resp, err := b.DescribeTransactions(req)
		if err != nil {
			return 0, err
		}
		for _, x := range resp.TransactionStates {
			if x.TransactionalID != s.id || x.ErrorCode == errIDNotFound {
				continue
			}
			if x.ErrorCode != sarama.ErrNoError {
				return x.ErrorCode, nil
			}
			*into = stateOf(x)
		}
		return sarama.ErrNoError, nil
	})
}

func stateOf(x sarama.TransactionState) TransactionState {
	s := TransactionState{
		TransactionalID: x.TransactionalID, State: x.TransactionState, Timeout: x.TransactionTimeout,
		Identity: record.Identity{TransactionalID: x.TransactionalID, ProducerID: x.ProducerID, Epoch: x.ProducerEpoch},
	}
	if x.TransactionStartTime >= 0 {
		s.Started = time.UnixMilli(x.TransactionStartTime)
	}
	for _, topic := range x.Topics {
		for _, p := range topic.Partitions {
			s.Partitions = append(s.Partitions, kafka.TopicPartition{Topic: topic.Topic, Partition: p})
		}
	}
	return s
}

// TakenOver says whether somebody else has got an identity for one of the slots since this attempt got its last. A broker that
// aborts a transaction for its age gives out a new epoch as well, which counts for nothing. No other call may be under way.
func (t *Transactions) TakenOver(ctx context.Context) (bool, []TransactionState, error) {
	states, err := t.States(ctx)
	if err != nil {
		return false, nil, err
	}
	for _, now := range states {
		for i := range t.slots {
			s := &t.slots[i]
			if s.id == now.TransactionalID && !s.last.IsZero() && s.last != now.Identity && (now.State == "Empty" || now.Open()) {
				return true, states, nil
			}
		}
	}
	return false, states, nil
}

// AbortAll takes every transactional id of the job over, which aborts what is open: an instance that still runs is fenced and
// starts another attempt. A prepared checkpoint that could have been committed is lost with it, and processed again. It
// returns when the markers are written, with the last committed checkpoint, nil where there is none. Where the ledger topic
// is gone, nothing can tell what was committed any more, and taking over is all that it does.
func (t *Transactions) AbortAll(ctx context.Context) (*Witness, error) {
	w, err := t.abortAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("abort the transactions of %s: %w", t.opts.Job, err)
	}
	return w, nil
}

func (t *Transactions) abortAll(ctx context.Context) (*Witness, error) {
	ledger, err := t.cluster.Exists(ctx, t.opts.Ledger)
	if err != nil {
		return nil, err
	}
	if ledger {
		return t.Recover(ctx, nil)
	}
	if err := t.findStrays(ctx); err != nil {
		return nil, err
	}
	return nil, t.fence(ctx)
}

// CommitPrepared commits those of the prepared checkpoints whose transaction can still be committed, oldest first, and aborts
// everything else of the job. A prepared checkpoint is one after Hint's with a durable manifest; nothing else may be
// committed, since its results would have no state to go on from. It returns the last committed one, which may be none of them.
func (t *Transactions) CommitPrepared(ctx context.Context, prepared []Witness) (*Witness, error) {
	if len(prepared) == 0 {
		return nil, fmt.Errorf("commit the transactions of %s: no checkpoint is prepared: its manifest is not durable, so only an abort is safe", t.opts.Job)
	}
	w, err := t.Recover(ctx, prepared)
	if err != nil {
		return nil, fmt.Errorf("commit the transactions of %s: %w", t.opts.Job, err)
	}
	return w, nil
}
