//go:build integration

package txsink

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/tests/kafkatest"
)

// leaderless is a job whose output has one replica, on a node that does not coordinate its transactions.
type leaderless struct {
	t       *testing.T
	c       *kafkatest.Cluster
	cluster *kafka.Cluster
	out     string
	ledger  string
	job     string
	node    int
	writer  *Writer
	txns    *Transactions
	acked   chan record.CheckpointID
}

func newLeaderless(t *testing.T, c *kafkatest.Cluster) *leaderless {
	l := &leaderless{t: t, c: c, ledger: c.CreateTopic("ledger", 1)}
	for l.out == "" || !l.chooseJob() { // after some restarts one node may coordinate everything
		l.out = c.CreateTopic("out", 1, "replication=1")
		l.node = c.Leader(l.out, 0)
		l.open()
	}
	l.acked = make(chan record.CheckpointID, 10)
	l.writer = NewWriter(l.cluster, WriterOptions{
		Outputs: l.outputs(), Subtasks: 1, Wake: func(int) {}, Transactional: true,
		Acked: func(_ int, n record.CheckpointID) { l.acked <- n },
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := l.writer.Run(ctx); ctx.Err() == nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	l.txns = l.transactions()
	l.recover(nil)
	return l
}

func (l *leaderless) outputs() []Output { return []Output{{Topic: l.out, Partitions: 1}} }

// open connects, which a node that has not heard of the new topics yet refuses.
func (l *leaderless) open() {
	l.t.Helper()
	l.c.Until("the topics on every node", func(ctx context.Context) (err error) {
		l.cluster, err = kafka.Open(ctx, kafka.Options{Brokers: l.c.Brokers()}, l.out, l.ledger)
		return err
	})
	l.t.Cleanup(l.cluster.Close)
}

// chooseJob finds a name whose ids are coordinated elsewhere: the coordinator must live for the marker to be skipped.
func (l *leaderless) chooseJob() bool {
	for i := range 30 {
		l.job = fmt.Sprintf("%s-job%d", l.out, i)
		if l.coordinator(0) != l.c.Addr(l.node) && l.coordinator(1) != l.c.Addr(l.node) {
			return true
		}
	}
	return false
}

// coordinator is the address of that of a slot.
func (l *leaderless) coordinator(slot int) (addr string) {
	l.t.Helper()
	id := fmt.Sprintf("%s-%d", l.job, slot)
	l.c.Until("the coordinator of "+id, func(ctx context.Context) error {
		find := l.cluster.TransactionCoordinator(id)
		return find.Do(ctx, kafka.FindCoordinator, "find it", nil, func(b *sarama.Broker) (sarama.KError, error) {
			addr = b.Addr()
			return sarama.ErrNoError, nil
		})
	})
	return addr
}

func (l *leaderless) transactions() *Transactions {
	return NewTransactions(l.cluster, TransactionOptions{
		Job: l.job, Slots: 2, Outputs: l.outputs(), Ledger: l.ledger, Timeout: time.Minute, LastOffsets: l.writer.LastOffsets,
	})
}

func (l *leaderless) recover(prepared []Witness) *Witness {
	l.t.Helper()
	w, err := l.txns.Recover(l.t.Context(), prepared)
	if err != nil {
		l.t.Fatal(err)
	}
	return w
}

// written opens a transaction and writes one acknowledged record into it.
func (l *leaderless) written() record.Identity {
	l.t.Helper()
	id, err := l.txns.Open(l.t.Context(), 0)
	if err != nil {
		l.t.Fatal(err)
	}
	lane := l.writer.Lane(0)
	lane.Begin(id)
	if err := lane.Write(0, []record.Record{{Value: []byte("result")}}); err != nil {
		l.t.Fatal(err)
	}
	lane.Barrier(1, record.Identity{})
	select {
	case <-l.acked:
	case <-time.After(kafkatest.Patience):
		l.t.Fatal("not acknowledged")
	}
	return id
}

// lose kills the output's node and waits until the cluster knows that the partition has no leader.
func (l *leaderless) lose() {
	l.t.Helper()
	l.c.Kill(l.node)
	l.c.Until("the partition without a leader", func(ctx context.Context) error {
		if err := l.cluster.Refresh(ctx, l.out); err != nil {
			return err
		}
		if _, _, err := l.cluster.Leader(l.out, 0); !errors.Is(err, kafka.ErrNoLeader) {
			return fmt.Errorf("it still has one: %w", err)
		}
		return nil
	})
}

// commitWithoutMarker commits although the partition has no leader, which Commit would not do.
func (l *leaderless) commitWithoutMarker(id record.Identity) Witness {
	l.t.Helper()
	w := Witness{Job: l.job, Checkpoint: 1, Identity: id, Manifest: record.Blob{Name: "chk-1", SHA256: "00"}}
	s := &l.txns.slots[0]
	var err error
	if s.witness, err = l.txns.writeWitness(l.t.Context(), w); err != nil {
		l.t.Fatal(err)
	}
	if err := l.txns.end(l.t.Context(), s, id, true); err != nil {
		l.t.Fatal(err)
	}
	l.awaitEnd(id)
	return w
}

// awaitEnd waits until the coordinator has closed the transaction, with or without a marker.
func (l *leaderless) awaitEnd(id record.Identity) {
	l.t.Helper()
	l.c.Until("the end of the transaction", func(ctx context.Context) error {
		states, err := l.txns.States(ctx)
		if err == nil && (states[0].State == "Ongoing" || len(states[0].Partitions) > 0) {
			err = fmt.Errorf("%v: state %+v", id, states[0])
		}
		return err
	})
}

// wantStuck checks that the fault was there to be repaired.
func (l *leaderless) wantStuck() {
	l.t.Helper()
	if o := l.c.Offsets(l.out)[0]; o.LastStable == o.High {
		l.t.Skipf("this broker has written the marker all the same: %+v", o)
	}
}

func (l *leaderless) wantCommitted(n int) {
	l.t.Helper()
	if got := l.c.ReadCommitted(l.out); len(got) != n {
		l.t.Errorf("%d records are visible, want %d", len(got), n)
	}
}

func TestRule16AMarkerThatAPartitionWithoutLeaderMissedIsWritten(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Nodes(3))
	t.Run("ReleaseRepairsACommit", func(t *testing.T) {
		l := newLeaderless(t, c)
		id := l.written()
		l.lose()
		l.commitWithoutMarker(id)
		c.Restart(l.node)
		l.wantStuck()
		if err := l.txns.Release(t.Context(), 0, id); err != nil {
			t.Fatal(err)
		}
		l.wantCommitted(1)
	})
	t.Run("RecoveryRepairsACommit", func(t *testing.T) {
		l := newLeaderless(t, c)
		id := l.written()
		l.lose()
		l.commitWithoutMarker(id)
		c.Restart(l.node)
		l.wantStuck()
		l.txns = l.transactions()
		if w := l.recover(nil); w == nil || w.Checkpoint != 1 {
			t.Errorf("last witness %+v", w)
		}
		l.wantCommitted(1)
	})
	t.Run("RecoveryRepairsAnAbort", func(t *testing.T) {
		l := newLeaderless(t, c)
		id := l.written()
		l.lose()
		if err := l.txns.Abort(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		l.awaitEnd(id)
		c.Restart(l.node)
		l.wantStuck()
		l.txns = l.transactions()
		if w := l.recover(nil); w != nil {
			t.Errorf("last witness %+v", w)
		}
		l.wantCommitted(0)
	})
}

func TestRule17OnKafkaACommitWaitsForTheLeader(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Nodes(3))
	l := newLeaderless(t, c)
	id := l.written()
	l.lose()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	w := Witness{Manifest: record.Blob{Name: "chk-1", SHA256: "00"}}
	if err := l.txns.Commit(ctx, PermitFor(t, 1, id), w); !errors.Is(err, kafka.ErrNoLeader) {
		t.Fatalf("a commit without a leader: %v", err)
	}
	c.Restart(l.node)
	if err := l.txns.Commit(t.Context(), PermitFor(t, 1, id), w); err != nil {
		t.Fatal(err)
	}
	l.wantCommitted(1)
}
