package sidecar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/consumer"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/txsink"
)

// Job is one instance of a job.
type Job struct {
	settings *Settings
	cluster  *kafka.Cluster
	catalog  *checkpoint.Catalog
	metrics  *admin.Metrics
	failures admin.Failures
	retries  admin.Retries
	writes   storeWrites
	started  time.Time
	stop     chan struct{}
	stopOnce sync.Once
	mu       struct {
		sync.Mutex
		// current is the attempt that is built and runs.
		current *attempt
		state   admin.State
		reason  string
		// connected says that the cluster fits the job.
		connected bool
		// attempt is the number of the attempt, also while it recovers; began is when it began.
		attempt record.Attempt
		began   time.Time
	}
	// lease is held while Run runs; second says that the attempt is not the first. Run owns both.
	lease  *lease
	second bool
	// left is what an attempt left behind that could not be drained in time. Run owns it.
	left *leftovers
}

var errSlowStart = errors.New("the brokers did not answer within kafka.start_timeout")

// New prepares an instance: it opens the checkpoint store. Run does the rest.
func New(s Settings) (*Job, error) {
	store, err := checkpoint.NewDir(s.Checkpoint.Dir)
	if err != nil {
		return nil, placeError("checkpoint.store", err)
	}
	catalog, err := checkpoint.NewCatalog(store, s.Job)
	if err != nil {
		return nil, err
	}
	if s.MissingAfter == 0 {
		s.MissingAfter = consumer.MissingAfter
	}
	j := &Job{settings: &s, catalog: catalog, metrics: admin.NewMetrics(), started: time.Now(), stop: make(chan struct{})}
	j.writes.path, j.writes.logger = s.Checkpoint.Dir, s.Logger
	j.setState(admin.Starting, "")
	return j, nil
}

// connect connects to Kafka and checks that the cluster fits the job.
func (j *Job) connect(ctx context.Context) error {
	s := j.settings
	j.setState(admin.Starting, "connecting to Kafka at "+strings.Join(s.Kafka.Brokers, ", "))
	ctx, cancel := context.WithTimeoutCause(ctx, s.StartTimeout, errSlowStart)
	defer cancel()
	cluster, err := j.open(ctx)
	if err != nil {
		return err
	}
	j.cluster = cluster
	j.setState(admin.Starting, "checking topics, rights and settings of the brokers")
	if err := preflight(ctx, cluster, s); err != nil {
		return err
	}
	j.mu.Lock()
	j.mu.connected = true
	j.mu.Unlock()
	return nil
}

// open waits for brokers that have not started yet: a sidecar may come up before they do.
func (j *Job) open(ctx context.Context) (cluster *kafka.Cluster, err error) {
	waiting := false
	err = kafka.Repeat(ctx, "connect to Kafka", func() (err error) {
		cluster, err = kafka.Open(ctx, j.settings.Kafka)
		return err
	}, func(err error) bool {
		again := kafka.Unreachable(err) && ctx.Err() == nil
		if again && !waiting {
			waiting = true
			j.settings.Logger.Warn("no broker is there yet, trying again", "for", j.settings.StartTimeout, "error", err)
		}
		return again
	})
	return cluster, err
}

// Close closes the connections to Kafka, after Run.
func (j *Job) Close() {
	j.unclaim()
	if j.cluster != nil {
		j.cluster.Close()
	}
}

// Stop asks for a last checkpoint, after whose commit Run returns nil. Any goroutine may call it, repeatedly.
func (j *Job) Stop() { j.stopOnce.Do(func() { close(j.stop) }) }

// preflight checks the cluster before the first record.
func preflight(ctx context.Context, cluster *kafka.Cluster, s *Settings) error {
	inputs, outputs := s.Graph.Topics()
	warnings, err := txsink.Preflight(ctx, cluster, txsink.PreflightOptions{
		Inputs: inputs, Outputs: outputs, Ledger: s.Ledger, TransactionTimeout: s.TransactionTimeout, Transactional: s.ExactlyOnce(),
	})
	for _, w := range warnings {
		s.Logger.Warn(w)
	}
	return err
}

// Metrics are what the job reports of itself.
func (j *Job) Metrics() *admin.Metrics { return j.metrics }

// Run connects, and runs attempts until a stop has drained the job (nil), ctx ends, or an error comes up that no restart can
// mend. A stop that cannot be completed in time ends with a *StopError. It is called once.
func (j *Job) Run(ctx context.Context) error {
	err := j.run(ctx)
	if err != nil && ctx.Err() == nil && j.stopping() && !final(err) {
		err = j.unfinished(err)
	}
	switch {
	case err == nil:
		j.setState(admin.Stopped, "")
	case ctx.Err() == nil:
		j.setState(admin.Failed, err.Error())
	}
	return err
}

