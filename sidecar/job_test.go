package sidecar_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/sidecar"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/tests/kafkatest"
	"github.com/weirstream/weir/topology"
)

// bench is a job that counts its input by key and copies it, with the topics that it uses.
type bench struct {
	t                  *testing.T
	e                  *kafkatest.Endpoint
	in, counts, copies string
	settings           sidecar.Settings
	produced           int
	// partitions of the input that are written to.
	partitions int
	job        *sidecar.Job
	done       chan error
	cancel     context.CancelFunc
}

func newBench(t *testing.T, e *kafkatest.Endpoint, backend statestore.Backend) *bench {
	t.Helper()
	b := &bench{t: t, e: e, partitions: 4, in: e.CreateTopic("in", 4), counts: e.CreateTopic("counts", 4), copies: e.CreateTopic("copies", 2)}
	name := e.CreateTopic("job", 1)
	graph, faults := topology.Compile(topology.Spec{
		Job:     name,
		Sources: []topology.SourceSpec{{Name: "src", Topic: b.in, Format: "raw"}},
		Operators: []topology.OperatorSpec{{Name: "count", From: []string{"src"}, Key: "key",
			Aggregate: []topology.NamedText{{Name: "count", Text: "count()"}}}},
		Sinks: []topology.SinkSpec{
			{Name: "counts", Topic: b.counts, From: []string{"count"}, Format: "int64"},
			{Name: "copies", Topic: b.copies, From: []string{"src"}},
		},
	})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	b.settings = sidecar.Settings{
		Job: name, Instance: "test", Kafka: kafka.Options{Brokers: e.Brokers()}, TransactionTimeout: time.Minute, Discovery: time.Minute, StartTimeout: time.Minute, ShutdownTimeout: time.Minute,
		Group: name, Ledger: name + "-ledger", Graph: graph, Subtasks: 2,
		Checkpoint: sidecar.Checkpointing{Interval: 50 * time.Millisecond, Dir: t.TempDir(), Keep: 3, InFlight: 2, Transactions: 2},
		State:      sidecar.State{Backend: backend, Dir: t.TempDir(), Cache: 16 << 20},
		Buffers:    sidecar.Buffers{Prefetch: 1 << 20, Exchange: 1 << 18, Sink: 1 << 20},
		Restart:    sidecar.Restart{Min: 10 * time.Millisecond, Max: time.Second},
		Logger:     slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	return b
}

func (b *bench) produce(n int) {
	b.t.Helper()
	var rs []kafkatest.Record
	for range n {
		k := b.produced % 17
		rs = append(rs, kafkatest.Record{Partition: int32(k % b.partitions), Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Appendf(nil, "%d", b.produced)})
		b.produced++
	}
	b.e.Produce(b.in, rs...)
}

func (b *bench) start() {
	b.t.Helper()
	job, err := sidecar.New(b.settings)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- job.Run(ctx)
		job.Close()
	}()
	b.job, b.done, b.cancel = job, done, cancel
	b.t.Cleanup(cancel)
}

// crash ends the job without a last checkpoint: nothing is committed or aborted in order.
func (b *bench) crash() {
	b.t.Helper()
	b.cancel()
	if err := <-b.done; !errors.Is(err, context.Canceled) {
		b.t.Fatalf("Run returned %v", err)
	}
}

func (b *bench) stop() {
	b.t.Helper()
	b.job.Stop()
	if err := <-b.done; err != nil {
		b.t.Fatalf("Run returned %v", err)
	}
	if s := b.job.Status(); s.State != admin.Stopped {
		b.t.Errorf("state %s after a stop", s.State)
	}
}

// awaitCopies waits until the copies are visible, all of them.
func (b *bench) awaitCopies() {
	b.t.Helper()
	b.e.Until(fmt.Sprintf("%d committed copies", b.produced), func(context.Context) error {
		if n := len(b.e.ReadCommitted(b.copies)); n < b.produced {
			return fmt.Errorf("%d of %d", n, b.produced)
		}
		return nil
	})
}

// check compares both outputs with a fold over the input.
func (b *bench) check() {
	b.t.Helper()
	seen := map[string]int{}
	for _, r := range b.e.ReadCommitted(b.copies) {
		seen[string(r.Value)]++
	}
	for i := range b.produced {
		if n := seen[fmt.Sprint(i)]; n != 1 {
			b.t.Errorf("record %d was copied %d times", i, n)
		}
	}
	counts, want := map[string]uint64{}, map[string]uint64{}
	for _, r := range b.e.ReadCommitted(b.counts) {
		n := binary.BigEndian.Uint64(r.Value)
		if k := string(r.Key); n != counts[k]+1 {
			b.t.Fatalf("key %s counted %d after %d", k, n, counts[k])
		}
		counts[string(r.Key)] = n
	}
	for i := range b.produced {
		want[fmt.Sprintf("k%d", i%17)]++
	}
	if fmt.Sprint(counts) != fmt.Sprint(want) {
		b.t.Errorf("counts %v, want %v", counts, want)
	}
}

