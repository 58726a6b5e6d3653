package txsink_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/tests/kafkatest"
	"github.com/weirstream/weir/txsink"
)

// stand is a job with one lane that writes two topics.
type stand struct {
	t       *testing.T
	e       *kafkatest.Endpoint
	cluster *kafka.Cluster
	outputs []txsink.Output
	ledger  string
	writer  *txsink.Writer
	lane    *txsink.Lane
	txns    *txsink.Transactions
	acked   chan record.CheckpointID
	// logger is where the transactions of the next attempt tell what they meet; nil is nowhere.
	logger *slog.Logger
	// slots is the number of transactional ids of the next attempt.
	slots int
	end   context.CancelFunc
	done  chan error
}

func newStand(t *testing.T, e *kafkatest.Endpoint) *stand {
	t.Helper()
	return newStandAt(t, e, e.Brokers())
}

// newStandAt reaches the brokers at other addresses than the test itself.
func newStandAt(t *testing.T, e *kafkatest.Endpoint, brokers []string) *stand {
	t.Helper()
	s := &stand{t: t, e: e, slots: 2, ledger: e.CreateTopic("ledger", 1)}
	for _, n := range []int{3, 2} {
		s.outputs = append(s.outputs, txsink.Output{Topic: e.CreateTopic("out", n), Partitions: int32(n)})
	}
	s.cluster = openKnowing(t, e, brokers, s.ledger, s.outputs[0].Topic, s.outputs[1].Topic)
	return s
}

// openKnowing waits until the broker that it happens to ask has heard of topics that were made just now.
func openKnowing(t *testing.T, e *kafkatest.Endpoint, brokers []string, topics ...string) (c *kafka.Cluster) {
	t.Helper()
	e.Until("a broker that knows the topics", func(ctx context.Context) (err error) {
		c, err = kafka.Open(ctx, kafka.Options{Brokers: brokers}, topics...)
		return err
	})
	t.Cleanup(c.Close)
	return c
}

// attempt starts a new writer and recovers; the one before, if any, is left as a crash would leave it.
func (s *stand) attempt(prepared ...txsink.Witness) *txsink.Witness {
	s.t.Helper()
	s.acked = make(chan record.CheckpointID, 100)
	acked := s.acked
	s.writer = txsink.NewWriter(s.cluster, txsink.WriterOptions{
		Outputs: s.outputs, Subtasks: 1, Wake: func(int) {}, Transactional: true, BatchRecords: 10,
		Acked: func(_ int, n record.CheckpointID) { acked <- n },
	})
	s.lane = s.writer.Lane(0)
	s.txns = txsink.NewTransactions(s.cluster, txsink.TransactionOptions{
		Job: s.job(), Slots: s.slots, Outputs: s.outputs, Ledger: s.ledger, Group: s.ledger + "-group",
		Timeout: time.Minute, LastOffsets: s.writer.LastOffsets, Logger: s.logger,
	})
	last, err := s.txns.Recover(s.t.Context(), prepared)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	w := s.writer
	ended := make(chan struct{})
	go func() {
		done <- w.Run(ctx)
		close(ended)
	}()
	s.end = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	s.t.Cleanup(s.end)
	s.done = done
	return last
}

func (s *stand) job() string { return s.ledger + "-job" }

