package txsink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/barrier"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/internal/planted"
	"github.com/weirstream/weir/record"
)

// Hint returns the last witness that is visible now, nil where there is none. Something may still be on its way: it only
// tells which checkpoints may be worth rolling forward.
func (t *Transactions) Hint(ctx context.Context) (*Witness, error) {
	tp := kafka.TopicPartition{Topic: t.opts.Ledger}
	stable, err := t.cluster.ListOffsets(ctx, []kafka.TopicPartition{tp}, kafka.Latest, sarama.ReadCommitted)
	if err != nil {
		return nil, err
	}
	return t.lastWitness(ctx, stable[tp])
}

// Recover settles what an earlier attempt left and returns the witness of the last committed checkpoint, nil where there is
// none. prepared are the checkpoints after Hint's whose manifest is durable, in order: each is committed if its
// transaction still can be. When Recover returns, no transaction of the job is open, nobody else can commit one with the
// identities of before, and every slot has a fresh identity. barrier.Recovery decides on the order, and says why.
func (t *Transactions) Recover(ctx context.Context, prepared []Witness) (*Witness, error) {
	var known record.CheckpointID
	hint, err := t.Hint(ctx)
	if err != nil {
		return nil, err
	}
	if hint != nil {
		known = hint.Checkpoint
	}
	var candidates []barrier.Candidate
	for _, w := range prepared {
		candidates = append(candidates, barrier.Candidate{Checkpoint: w.Checkpoint, Identity: w.Identity})
	}
	core, action := barrier.NewRecovery(known, candidates)
	for {
		var event barrier.RecoveryEvent
		var last *Witness
		switch a := action.(type) {
		case barrier.RollForward:
			event, err = t.tryForward(ctx, a.Permit, prepared)
		case barrier.FenceAll:
			event, err = barrier.AllFenced{}, t.fence(ctx)
		case barrier.ReadLedger:
			event, last, err = t.verdict(ctx)
		case barrier.Refuse:
			err = a.Cause
		}
		if err != nil {
			return nil, err
		}
		action = core.Step(event)
		if _, ok := action.(barrier.Restore); ok {
			return last, t.settleMarkers(ctx, last)
		}
	}
}

// tryForward commits the prepared checkpoint of a permit if that is still possible. The only error is the end of ctx.
func (t *Transactions) tryForward(ctx context.Context, p barrier.Permit, prepared []Witness) (barrier.RecoveryEvent, error) {
	for _, w := range prepared {
		if w.Checkpoint != p.Checkpoint() {
			continue
		}
		err := t.rollForward(ctx, w)
		if err == nil || planted.Is(planted.InvalidStateIsSuccess) {
			t.opts.Logger.Info("a prepared checkpoint was rolled forward", "checkpoint", w.Checkpoint)
			return barrier.RolledForward{Committed: true}, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		t.opts.Logger.Info("a prepared checkpoint cannot be committed any more", "checkpoint", w.Checkpoint, "error", err)
	}
	return barrier.RolledForward{}, nil
}

// rollForward commits a transaction whose writes were all acknowledged. The witness may be in it already; writing it again
// with the same sequence changes nothing then. Neither partitions nor offsets are added: if the transaction is over, that
// would open another under the same identity.
func (t *Transactions) rollForward(ctx context.Context, w Witness) error {
	s := t.slotOf(w.Identity)
	if s == nil {
		return fmt.Errorf("%s is not among the job's transactional ids", w.Identity.TransactionalID)
	}
	if _, err := t.writeWitness(ctx, w); err != nil {
		return err
	}
	return t.end(ctx, s, w.Identity, true)
}

// fence takes every transactional id over, which aborts what is open under it.
func (t *Transactions) fence(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range t.slots {
		g.Go(func() error { return t.initialise(ctx, &t.slots[i], noIdentity) })
	}
	return g.Wait()
}

// errHeldBack says that the ledger's last stable offset did not get to its end although every id is fenced: another
// recovery has fenced after this one and opened a transaction.
var errHeldBack = errors.New("the ledger's end is held back by an open transaction")

// heldBackAfter bounds the wait for the ledger's end. Markers are written before a fence returns, so it is there at once.
const heldBackAfter = 5 * time.Second

// verdict reads the ledger to its end of now.
func (t *Transactions) verdict(ctx context.Context) (barrier.RecoveryEvent, *Witness, error) {
	tp := kafka.TopicPartition{Topic: t.opts.Ledger}
	high, err := t.cluster.ListOffsets(ctx, []kafka.TopicPartition{tp}, kafka.Latest, sarama.ReadUncommitted)
	if err != nil {
		return nil, nil, err
	}
	scanCtx, cancel := context.WithTimeoutCause(ctx, heldBackAfter, errHeldBack)
	defer cancel()
	last, err := t.lastWitness(scanCtx, high[tp])
	switch {
	case errors.Is(err, errHeldBack):
		t.opts.Logger.Info("another recovery holds the ledger back, fencing again")
		return barrier.LedgerRead{HeldBack: true}, nil, nil
	case err != nil || last == nil:
		return barrier.LedgerRead{}, nil, err
	}
	return barrier.LedgerRead{Last: last.Checkpoint}, last, nil
}

// settleMarkers repairs partitions in which a transaction of the job ended without its marker. What is stuck belongs to the
// last witness's transaction, or to one that was aborted.
func (t *Transactions) settleMarkers(ctx context.Context, last *Witness) error {
	parts, err := t.undecided(ctx)
	if err != nil {
		return err
	}
	return t.repair(ctx, parts, func(stuck record.Identity) bool { return last != nil && stuck == last.Identity })
}
