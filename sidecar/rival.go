package sidecar

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/txsink"
)

// Two instances of one job do no harm to results, for Kafka's fencing lets one of them commit at a time. But each takes the
// transactions away from the other at every start, so neither gets far. Two rules let exactly one go on:
//
//   - An instance that starts looks whether another is at work, and refuses then (awaitSilence). What crashed on this disk is not
//     taken for another, so a restart does not wait.
//   - An instance that is fenced does not fence back, but looks who did it, and ends when the other is at work (rival).
//
// Of two that start at the same time, each may fence the other while it recovers. Then both wait, each time longer and by
// chance, until one gets as far as to work.

// AnotherInstanceError says that another instance of the job is at work.
type AnotherInstanceError struct {
	Job string
	// Name is what the other instance is called, "" where that is not known.
	Name string
	// Evidence is what was seen of it.
	Evidence string
	// Fenced says that it has taken over the transactions of this one; Local that both use the same folder, where there is no
	// taking over.
	Fenced, Local bool
}

// Error names the other instance as far as it is known, and what was seen of it.
func (e *AnotherInstanceError) Error() string {
	other := "another instance of job " + e.Job + " is running"
	if e.Name != "" {
		other += ", " + e.Name
	}
	if e.Fenced {
		other += "; it has taken over from this one"
	}
	return fmt.Sprintf("%s: %s; of one job there is one instance at a time: let that one run, or stop it first", other, e.Evidence)
}

// OperatorDecides marks errors that no restart can mend.
func (e *AnotherInstanceError) OperatorDecides() bool { return true }

const (
	// lookAgain is the time between two looks at transactions that may move.
	lookAgain = 100 * time.Millisecond
	// An instance at work begins a transaction at each checkpoint, so looking for two intervals shows it. Bounded from above, so
	// that a job with long intervals is not down for longer than that when it moves to another machine.
	watchMin = 2 * time.Second
	watchMax = 30 * time.Second
	// rivalMax bounds the wait after being fenced again and again, which doubles each time, watchDoublings times at most.
	rivalMax       = time.Minute
	watchDoublings = 8
)

func (s *Settings) watch() time.Duration {
	return min(max(2*s.Checkpoint.Interval, watchMin), watchMax)
}

// moves looks at the transactions of a job for a while and returns what it sees of an instance at work: a transaction that
// begins. It returns "" where none does, and at once where none is open, for a working instance always has one open. An
// instance that hangs, or whose checkpoint interval is longer than the while, cannot be told from one that is gone. stop,
// if not nil, ends the looking when it is closed.
func moves(ctx context.Context, txns *txsink.Transactions, during time.Duration, stop <-chan struct{}) (string, error) {
	before, err := txns.States(ctx)
	if err != nil || !slices.ContainsFunc(before, txsink.TransactionState.Open) {
		return "", err
	}
	return watchFrom(ctx, txns, before, during, stop)
}

// watchFrom looks for a transaction that began after the states given.
func watchFrom(ctx context.Context, txns *txsink.Transactions, before []txsink.TransactionState, during time.Duration,
	stop <-chan struct{},
) (string, error) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for end := time.Now().Add(during); time.Now().Before(end); {
		select {
		case <-tick.C:
		case <-stop:
			return "", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		now, err := txns.States(ctx)
		if err != nil {
			return "", err
		}
		if what := moved(before, now); what != "" {
			return what, nil
		}
	}
	return "", nil
}

// moved names the first transaction that began between two looks. That is the one change that no broker makes by itself: one
// that aborts a transaction for its age gives out a new epoch as well.
func moved(before, now []txsink.TransactionState) string {
	for _, n := range now {
		i := slices.IndexFunc(before, func(b txsink.TransactionState) bool { return b.TransactionalID == n.TransactionalID })
		began := n.State == "Ongoing" && (i < 0 || before[i].Identity != n.Identity || !before[i].Started.Equal(n.Started))
		if began {
			return fmt.Sprintf("a transaction of %s, epoch %d, has just begun", n.TransactionalID, n.Identity.Epoch)
		}
	}
	return ""
}

// awaitSilence fails with *AnotherInstanceError where another instance is at work. hint is the last witness.
func (a *attempt) awaitSilence(ctx context.Context, hint *txsink.Witness) error {
	s := a.job.settings
	if hint == nil || a.job.second || s.TakeOver {
		return nil
	}
	m, err := a.job.catalog.Read(ctx, hint.Manifest.Name, "")
	if err == nil && checkpoint.RunInstance(m.Run) == a.job.lease.id {
		return nil // the last one at work has held the lease that this process holds now
	}
	a.job.setState(admin.Recovering, "looking whether another instance is at work")
	what, err := moves(ctx, a.txns, s.watch(), a.job.stop)
	a.job.setState(admin.Recovering, "")
	if err != nil || what == "" {
		return err
	}
	return a.job.anotherInstance(m, what, false)
}

// rival finds out, after this instance may have been fenced a number of times in a row, whether another one is at work
// (*AnotherInstanceError). It waits while another may be on its way there: it has got new identities and restores state.
func (a *attempt) rival(ctx context.Context, times int) error {
	taken, states, err := a.txns.TakenOver(ctx)
	if err != nil || !taken {
		return err
	}
	wait := min(a.job.settings.watch()<<min(times-1, watchDoublings), rivalMax)
	a.job.setState(admin.Recovering, "another process has taken the transactions over; looking whether it is at work")
	what, err := watchFrom(ctx, a.txns, states, wait+rand.N(wait), a.job.stop)
	if err != nil || what == "" {
		return err
	}
	var m *checkpoint.Manifest
	if hint, err := a.txns.Hint(ctx); err == nil && hint != nil {
		m, _ = a.job.catalog.Read(ctx, hint.Manifest.Name, "") // it only has the name
	}
	return a.job.anotherInstance(m, what, true)
}

// anotherInstance names the other instance by the manifest that was committed last, where that is its.
func (j *Job) anotherInstance(m *checkpoint.Manifest, evidence string, fenced bool) error {
	e := &AnotherInstanceError{Job: j.settings.Job, Evidence: evidence, Fenced: fenced}
	if m != nil && m.Instance != "" && checkpoint.RunInstance(m.Run) != j.lease.id {
		e.Name = "instance " + m.Instance
	}
	return e
}
