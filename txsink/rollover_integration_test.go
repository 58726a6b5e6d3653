//go:build integration

package txsink_test

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/tests/kafkatest"
)

// TestRule03AProducerIDRollsOver uses up nearly all epochs of one of two transactional ids and then commits across the end.
func TestRule03AProducerIDRollsOver(t *testing.T) {
	s := newStand(t, kafkatest.Start(t).Endpoint)
	useUp(t, s.e.Brokers(), s.job()+"-0", 32_762)
	s.attempt()
	ids := []record.Identity{s.open(0), s.open(1)}
	first := ids[0]
	s.lane.Begin(first)
	const commits = 12
	var want []int
	for n := 1; n <= commits; n++ {
		id, next := ids[(n-1)%2], ids[n%2]
		s.write(n, 5)
		s.finish(record.CheckpointID(n), next)
		s.commit(record.CheckpointID(n), id)
		if err := s.txns.Release(t.Context(), (n-1)%2, id); err != nil {
			t.Fatal(err)
		}
		ids[(n-1)%2] = s.open((n - 1) % 2)
		want = append(want, n)
	}
	for slot := range 2 {
		if err := s.txns.Abort(t.Context(), slot); err != nil {
			t.Fatal(err)
		}
	}
	s.wantCommitted(5, want...)
	if ids[0].ProducerID == first.ProducerID {
		t.Errorf("%v came after %v: no new producer id, so the test shows nothing", ids[0], first)
	}
	s.end()
	if last := s.attempt(); last == nil || last.Checkpoint != commits {
		t.Errorf("recovery found %+v, want checkpoint %d", last, commits)
	}
}

// useUp gets identities of an id until their epoch is the given one.
func useUp(t *testing.T, brokers []string, id string, epoch int16) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr(id), int32(time.Minute/time.Millisecond)
	req.ProducerID, req.ProducerEpoch = -1, -1
	for got := int16(-1); got < epoch; {
		resp, err := req.RequestWith(t.Context(), client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if errors.Is(err, kerr.ConcurrentTransactions) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got = resp.ProducerEpoch
	}
}
