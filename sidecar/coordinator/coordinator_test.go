package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/barrier"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world plays everything around a coordinator and writes down what happens.
type world struct {
	interval time.Duration
	mu       sync.Mutex
	log      []string
	epoch    int16
	c        *Coordinator
	fail     map[string]error
	commit   chan record.CheckpointID
	// silent subtasks do not report.
	silent bool
}

func (w *world) note(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, what)
	return w.fail[what]
}

func (w *world) Open(_ context.Context, slot int) (record.Identity, error) {
	w.mu.Lock()
	w.epoch++
	id := record.Identity{TransactionalID: fmt.Sprintf("job-%d", slot), ProducerID: int64(slot), Epoch: w.epoch}
	w.mu.Unlock()
	return id, w.note("open")
}

func (w *world) Commit(_ context.Context, p barrier.Permit, m record.Blob, c Complete) error {
	if want := fmt.Sprintf("manifest-%d", p.Checkpoint()); m.Name != want || len(c.Positions) != 2 || len(c.States) != 2 {
		return fmt.Errorf("commit of %v with manifest %q, %d positions, %d states", p, m.Name, len(c.Positions), len(c.States))
	}
	return w.note(fmt.Sprintf("commit %d", p.Checkpoint()))
}

func (w *world) Release(context.Context, int, record.Identity) error { return w.note("release") }
func (w *world) Abort(context.Context, int, record.Identity) error   { return w.note("abort") }

func (w *world) Prepare(_ context.Context, c Complete) (record.Blob, error) {
	return record.Blob{Name: fmt.Sprintf("manifest-%d", c.Checkpoint)}, w.note(fmt.Sprintf("prepare %d", c.Checkpoint))
}

func (w *world) Committed(n record.CheckpointID, _ record.Blob) { w.commit <- n }

func (w *world) Phase(record.CheckpointID, string, time.Duration) {}
func (w *world) Begin(record.Identity)                            {}

func (w *world) Trigger(b record.Barrier) {
	if w.silent {
		return
	}
	go func() {
		for i := range 2 {
			r := task.Report{Attempt: b.Attempt, Checkpoint: b.Checkpoint, Subtask: i,
				Positions: make([]record.Position, 1), States: make([]record.StateHandle, 1)}
			if err := w.c.Report(context.Background(), r); err != nil {
				panic(err)
			}
		}
	}()
}

func start(t *testing.T, w *world, timeout time.Duration) <-chan error {
	t.Helper()
	w.commit = make(chan record.CheckpointID, 1000)
	c, err := New(Options{
		Core:     barrier.CoordinatorOptions{Attempt: 3, Subtasks: 2, Next: 1, Slots: 2, MaxInFlight: 2},
		Interval: cmp.Or(w.interval, time.Millisecond), TransactionTimeout: timeout,
		Transactions: w, Checkpoints: w, Subtasks: w, Observer: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.c = c
	done := make(chan error, 1)
	go func() { done <- c.Run(t.Context()) }()
	return done
}

func TestCheckpointsCommitInOrderUntilStopped(t *testing.T) {
	w := &world{}
	done := start(t, w, time.Hour)
	for n := record.CheckpointID(1); n <= 5; n++ {
		if got := <-w.commit; got != n {
			t.Fatalf("committed %d, want %d", got, n)
		}
	}
	w.c.Stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s := w.c.Status()
	if s.Last.Checkpoint < 5 || len(s.Open) > 0 {
		t.Errorf("after the stop: last %d, %d open", s.Last.Checkpoint, len(s.Open))
	}
	for n := 1; n <= int(s.Last.Checkpoint); n++ {
		p, c := slices.Index(w.log, fmt.Sprintf("prepare %d", n)), slices.Index(w.log, fmt.Sprintf("commit %d", n))
		if p < 0 || c < p {
			t.Errorf("checkpoint %d: prepared at %d, committed at %d of %v", n, p, c, w.log)
		}
	}
}

// TestTheFirstCheckpointComesSoon though the interval is long; the second does not.
func TestTheFirstCheckpointComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{interval: time.Hour}
		begin := time.Now()
		done := start(t, w, 10*time.Hour)
		for n, want := range []time.Duration{firstInterval, firstInterval + time.Hour} {
			<-w.commit
			if took := time.Since(begin); took < want || took > want+time.Second {
				t.Errorf("checkpoint %d is committed after %v, want %v", n+1, took, want)
			}
		}
		w.c.Stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAFailureEndsTheAttempt(t *testing.T) {
	for _, step := range []string{"open", "prepare 2", "commit 2", "release"} {
		cause := errors.New("no luck")
		w := &world{fail: map[string]error{step: cause}}
		if err := <-start(t, w, time.Hour); !errors.Is(err, cause) {
			t.Errorf("%s failed: Run returned %v", step, err)
		}
	}
}

func TestATransactionNearItsTimeoutEndsTheAttempt(t *testing.T) {
	w := &world{silent: true}
	if err := <-start(t, w, 20*time.Millisecond); !errors.Is(err, barrier.ErrExpiring) {
		t.Errorf("Run returned %v, want ErrExpiring", err)
	}
}

func TestStaleAndRepeatedReportsAddNothing(t *testing.T) {
	w := &world{}
	done := start(t, w, time.Hour) // Commit fails where positions were counted twice
	for range 20 {
		n := <-w.commit
		for _, r := range []task.Report{{Attempt: 2, Checkpoint: n + 1}, {Attempt: 3, Checkpoint: n}} {
			r.Positions = make([]record.Position, 1)
			if err := w.c.Report(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.c.Stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
