package sidecar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/txsink"
)

// JobTransactions are the transactions of a job that does not run in this process, for an operator to look at and to end.
// One goroutine uses them.
type JobTransactions struct {
	settings *Settings
	cluster  *kafka.Cluster
	txns     *txsink.Transactions
	// catalog is nil where the checkpoint store is not there.
	catalog  *checkpoint.Catalog
	storeErr error
}

// JobTransaction is one transactional id of a job.
type JobTransaction struct {
	txsink.TransactionState
	// Prepared is the checkpoint that a commit of the open transaction completes: its manifest is durable and no witness of it
	// is visible. It is 0 where only an abort is safe.
	Prepared record.CheckpointID
}

// TransactionList is what there is to know of a job's transactions without changing anything.
type TransactionList struct {
	// Committed is the last checkpoint with a visible witness, 0 where there is none.
	Committed    record.CheckpointID
	Transactions []JobTransaction
	// StoreErr says why the checkpoint store was not read: then nothing is known of prepared checkpoints.
	StoreErr error
}

// Open returns those of the transactions that hold readers back.
func (l *TransactionList) Open() []JobTransaction {
	return slices.DeleteFunc(slices.Clone(l.Transactions), func(t JobTransaction) bool { return !t.TransactionState.Open() })
}

// Known says that the brokers know a transactional id of the job.
func (l *TransactionList) Known() bool {
	return slices.ContainsFunc(l.Transactions, func(t JobTransaction) bool { return t.State != txsink.Absent })
}

// Prepared returns the checkpoints that a commit would complete, in order.
func (l *TransactionList) Prepared() []record.CheckpointID {
	var found []record.CheckpointID
	for _, t := range l.Open() {
		if t.Prepared > 0 {
			found = append(found, t.Prepared)
		}
	}
	slices.Sort(found)
	return found
}

// OpenTransactions connects to Kafka. Topics of the job that are gone are no error: what is open may be all that is left of it.
func OpenTransactions(ctx context.Context, s Settings) (*JobTransactions, error) {
	t := &JobTransactions{settings: &s}
	t.openCatalog()
	ctx, cancel := context.WithTimeoutCause(ctx, s.StartTimeout, errSlowStart)
	defer cancel()
	var err error
	if t.cluster, err = kafka.Open(ctx, s.Kafka); err != nil {
		return nil, err
	}
	outputs, err := t.outputs(ctx)
	if err != nil {
		t.cluster.Close()
		return nil, err
	}
	t.txns = txsink.NewTransactions(t.cluster, txsink.TransactionOptions{
		Job: s.Job, Slots: max(1, s.Checkpoint.Transactions), Outputs: outputs, Ledger: s.Ledger, Timeout: s.TransactionTimeout,
		RequestTimeout: s.Kafka.RequestTimeout, Logger: s.Logger,
	})
	return t, nil
}

// Close closes the connections to Kafka.
func (t *JobTransactions) Close() { t.cluster.Close() }

// openCatalog opens the checkpoint store if it is there. It is not made: looking leaves no traces.
func (t *JobTransactions) openCatalog() {
	store, err := checkpoint.OpenDir(t.settings.Checkpoint.Dir)
	if err == nil {
		t.catalog, err = checkpoint.NewCatalog(store, t.settings.Job)
	}
	t.storeErr = err
}

// outputs are the output topics that exist.
func (t *JobTransactions) outputs(ctx context.Context) ([]txsink.Output, error) {
	_, names := t.settings.Graph.Topics()
	var found []txsink.Output
	for _, name := range names {
		exists, err := t.cluster.Exists(ctx, name)
		if err != nil {
			return nil, err
		}
		if !exists {
			t.settings.Logger.Warn("an output topic of the job does not exist", "topic", name)
			continue
		}
		topic, err := t.cluster.Topic(ctx, name)
		if err != nil {
			return nil, err
		}
		found = append(found, txsink.Output{Topic: name, Partitions: int32(len(topic.Partitions))})
	}
	return found, nil
}

// List looks at every transactional id of the job.
func (t *JobTransactions) List(ctx context.Context) (*TransactionList, error) {
	states, err := t.txns.States(ctx)
	if err != nil {
		return nil, err
	}
	hint, prepared, err := t.prepared(ctx)
	if err != nil {
		return nil, err
	}
	list := &TransactionList{StoreErr: t.storeErr}
	if hint != nil {
		list.Committed = hint.Checkpoint
	}
	for _, s := range states {
		tx := JobTransaction{TransactionState: s}
		for _, w := range prepared {
			if w.Identity == s.Identity && s.Open() {
				tx.Prepared = w.Checkpoint
			}
		}
		list.Transactions = append(list.Transactions, tx)
	}
	return list, nil
}

// prepared returns the last visible witness and the checkpoints after it that are prepared.
func (t *JobTransactions) prepared(ctx context.Context) (*txsink.Witness, []txsink.Witness, error) {
	ledger, err := t.cluster.Exists(ctx, t.settings.Ledger)
	if err != nil || !ledger {
		return nil, nil, err
	}
	hint, err := t.txns.Hint(ctx)
	if err != nil || t.catalog == nil {
		return hint, nil, err
	}
	found, err := prepared(ctx, t.catalog, hint, t.settings.Logger)
	return hint, found, err
}

// Watch is how long Moves looks where a transaction is open.
func (t *JobTransactions) Watch() time.Duration { return t.settings.watch() }

// Moves looks at the transactions for a while and returns what it sees of an instance of the job at work, as a start of the
// job does; see moves.
func (t *JobTransactions) Moves(ctx context.Context) (string, error) {
	return moves(ctx, t.txns, t.Watch(), nil)
}

// Abort ends every open transaction of the job without effect and returns what there is then. An instance that runs is fenced:
// it starts another attempt, with new transactions.
func (t *JobTransactions) Abort(ctx context.Context) (*TransactionList, error) {
	if _, err := t.txns.AbortAll(ctx); err != nil {
		return nil, err
	}
	return t.List(ctx)
}

// errNothingPrepared says that there is nothing to commit.
var errNothingPrepared = errors.New("no checkpoint of the job is prepared and uncommitted: there is nothing that could be committed")

// Commit commits the prepared checkpoints that can be committed still, as the next start of the job would, ends everything
// else of the job without effect, and returns what there is then.
func (t *JobTransactions) Commit(ctx context.Context) (*TransactionList, error) {
	if t.storeErr != nil {
		return nil, fmt.Errorf("the checkpoint store tells what may be committed, and is not to be read: %w", t.storeErr)
	}
	_, prepared, err := t.prepared(ctx)
	if err != nil {
		return nil, err
	}
	if len(prepared) == 0 {
		return nil, errNothingPrepared
	}
	if _, err := t.txns.CommitPrepared(ctx, prepared); err != nil {
		return nil, err
	}
	return t.List(ctx)
}