func (s *stand) open(slot int) record.Identity {
	s.t.Helper()
	id, err := s.txns.Open(s.t.Context(), slot)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// write writes n records to each partition of each output, with values that name the checkpoint.
func (s *stand) write(checkpoint, n int) {
	s.t.Helper()
	for o, out := range s.outputs {
		var rs []record.Record
		for i := range n * int(out.Partitions) {
			rs = append(rs, record.Record{Value: fmt.Appendf(nil, "%d-%d", checkpoint, i/int(out.Partitions)),
				Group: record.KeyGroup(i % int(out.Partitions)), Timestamp: 1000 + int64(i)})
		}
		if err := s.lane.Write(o, rs); err != nil {
			s.t.Fatal(err)
		}
	}
}

// finish lets barrier n pass and waits for the acknowledgements.
func (s *stand) finish(n record.CheckpointID, next record.Identity) {
	s.t.Helper()
	s.lane.Barrier(n, next)
	select {
	case got := <-s.acked:
		if got != n {
			s.t.Fatalf("acknowledged %d, want %d", got, n)
		}
	case err := <-s.done:
		s.t.Fatalf("the writer ended: %v", err)
	}
}

// writeTwo writes and acknowledges checkpoints 1 and 2, five records a partition each, and commits neither. It returns their
// identities.
func (s *stand) writeTwo() (first, second record.Identity) {
	s.t.Helper()
	first, second = s.open(0), s.open(1)
	s.lane.Begin(first)
	s.write(1, 5)
	s.finish(1, second)
	s.write(2, 5)
	s.finish(2, record.Identity{})
	return first, second
}

func witness(n record.CheckpointID, id record.Identity) txsink.Witness {
	return txsink.Witness{Checkpoint: n, Identity: id, Manifest: record.Blob{Name: fmt.Sprintf("chk-%d", n), SHA256: "00"}}
}

func (s *stand) commit(n record.CheckpointID, id record.Identity) {
	s.t.Helper()
	if err := s.txns.Commit(s.t.Context(), txsink.PermitFor(s.t, n, id), witness(n, id)); err != nil {
		s.t.Fatal(err)
	}
}

// wantCommitted checks that a reader sees the records of exactly these checkpoints, in order, in every partition.
func (s *stand) wantCommitted(perPartition int, checkpoints ...int) {
	s.t.Helper()
	var want []string
	for _, c := range checkpoints {
		for i := range perPartition {
			want = append(want, fmt.Sprintf("%d-%d", c, i))
		}
	}
	for _, out := range s.outputs {
		got := map[int32][]string{}
		for _, r := range s.e.ReadCommitted(out.Topic) {
			got[r.Partition] = append(got[r.Partition], string(r.Value))
		}
		for p := range out.Partitions {
			if !slices.Equal(got[p], want) {
				s.t.Errorf("%s-%d: %d records %.80v, want %d %.80v", out.Topic, p, len(got[p]), got[p], len(want), want)
			}
		}
	}
}

// acceptTransactions is what must hold on every broker.
func acceptTransactions(t *testing.T, e *kafkatest.Endpoint) {
	t.Run("CommitsOverlapAndFollowEachOther", func(t *testing.T) {
		s := newStand(t, e)
		if last := s.attempt(); last != nil {
			t.Fatalf("a new job has witness %+v", last)
		}
		ids := []record.Identity{s.open(0), s.open(1)}
		s.lane.Begin(ids[0])
		for n := 1; n <= 6; n++ {
			id, next := ids[(n-1)%2], ids[n%2]
			s.write(n, 35)
			s.finish(record.CheckpointID(n), next)
			s.write(100+n, 0)
			s.commit(record.CheckpointID(n), id)
			if err := s.txns.Release(t.Context(), (n-1)%2, id); err != nil {
				t.Fatal(err)
			}
			ids[(n-1)%2] = s.open((n - 1) % 2)
		}
		for slot := range 2 {
			if err := s.txns.Abort(t.Context(), slot); err != nil {
				t.Fatal(err)
			}
		}
		s.wantCommitted(35, 1, 2, 3, 4, 5, 6)
		if last, err := s.txns.Hint(t.Context()); err != nil || last.Checkpoint != 6 {
			t.Errorf("hint %+v, %v", last, err)
		}
	})
	t.Run("Rule14AnUncommittedTransactionIsAbsentAfterTheFence", func(t *testing.T) {
		s := newStand(t, e)
		s.attempt()
		a, b := s.open(0), s.open(1)
		s.lane.Begin(a)
		s.write(1, 5)
		s.finish(1, b)
		s.commit(1, a)
		s.write(2, 5)
		s.finish(2, record.Identity{})
		s.end() // crash: 2 is written, not prepared
		last := s.attempt()
		if last == nil || last.Checkpoint != 1 {
			t.Fatalf("last witness %+v, want checkpoint 1", last)
		}
		s.wantCommitted(5, 1)
	})
	t.Run("PreparedCheckpointsAreRolledForward", func(t *testing.T) {
		s := newStand(t, e)
		s.attempt()
		a, b := s.writeTwo()
		s.end() // crash: both are prepared, no witness is written
		w1, w2 := witness(1, a), witness(2, b)
		w1.Job, w2.Job = s.ledger+"-job", s.ledger+"-job"
		last := s.attempt(w1, w2)
		if last == nil || last.Checkpoint != 2 {
			t.Fatalf("last witness %+v, want checkpoint 2", last)
		}
		s.wantCommitted(5, 1, 2)
		if last := s.attempt(w1, w2); last == nil || last.Checkpoint != 2 { // settled long ago
			t.Fatalf("after another recovery: %+v", last)
		}
		s.wantCommitted(5, 1, 2)
	})
	t.Run("Rule02ADeposedAttemptLearnsThatItIsFenced", func(t *testing.T) {
		s := newStand(t, e)
		s.attempt()
		a := s.open(0)
		s.lane.Begin(a)
		s.write(1, 5)
		s.finish(1, record.Identity{})
		old, oldLane, oldDone := s.txns, s.lane, s.done
		s.attempt()
		if err := old.Commit(t.Context(), txsink.PermitFor(t, 1, a), witness(1, a)); err == nil {
			t.Error("the deposed attempt commits") // 47 from Kafka, 48 from kfake
		}
		oldLane.Begin(a)
		if err := oldLane.Write(0, []record.Record{{Value: []byte("zombie")}}); err != nil {
			t.Fatal(err)
		}
		oldLane.Flush()
		if err := <-oldDone; err == nil {
			t.Error("the deposed writer goes on")
		}
		oldDone <- nil
		s.wantCommitted(0)
	})
}

func TestTransactionsOnFake(t *testing.T) { acceptTransactions(t, kafkatest.Fake(t).Endpoint) }
