package txsink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/barrier"
	"github.com/weirstream/weir/internal/failpoint"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/internal/planted"
	"github.com/weirstream/weir/record"
)

// Hint returns the last witness that is visible now, nil where there is none. Something may still be on its way: it only
// tells which checkpoints may be worth rolling forward.
func (t *Transactions) Hint(ctx context.Context) (*Witness, error) {
	v, err := t.hint(ctx)
	return v.last, err
}

func (t *Transactions) hint(ctx context.Context) (ledgerView, error) {
	tp := t.ledgerPartition()
	stable, err := t.cluster.ListOffsets(ctx, []kafka.TopicPartition{tp}, kafka.Latest, sarama.ReadCommitted)
	if err != nil {
		return ledgerView{}, err
	}
	return t.lastWitness(ctx, stable[tp])
}

func (t *Transactions) ledgerPartition() kafka.TopicPartition {
	return kafka.TopicPartition{Topic: t.opts.Ledger}
}

// recovery carries out what barrier.Recovery asks for.
type recovery struct {
	*Transactions
	prepared []Witness
	// last is the last witness that the verdict found; committed are the identities whose commit is proved.
	last      *Witness
	committed map[record.Identity]bool
}

// Recover settles what an earlier attempt left and returns the witness of the last committed checkpoint, nil where there is
// none. prepared are the checkpoints after Hint's whose manifest is durable, in order: each is committed if its
// transaction still can be. When Recover returns, no transaction of the job is open, nobody else can commit one with the
// identities of before, and every slot has a fresh identity. barrier.Recovery decides on the order, and says why.
func (t *Transactions) Recover(ctx context.Context, prepared []Witness) (*Witness, error) {
	if err := t.findStrays(ctx); err != nil {
		return nil, err
	}
	hint, err := t.hint(ctx)
	if err != nil {
		return nil, err
	}
	var known record.CheckpointID
	if hint.last != nil {
		known = hint.last.Checkpoint
	}
	var candidates []barrier.Candidate
	for _, w := range prepared {
		candidates = append(candidates, barrier.Candidate{Checkpoint: w.Checkpoint, Identity: w.Identity})
	}
	r := &recovery{Transactions: t, prepared: prepared, committed: hint.committed}
	core, action := barrier.NewRecovery(known, candidates)
	for {
		event, err := r.carryOut(ctx, action)
		if err != nil {
			return nil, err
		}
		action = core.Step(event)
		if _, ok := action.(barrier.Restore); ok {
			return r.last, r.settleMarkers(ctx)
		}
	}
}

func (r *recovery) carryOut(ctx context.Context, action barrier.RecoveryAction) (barrier.RecoveryEvent, error) {
	switch a := action.(type) {
	case barrier.RollForward:
		return r.tryForward(ctx, a.Permit)
	case barrier.FenceAll:
		err := r.fence(ctx)
		failpoint.Pass(failpoint.Fenced)
		return barrier.AllFenced{}, err
	case barrier.ReadLedger:
		return r.verdict(ctx)
	case barrier.Refuse:
		return nil, &LedgerError{r.opts.Ledger, a.Cause}
	default:
		return nil, fmt.Errorf("recovery asks for %T", action)
	}
}

// tryForward commits the prepared checkpoint of a permit if that is still possible. The only error is the end of ctx.
func (r *recovery) tryForward(ctx context.Context, p barrier.Permit) (barrier.RecoveryEvent, error) {
	for _, w := range r.prepared {
		if w.Checkpoint != p.Checkpoint() {
			continue
		}
		err := r.rollForward(ctx, w)
		if err == nil || planted.Is(planted.InvalidStateIsSuccess) {
			r.opts.Logger.Info("a prepared checkpoint was rolled forward", "checkpoint", w.Checkpoint)
			r.committed[w.Identity] = true
			return barrier.RolledForward{Committed: true}, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		r.opts.Logger.Info("a prepared checkpoint cannot be committed any more", "checkpoint", w.Checkpoint, "error", err)
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
	if err := t.awaitLeaders(ctx); err != nil {
		return err
	}
	if _, err := t.writeWitness(ctx, w); err != nil {
		return err
	}
	return t.end(ctx, s, w.Identity, true)
}

// fence takes every transactional id over, which aborts what is open under it.
func (t *Transactions) fence(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range t.all() {
		g.Go(func() error { return t.initialise(ctx, s, noIdentity) })
	}
	return g.Wait()
}

// errHeldBack says that the ledger's last stable offset did not get to its end although every id is fenced.
var errHeldBack = errors.New("the ledger's end is held back by an open transaction")

// heldBackAfter bounds the wait for the ledger's end. Markers are written before a fence returns, so it is there at once.
const heldBackAfter = 5 * time.Second

// verdict reads the ledger to its end of now. Where that is held back, another recovery has fenced after this one and opened
// a transaction; or, which only an operator can resolve, the ledger itself lacks a marker.
func (r *recovery) verdict(ctx context.Context) (barrier.RecoveryEvent, error) {
	tp := r.ledgerPartition()
	high, err := r.cluster.ListOffsets(ctx, []kafka.TopicPartition{tp}, kafka.Latest, sarama.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	scanCtx, cancel := context.WithTimeoutCause(ctx, heldBackAfter, errHeldBack)
	defer cancel()
	v, err := r.lastWitness(scanCtx, high[tp])
	if errors.Is(err, errHeldBack) {
		r.opts.Logger.Info("the ledger is held back, by another recovery or by a lost marker")
		return barrier.LedgerRead{HeldBack: true}, r.ledgerStuck(ctx)
	}
	if err != nil {
		return nil, err
	}
	maps.Copy(r.committed, v.committed)
	if r.last = v.last; r.last == nil {
		return barrier.LedgerRead{}, nil
	}
	return barrier.LedgerRead{Last: r.last.Checkpoint}, nil
}

// ledgerStuck returns an error where a transaction of before the fence is still open in the ledger: it has ended without a
// marker there, and whether by commit or abort only the witness could tell, which is what is stuck.
func (t *Transactions) ledgerStuck(ctx context.Context) error {
	open, err := t.openProducers(ctx, t.ledgerPartition())
	if err != nil {
		return err
	}
	for _, o := range open {
		if s := t.slotOfProducer(o.ProducerID); s != nil && o.Epoch < s.last.Epoch {
			o.TransactionalID = s.id
			return &LedgerError{t.opts.Ledger, fmt.Errorf("%w: %v", errLostMarker, o)}
		}
	}
	return nil
}

// settleMarkers repairs partitions in which a transaction of the job ended without its marker. What is stuck was committed
// if its commit is proved, by a witness or by EndTxn; anything else was aborted. The witness of a transaction before the last
// may be needed: it is committed before the markers of the one before it are checked.
func (r *recovery) settleMarkers(ctx context.Context) error {
	parts, err := r.undecided(ctx)
	if err != nil {
		return err
	}
	return r.repair(ctx, parts, func(stuck record.Identity) bool { return r.committed[stuck] })
}
