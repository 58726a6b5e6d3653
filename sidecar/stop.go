package sidecar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/record"
)

// errStopTimeout ends an attempt whose last checkpoint is not committed in time.
var errStopTimeout = errors.New("the time for a stop is over")

// errStoppedEarly ends a start that was asked to stop.
var errStoppedEarly = errors.New("asked to stop before the job was connected")

// StopError says that a stop was not completed in order. Nothing is lost by that.
type StopError struct {
	// Cause is why the last checkpoint is not committed.
	Cause error
	// Checkpoint is the last one known to be committed; 0 where none is known.
	Checkpoint record.CheckpointID
	// Open tells of the transactions that were left open, "" where none was.
	Open string
}

// Error says where the next start goes on, and what became of open transactions.
func (e *StopError) Error() string {
	from := "the last committed checkpoint"
	if e.Checkpoint > 0 {
		from = fmt.Sprintf("checkpoint %d, or one after it that turns out to be committed", e.Checkpoint)
	}
	text := fmt.Sprintf("stopped without a last checkpoint: %v; nothing is lost: the next start goes on from %s", e.Cause, from)
	if e.Open != "" {
		text += "; " + e.Open
	}
	return text
}

// Unwrap returns the cause.
func (e *StopError) Unwrap() error { return e.Cause }

// leftovers describe an attempt that could not be drained.
type leftovers struct {
	checkpoint record.CheckpointID
	// waiting is what the last checkpoint waited for, open what became of the transactions.
	waiting, open string
}

// abortShare is the part of the time for a stop that is kept for aborting what is open, and for letting go of files and
// connections.
const abortShare = 5

// boundStop returns a context that ends when a stop has not been carried out in time.
func (j *Job) boundStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	drain := j.settings.ShutdownTimeout - j.settings.ShutdownTimeout/abortShare
	go func() {
		select {
		case <-j.stop:
		case <-ctx.Done():
			return
		}
		if !j.connected() { // nothing is begun that could be completed
			cancel(errStoppedEarly)
			return
		}
		timer := time.NewTimer(drain)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(errStopTimeout)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

func (j *Job) connected() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.connected
}

func (j *Job) stopping() bool {
	select {
	case <-j.stop:
		return true
	default:
		return false
	}
}

// unfinished explains a stop that was not completed.
func (j *Job) unfinished(err error) error {
	stop := &StopError{Cause: err}
	if l := j.left; l != nil {
		stop.Checkpoint, stop.Open = l.checkpoint, l.open
		stop.Cause = fmt.Errorf("%s was not committed within shutdown_timeout (%v)", l.waiting, j.settings.ShutdownTimeout)
	} else if errors.Is(err, errStopTimeout) {
		stop.Cause = fmt.Errorf("the recovery was not done within shutdown_timeout (%v)", j.settings.ShutdownTimeout)
	}
	return stop
}

// abandonWithin bounds the abort of what is open when a job ends for good.
const abandonWithin = 5 * time.Second

// abandon aborts what is open of a job that ends for good, if Kafka answers: readers should not wait for an operator to decide.
// Where another instance has taken over, it has ended those transactions, and its own have other identities.
func (a *attempt) abandon(ctx context.Context) {
	if a.coordinator == nil || !a.job.settings.ExactlyOnce() || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, abandonWithin)
	defer cancel()
	if err := a.txns.AbortOpen(ctx); err != nil {
		a.job.settings.Logger.Warn("open transactions could not be aborted; the brokers do that", "within", a.job.settings.TransactionTimeout,
			"error", err)
	}
}

// leave gives up an attempt that cannot be drained: its transactions are aborted if Kafka answers, so that they do not hold
// readers back until the next start. A commit that Kafka has decided already stays one.
func (a *attempt) leave(ctx context.Context) *leftovers {
	s := a.coordinator.Status()
	l := &leftovers{checkpoint: max(s.Last.Checkpoint, a.base.checkpoint), waiting: "it"}
	if len(s.Open) > 0 {
		l.waiting = fmt.Sprintf("checkpoint %d, in phase %s,", s.Open[0].Checkpoint, s.Open[0].Phase)
	}
	if !a.job.settings.ExactlyOnce() {
		return l
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.job.settings.ShutdownTimeout/abortShare)
	defer cancel()
	l.open = "its open transactions are aborted"
	if err := a.txns.AbortOpen(ctx); err != nil {
		l.open = fmt.Sprintf("its open transactions could not be aborted, so readers with read_committed wait for the next start, or %v "+
			"at most (%v)", a.job.settings.TransactionTimeout, err)
	}
	return l
}
