//go:build integration

package txsink_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/tests/faultproxy"
	"github.com/weirstream/weir/tests/kafkatest"
	"github.com/weirstream/weir/txsink"
)

// through makes a stand whose client goes through the fault proxies.
func through(t *testing.T, c *kafkatest.ProxiedCluster) *stand {
	t.Helper()
	s := newStand(t, c.Endpoint)
	cluster, err := kafka.Open(t.Context(), kafka.Options{Brokers: c.ProxyBrokers()}, s.ledger, s.outputs[0].Topic, s.outputs[1].Topic)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s.cluster = cluster
	return s
}

func (s *stand) wantHit(a *faultproxy.Armed) {
	s.t.Helper()
	if a.Hits() == 0 {
		s.t.Error("the fault did not happen")
	}
}

func TestFaultsOfTheNetworkOnKafka(t *testing.T) {
	c := kafkatest.Proxied(t)
	for _, kind := range []faultproxy.Kind{faultproxy.LoseRequest, faultproxy.HalfRequest, faultproxy.LoseAnswer, faultproxy.HalfAnswer} {
		t.Run("Rule13EndTxn: "+string(kind), func(t *testing.T) {
			s := through(t, c)
			s.attempt()
			ids := []record.Identity{s.open(0), s.open(1)}
			s.lane.Begin(ids[0])
			for n := range 2 {
				s.write(n+1, 5)
				s.finish(record.CheckpointID(n+1), ids[(n+1)%2])
				fault := c.Proxy(1).Inject(faultproxy.Fault{Kind: kind, Requests: []kmsg.Key{kmsg.EndTxn}, Count: 1})
				s.commit(record.CheckpointID(n+1), ids[n])
				s.wantHit(fault)
			}
			s.wantCommitted(5, 1, 2)
		})
		t.Run("Rule02TheNextIdentity: "+string(kind), func(t *testing.T) {
			s := through(t, c)
			s.attempt()
			a := s.open(0)
			s.lane.Begin(a)
			s.write(1, 5)
			s.finish(1, record.Identity{})
			s.commit(1, a)
			fault := c.Proxy(1).Inject(faultproxy.Fault{Kind: kind, Requests: []kmsg.Key{kmsg.InitProducerID}, Count: 1})
			if err := s.txns.Release(t.Context(), 0, a); err != nil {
				t.Fatal(err)
			}
			s.wantHit(fault)
			if next := s.open(0); next.ProducerID != a.ProducerID || next.Epoch != a.Epoch+1 {
				t.Errorf("after %v comes %v", a, next)
			}
			s.wantCommitted(5, 1)
		})
	}
	t.Run("Rule11And12ProduceAnswersAreLost", func(t *testing.T) {
		s := through(t, c)
		s.attempt()
		a := s.open(0)
		fault := c.Proxy(1).Inject(faultproxy.Fault{Kind: faultproxy.LoseAnswer, Requests: []kmsg.Key{kmsg.Produce}, Count: 3})
		s.lane.Begin(a)
		s.write(1, 35)
		s.finish(1, record.Identity{})
		s.commit(1, a)
		s.wantHit(fault)
		s.wantCommitted(35, 1)
	})
}

// TestRule05TheTimeoutBeginsWithTheFirstPartition: the broker's own abort of a transaction opened at the same time tells that
// the timeout has passed.
func TestRule05TheTimeoutBeginsWithTheFirstPartition(t *testing.T) {
	s := newStand(t, kafkatest.Start(t).Endpoint)
	txns := txsink.NewTransactions(s.cluster, txsink.TransactionOptions{
		Job: s.ledger + "-short", Slots: 2, Outputs: s.outputs, Ledger: s.ledger, Timeout: time.Second,
	})
	if _, err := txns.Recover(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := txns.Open(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s.e.Until("the broker's abort", func(ctx context.Context) error {
		states, err := txns.States(ctx)
		if err == nil && states[0].State != "CompleteAbort" {
			err = fmt.Errorf("state %s", states[0].State)
		}
		return err
	})
	id, err := txns.Open(t.Context(), 1) // its identity is as old
	if err != nil {
		t.Fatal(err)
	}
	w := witness(1, id)
	if err := txns.Commit(t.Context(), txsink.PermitFor(t, 1, id), w); err != nil {
		t.Error(err)
	}
}

// TestRule09ManyWritersOfOneIdentity: brokers verify one first write of an identity at a time and throw the others out.
func TestRule09ManyWritersOfOneIdentity(t *testing.T) {
	s := newStand(t, kafkatest.Start(t).Endpoint)
	const writers = 8
	wide := txsink.Output{Topic: s.e.CreateTopic("wide", writers), Partitions: writers}
	txns := txsink.NewTransactions(s.cluster, txsink.TransactionOptions{
		Job: s.ledger + "-wide", Slots: 2, Outputs: []txsink.Output{wide}, Ledger: s.ledger, Timeout: time.Minute,
	})
	if _, err := txns.Recover(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	id, err := txns.Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	acked := make(chan record.CheckpointID, writers)
	for i := range writers {
		writeWide(t, s.e, wide, id, i, acked)
	}
	for range writers {
		select {
		case <-acked:
		case <-time.After(kafkatest.Patience):
			t.Fatal("not all writes were acknowledged")
		}
	}
	if err := txns.Commit(t.Context(), txsink.PermitFor(t, 1, id), witness(1, id)); err != nil {
		t.Fatal(err)
	}
	if got := len(s.e.ReadCommitted(wide.Topic)); got != writers {
		t.Errorf("%d records are visible, want %d", got, writers)
	}
}

// writeWide writes one record to partition i through a client of its own.
func writeWide(t *testing.T, e *kafkatest.Endpoint, out txsink.Output, id record.Identity, i int, acked chan<- record.CheckpointID) {
	t.Helper()
	cluster, err := kafka.Open(t.Context(), kafka.Options{Brokers: e.Brokers()}, out.Topic)
	if err != nil {
		t.Fatal(err)
	}
	w := txsink.NewWriter(cluster, txsink.WriterOptions{
		Outputs: []txsink.Output{out}, Subtasks: 1, Wake: func(int) {}, Transactional: true,
		Acked: func(_ int, n record.CheckpointID) { acked <- n },
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.Run(ctx); ctx.Err() == nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		cluster.Close()
	})
	w.Lane(0).Begin(id)
	if err := w.Lane(0).Write(0, []record.Record{{Group: record.KeyGroup(i), Value: []byte("v")}}); err != nil {
		t.Fatal(err)
	}
	w.Lane(0).Barrier(1, record.Identity{})
}