// acceptJob is what must hold on every broker.
func acceptJob(t *testing.T, e *kafkatest.Endpoint) {
	for _, backend := range []statestore.Backend{statestore.Pebble, statestore.Memory, statestore.FS} {
		t.Run(string(backend), func(t *testing.T) {
			b := newBench(t, e, backend)
			b.produce(1000)
			b.start()
			b.awaitCopies()
			b.produce(500)
			b.stop()
			b.produce(700)
			b.start()
			b.awaitCopies()
			b.crash()
			b.produce(300)
			b.settings.Subtasks = 3
			b.start()
			b.awaitCopies()
			b.stop()
			b.check()
		})
	}
}

// acceptNewPartitions adds partitions to the input, while the job runs and while it does not. The keys' records stay where they
// were, so the counts must go on; the number of key groups, chosen for four partitions, is kept.
func acceptNewPartitions(t *testing.T, e *kafkatest.Endpoint) {
	b := newBench(t, e, statestore.Pebble)
	b.settings.Discovery = 50 * time.Millisecond
	b.produce(300)
	b.start()
	b.awaitCopies()
	e.AddPartitions(b.in, 5)
	b.partitions = 5
	b.produce(300)
	b.awaitCopies()
	b.stop()
	e.AddPartitions(b.in, 9)
	b.partitions = 9
	b.produce(300)
	b.start()
	b.awaitCopies()
	b.stop()
	b.check()
}

func TestFault35NewPartitionsOnFake(t *testing.T) { acceptNewPartitions(t, kafkatest.Fake(t).Endpoint) }

// TestAtLeastOnceLosesNothing: without transactions a crash may repeat results, and no more than that.
func TestAtLeastOnceLosesNothing(t *testing.T) {
	b := newBench(t, kafkatest.Fake(t).Endpoint, statestore.Pebble)
	b.settings.Checkpoint.Transactions = 0
	b.produce(500)
	b.start()
	b.awaitCopies()
	b.crash()
	b.produce(500)
	b.start()
	b.awaitCopies()
	b.stop()
	seen, highest := map[string]int{}, map[string]uint64{}
	for _, r := range b.e.ReadCommitted(b.copies) {
		seen[string(r.Value)]++
	}
	for _, r := range b.e.ReadCommitted(b.counts) {
		highest[string(r.Key)] = max(highest[string(r.Key)], binary.BigEndian.Uint64(r.Value))
	}
	for i := range b.produced {
		if seen[fmt.Sprint(i)] == 0 {
			t.Errorf("record %d is lost", i)
		}
	}
	for k := range 17 {
		if want, got := uint64((b.produced-k+16)/17), highest[fmt.Sprintf("k%d", k)]; got != want {
			t.Errorf("key k%d is counted %d, want %d: state and positions belong together", k, got, want)
		}
	}
}

func TestJobOnFake(t *testing.T) { acceptJob(t, kafkatest.Fake(t).Endpoint) }

// TestAStoreThatFailsForLongEndsTheAttempt: manifests and state cannot be written while a file is where the job's folder should
// be. Checkpoints wait, the attempt ends when the transaction nears its timeout, and says why; the job goes on once it can.
func TestAStoreThatFailsForLongEndsTheAttempt(t *testing.T) {
	b := newBench(t, kafkatest.Fake(t).Endpoint, statestore.FS)
	b.settings.TransactionTimeout = 2 * time.Second
	b.produce(500)
	b.start()
	b.awaitCopies()
	folder := filepath.Join(b.settings.Checkpoint.Dir, b.settings.Job)
	if err := errors.Join(os.Rename(folder, folder+".aside"), os.WriteFile(folder, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	b.produce(500)
	b.e.Until("the end of the attempt", func(context.Context) error {
		if s := b.job.Status(); len(s.Failures) == 0 {
			return fmt.Errorf("state %s, %d retries", s.State, s.Store.Retries)
		}
		return nil
	})
	f := b.job.Status().Failures[0]
	if f.Cause != admin.CauseStore || !strings.Contains(f.Error, "nears its timeout") && !strings.Contains(f.Error, "near its timeout") ||
		!strings.Contains(f.Error, b.settings.Checkpoint.Dir) || !strings.Contains(f.Error, "not a directory") {
		t.Errorf("the attempt ended with cause %s: %s", f.Cause, f.Error)
	}
	if err := errors.Join(os.Remove(folder), os.Rename(folder+".aside", folder)); err != nil {
		t.Fatal(err)
	}
	b.awaitCopies()
	b.stop()
	b.check()
}

// TestATopicThatStaysAwayEndsTheJob deletes an output while the job runs, which its commits wait for until the attempt ends.
func TestATopicThatStaysAwayEndsTheJob(t *testing.T) {
	b := newBench(t, kafkatest.Fake(t).Endpoint, statestore.FS)
	b.settings.TransactionTimeout, b.settings.MissingAfter = 2*time.Second, 500*time.Millisecond
	b.produce(100)
	b.start()
	b.awaitCopies()
	b.e.DeleteTopic(b.copies)
	b.produce(100)
	err := <-b.done
	var gone *sidecar.TopicGoneError
	if !errors.As(err, &gone) || gone.Topic != b.copies || !gone.OperatorDecides() {
		t.Errorf("Run returned %v", err)
	}
}