// Claim takes the state folder for this process, as Run would. It fails with *AnotherInstanceError where another process
// has it: whoever calls it before Run learns that before a port is in the way. Close gives the folder back.
func (j *Job) Claim() (err error) {
	if j.lease == nil {
		j.lease, err = takeLease(j.settings)
	}
	return err
}

func (j *Job) unclaim() {
	if j.lease != nil {
		j.lease.release()
		j.lease = nil
	}
}

func (j *Job) run(ctx context.Context) (err error) {
	if err := j.Claim(); err != nil {
		return err
	}
	defer j.unclaim()
	ctx, cancel := j.boundStop(ctx)
	defer cancel()
	if err := j.connect(ctx); err != nil {
		return err
	}
	return j.attempts(ctx)
}

func (j *Job) attempts(ctx context.Context) error {
	pause, fenced := j.settings.Restart.Min, 0
	for {
		a, err := j.once(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if cure := fileCure(err); cure != "" {
			err = fmt.Errorf("%w%s", err, cure)
		}
		if fenced = timesFenced(fenced, a, err); fenced > 0 {
			if rival := a.rival(ctx, fenced); rival != nil {
				err = fmt.Errorf("%w (%w)", rival, err)
			}
		}
		again := !final(err)
		j.failures.Record(admin.Failure{Time: time.Now(), Attempt: int64(a.number), Cause: causeOf(err), Error: err.Error()}, again)
		if !again || j.stopping() {
			a.abandon(ctx)
			return err
		}
		if a.committed() {
			pause = j.settings.Restart.Min
		}
		j.second = true
		if err := j.pause(ctx, pause, err); err != nil {
			a.abandon(ctx)
			return err
		}
		pause = min(2*pause, j.settings.Restart.Max)
	}
}

// timesFenced counts how often in a row attempts may have been fenced before they got anywhere.
func timesFenced(before int, a *attempt, err error) int {
	switch {
	case !txsink.MayBeFenced(err):
		return 0
	case a.committed():
		return 1
	}
	return before + 1
}

// pause waits before another attempt.
func (j *Job) pause(ctx context.Context, pause time.Duration, cause error) error {
	j.settings.Logger.Error("the attempt ended, another one follows", "pause", pause, "error", cause)
	j.setState(admin.Recovering, cause.Error())
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-j.stop:
		return cause
	}
}

// once runs one attempt.
func (j *Job) once(ctx context.Context) (*attempt, error) {
	j.setState(admin.Recovering, "")
	j.writes.begin()
	a, err := j.newAttempt(ctx)
	defer a.close()
	if err != nil {
		return a, err
	}
	j.setCurrent(a)
	defer j.setCurrent(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-j.stop:
			j.setState(admin.Draining, "")
			a.coordinator.Stop()
		case <-done:
		}
	}()
	err = a.work(ctx)
	if errors.Is(context.Cause(ctx), errStopTimeout) {
		j.left = a.leave(ctx)
	}
	return a, err
}

func (j *Job) setCurrent(a *attempt) {
	j.mu.Lock()
	j.mu.current = a
	j.mu.Unlock()
}

func (j *Job) currentState() admin.State {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.state
}

func (j *Job) setState(s admin.State, reason string) {
	j.mu.Lock()
	j.mu.state, j.mu.reason = s, reason
	j.mu.Unlock()
}

// lastAttempt is the number of the latest attempt in this process, 0 before the first.
func (j *Job) lastAttempt() record.Attempt {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.attempt
}

// numbered is called when an attempt knows its number.
func (j *Job) numbered(a *attempt) {
	j.mu.Lock()
	j.mu.attempt, j.mu.began = a.number, a.began
	j.mu.Unlock()
}

// final says that another attempt would end the same way, or, after an fsync that failed, must not be made: nobody knows what the
// operating system kept of the files of this process.
func final(err error) bool {
	var store *StoreError
	return operatorDecides(err) || errors.As(err, &store) && store.Final() || kafka.Permanent(err) ||
		errors.Is(err, statestore.ErrSync) || errors.Is(err, checkpoint.ErrSync)
}

// operatorDecides says that only an operator may decide how to go on.
func operatorDecides(err error) bool {
	var decides interface{ OperatorDecides() bool }
	return errors.As(err, &decides) && decides.OperatorDecides()
}

// tried counts an error that was tried again.
func (j *Job) tried(err error) {
	j.retries.Record(kafka.CodeOf(err), err)
	j.settings.Logger.Debug("trying again", "error", err)
}

// began is called when an attempt starts to process.
func (j *Job) began(a *attempt) {
	j.setState(admin.Running, "")
	j.settings.Logger.Info("processing", "job", j.settings.Job, "attempt", a.number, "checkpoint", a.base.checkpoint, "subtasks", a.plan.Subtasks)
}
