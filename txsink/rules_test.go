package txsink_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/tests/kafkatest"
	"github.com/weirstream/weir/txsink"
)

// The rules are those of the table in DESIGN.md.

// wiretap writes down the requests that a kfake gets.
type wiretap struct {
	mu   sync.Mutex
	seen []kmsg.Request
}

func tap(f *kafkatest.FakeCluster) *wiretap {
	w := &wiretap{}
	f.Fault(kfake.Fault{Observe: true, Count: -1, When: func(r kmsg.Request) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.Contains(w.seen, r) { // kfake asks for each entity of a request
			w.seen = append(w.seen, r)
		}
		return true
	}})
	return w
}

// of returns the requests of some kinds, in order, and forgets all.
func (w *wiretap) of(keys ...kmsg.Key) []kmsg.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []kmsg.Request
	for _, r := range w.seen {
		if slices.Contains(keys, kmsg.Key(r.Key())) {
			found = append(found, r)
		}
	}
	w.seen = nil
	return found
}

// fake returns a stand on a kfake that its wiretap listens to.
func fake(t *testing.T) (*stand, *kafkatest.FakeCluster, *wiretap) {
	t.Helper()
	f := kafkatest.Fake(t)
	return newStand(t, f.Endpoint), f, tap(f)
}

func TestRule01ARecoveryFencesEveryID(t *testing.T) {
	s, _, _ := fake(t)
	s.slots = 4
	s.attempt()
	old := s.txns
	for slot := range 4 {
		s.open(slot)
	}
	s.slots = 2 // two of the ids are beyond those of the next attempt
	s.attempt()
	for slot := range 4 {
		if err := old.Abort(t.Context(), slot); !errors.Is(err, txsink.ErrUndecided) {
			t.Errorf("transaction %d of the old attempt ends with %v, want a refusal", slot, err)
		}
	}
}

func TestRule01ARecoveryInsistsOnTheFence(t *testing.T) {
	for _, code := range []*kerr.Error{
		kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.RequestTimedOut,
	} {
		s, f, w := fake(t)
		h := f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: code, Count: 3})
		s.attempt()
		if h.Hits() != 3 {
			t.Errorf("%v was answered %d times, want 3", code, h.Hits())
		}
		for _, r := range w.of(kmsg.InitProducerID) {
			if init := r.(*kmsg.InitProducerIDRequest); init.ProducerID != -1 || init.ProducerEpoch != -1 {
				t.Errorf("a recovery asks for the identity after %d/%d", init.ProducerID, init.ProducerEpoch)
			}
		}
	}
}

func TestRule02AnAttemptGoesOnConditionally(t *testing.T) {
	s, _, w := fake(t)
	s.attempt()
	id := s.open(0)
	s.open(1)
	s.lane.Begin(id)
	s.finish(1, record.Identity{})
	s.commit(1, id)
	w.of()
	if err := s.txns.Release(t.Context(), 0, id); err != nil {
		t.Fatal(err)
	}
	for _, r := range w.of(kmsg.InitProducerID) {
		if init := r.(*kmsg.InitProducerIDRequest); init.ProducerID != id.ProducerID || init.ProducerEpoch != id.Epoch {
			t.Errorf("asked for the identity after %d/%d, want %v", init.ProducerID, init.ProducerEpoch, id)
		}
	}
}

func TestRule04And05OnlyOpenAddsPartitionsAllInOneRequest(t *testing.T) {
	s, _, w := fake(t)
	s.attempt()
	if n := len(w.of(kmsg.AddPartitionsToTxn)); n != 0 {
		t.Errorf("a recovery opens %d transactions: their timeouts run before anything is written", n)
	}
	id := s.open(0)
	adds := w.of(kmsg.AddPartitionsToTxn)
	if len(adds) != 1 {
		t.Fatalf("%d requests open a transaction, want 1", len(adds))
	}
	n := 0
	for _, topic := range adds[0].(*kmsg.AddPartitionsToTxnRequest).Topics {
		n += len(topic.Partitions)
	}
	if n != 6 { // three and two of the outputs, one of the ledger
		t.Errorf("%d partitions in the transaction, want 6", n)
	}
	s.lane.Begin(id)
	s.write(1, 5)
	s.finish(1, record.Identity{})
	s.commit(1, id)
	if n := len(w.of(kmsg.AddPartitionsToTxn)); n != 0 {
		t.Errorf("writing and committing add partitions %d times", n)
	}
}

func TestRule04ARollForwardAddsNothing(t *testing.T) {
	s, _, w := fake(t)
	s.attempt()
	id := s.open(0)
	s.lane.Begin(id)
	s.write(1, 5)
	s.finish(1, record.Identity{})
	s.end()
	prepared := witness(1, id)
	prepared.Job = s.job()
	w.of()
	if last := s.attempt(prepared); last == nil || last.Checkpoint != 1 {
		t.Fatalf("last witness %+v, want checkpoint 1", last)
	}
	if n := len(w.of(kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit)); n != 0 {
		t.Errorf("a recovery adds to a transaction %d times, which may open another under the same identity", n)
	}
	s.wantCommitted(5, 1)
}

func TestRule08OneRequestForAllPartitionsOfABroker(t *testing.T) {
	f := kafkatest.Fake(t, kfake.NumBrokers(1))
	s, w := newStand(t, f.Endpoint), tap(f)
	s.attempt()
	id := s.open(0)
	s.lane.Begin(id)
	w.of()
	s.write(1, 1)
	s.finish(1, record.Identity{})
	most := 0
	for _, r := range w.of(kmsg.Produce) {
		n := 0
		for _, topic := range r.(*kmsg.ProduceRequest).Topics {
			n += len(topic.Partitions)
		}
		most = max(most, n)
	}
	if most < 2 {
		t.Errorf("at most %d partitions share a request", most)
	}
}

func TestRule09NineteenIsRetriedWithoutMetadata(t *testing.T) {
	s, f, w := fake(t)
	s.attempt()
	id := s.open(0)
	s.lane.Begin(id)
	f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: 20})
	w.of()
	s.write(1, 30)
	s.finish(1, record.Identity{})
	if n := len(w.of(kmsg.Metadata)); n != 0 {
		t.Errorf("%d metadata requests", n)
	}
	if n := s.writer.Stats().Retries()["19"]; n < 20 {
		t.Errorf("%d retries counted, want 20 or more", n)
	}
	s.commit(1, id)
	s.wantCommitted(30, 1)
}

func TestRule10WritesFollowTheLeader(t *testing.T) {
	s, f, _ := fake(t)
	s.attempt()
	ids := []record.Identity{s.open(0), s.open(1)}
	s.lane.Begin(ids[0])
	f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: 5})
	s.write(1, 30)
	s.lane.Flush()
	f.ShufflePartitionLeaders()
	f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: 3})
	s.write(1, 30)
	s.finish(1, ids[1])
	s.commit(1, ids[0])
	var got []string
	for _, r := range s.e.ReadCommitted(s.outputs[1].Topic) {
		if r.Partition == 0 {
			got = append(got, string(r.Value))
		}
	}
	if len(got) != 60 || got[0] != "1-0" || got[29] != "1-29" || got[30] != "1-0" || got[59] != "1-29" {
		t.Errorf("%d records %v, want twice 0 to 29", len(got), got)
	}
}

// TestRule12AnAcknowledgementWaitsForTheBatchesOfDeadConnections drops connections under the writer: nothing may be
// acknowledged to the subtask before everything has come again on another.
func TestRule12AnAcknowledgementWaitsForTheBatchesOfDeadConnections(t *testing.T) {
	s, f, _ := fake(t)
	s.attempt()
	id := s.open(0)
	s.lane.Begin(id)
	dropped := 0
	f.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		f.KeepControl()
		if dropped++; dropped%3 == 0 || dropped > 30 {
			return nil, nil, false
		}
		return nil, errors.New("dropped by the test"), true
	})
	s.write(1, 60)
	s.finish(1, record.Identity{})
	if n := s.writer.Stats().Retries()["connection"]; n == 0 {
		t.Error("no connection was dropped")
	}
	s.commit(1, id)
	s.wantCommitted(60, 1)
}

func TestRule13OnlySuccessAnswersACommit(t *testing.T) {
	for _, c := range []struct {
		code *kerr.Error
		want error
	}{
		{kerr.ConcurrentTransactions, nil},
		{kerr.CoordinatorLoadInProgress, nil},
		{kerr.CoordinatorNotAvailable, nil},
		{kerr.NotCoordinator, nil},
		{kerr.RequestTimedOut, nil},
		{kerr.ProducerFenced, txsink.ErrUndecided},
		{kerr.InvalidProducerIDMapping, txsink.ErrUndecided},
		{kerr.InvalidTxnState, txsink.ErrUndecided},
		{kerr.InvalidProducerEpoch, txsink.ErrUndecided},
	} {
		s, f, _ := fake(t)
		s.attempt()
		id := s.open(0)
		s.lane.Begin(id)
		s.write(1, 1)
		s.finish(1, record.Identity{})
		f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: c.code, Count: 2})
		if err := s.txns.Commit(t.Context(), txsink.PermitFor(t, 1, id), witness(1, id)); !errors.Is(err, c.want) {
			t.Errorf("%v: commit says %v, want %v", c.code, err, c.want)
		}
	}
}

func TestRule14TheLedgerIsReadOnlyAfterEveryFence(t *testing.T) {
	s, _, w := fake(t)
	s.slots = 3
	s.attempt()
	id := s.open(0)
	s.lane.Begin(id)
	s.write(1, 1)
	s.finish(1, record.Identity{})
	s.commit(1, id)
	s.end()
	w.of()
	s.attempt()
	fenced, read := 0, false
	for _, r := range w.of(kmsg.InitProducerID, kmsg.ListOffsets) {
		list, ok := r.(*kmsg.ListOffsetsRequest)
		switch {
		case !ok:
			fenced++
		case list.IsolationLevel == 0 && list.Topics[0].Topic == s.ledger && list.Topics[0].Partitions[0].Timestamp == -1:
			if read = true; fenced != 3 {
				t.Errorf("the ledger's end is asked for after %d of 3 fences", fenced)
			}
		}
	}
	if !read {
		t.Error("the ledger's high watermark is not asked for")
	}
}

func TestRule16MarkersAreCheckedBeforeAnIDIsUsedAgain(t *testing.T) {
	s, _, w := fake(t)
	s.attempt()
	id := s.open(0)
	s.lane.Begin(id)
	s.write(1, 3)
	s.finish(1, record.Identity{})
	s.commit(1, id)
	w.of()
	if err := s.txns.Release(t.Context(), 0, id); err != nil {
		t.Fatal(err)
	}
	s.open(0)
	checked, initialised := 0, false
	for _, r := range w.of(kmsg.InitProducerID, kmsg.ListOffsets, kmsg.AddPartitionsToTxn) {
		switch r := r.(type) {
		case *kmsg.InitProducerIDRequest:
			initialised = true
		case *kmsg.ListOffsetsRequest:
			for _, topic := range r.Topics {
				if r.IsolationLevel == 1 && initialised {
					checked += len(topic.Partitions)
				}
			}
		case *kmsg.AddPartitionsToTxnRequest:
			if checked != 6 {
				t.Errorf("%d of 6 last stable offsets were checked before the id is used again", checked)
			}
		}
	}
}

// TestRule17NoCommitWhileAPartitionHasNoLeader shows one partition without a leader in the metadata.
func TestRule17NoCommitWhileAPartitionHasNoLeader(t *testing.T) {
	s, f, w := fake(t)
	s.attempt()
	id := s.open(0)
	s.lane.Begin(id)
	s.write(1, 1)
	s.finish(1, record.Identity{})
	h := f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: s.outputs[0].Topic, Err: kerr.LeaderNotAvailable, Count: 3})
	w.of()
	s.commit(1, id)
	waited := 0
	for _, r := range w.of(kmsg.Metadata, kmsg.EndTxn) {
		if _, ok := r.(*kmsg.MetadataRequest); ok {
			waited++
		} else if waited < 4 || h.Hits() != 3 {
			t.Errorf("the commit was sent after %d looks for the leaders, %d of them in vain", waited, h.Hits())
		}
	}
}

func TestRule18WhatIsBuiltOnAnAbsentCheckpointIsAbortedToo(t *testing.T) {
	s, _, _ := fake(t)
	s.attempt()
	_, b := s.writeTwo()
	s.end()
	second := witness(2, b)
	second.Job = s.job()
	if last := s.attempt(second); last != nil { // 1 was never prepared
		t.Fatalf("last witness %+v, want none", last)
	}
	s.wantCommitted(0)
}

// positions is where a job of two partitions is.
func positions() []record.Position {
	return []record.Position{{Topic: "in", Partition: 0, Offset: 7, LeaderEpoch: -1}, {Topic: "in", Partition: 1, Offset: 9, LeaderEpoch: -1}}
}

func (s *stand) commitAt(n record.CheckpointID, id record.Identity) {
	s.t.Helper()
	w := witness(n, id)
	w.Positions = positions()
	if err := s.txns.Commit(s.t.Context(), txsink.PermitFor(s.t, n, id), w); err != nil {
		s.t.Fatal(err)
	}
}

func TestRule19To21GroupOffsetsAreWrittenWholeAndNeverRead(t *testing.T) {
	s, f, w := fake(t)
	s.attempt()
	ids := []record.Identity{s.open(0), s.open(1)}
	s.lane.Begin(ids[0])
	f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.UnknownMemberID, Count: 1})
	for n := 1; n <= 2; n++ {
		s.write(n, 2)
		s.finish(record.CheckpointID(n), ids[1])
		s.commitAt(record.CheckpointID(n), ids[n-1])
	}
	s.end()
	s.attempt()
	s.wantCommitted(2, 1, 2)
	var members []string
	for _, r := range w.of(kmsg.TxnOffsetCommit, kmsg.OffsetFetch) {
		c, ok := r.(*kmsg.TxnOffsetCommitRequest)
		if !ok {
			t.Error("offsets are read from the group")
			continue
		}
		members = append(members, c.MemberID)
		if c.Generation != -1 || len(c.Topics) != 1 || len(c.Topics[0].Partitions) != 2 {
			t.Errorf("offsets committed as member %q of generation %d: %+v", c.MemberID, c.Generation, c.Topics)
		}
	}
	// The group has no members: its refusal of the sentinel is a broker's peculiarity, and not asked for again.
	if !slices.Equal(members, []string{"weir", "", ""}) {
		t.Errorf("offsets committed as %q", members)
	}
}

func TestRule22AnUnknownTopicDoesNotFailTheCommit(t *testing.T) {
	s, f, _ := fake(t)
	s.attempt()
	id := s.open(0)
	s.lane.Begin(id)
	s.write(1, 2)
	s.finish(1, record.Identity{})
	f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.UnknownTopicOrPartition, Partitions: []int32{1}})
	s.commitAt(1, id)
	s.wantCommitted(2, 1)
}

func TestAResultThatIsTooLargeIsNamed(t *testing.T) {
	s, f, _ := fake(t)
	s.attempt()
	s.lane.Begin(s.open(0))
	f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.MessageTooLarge})
	err := s.lane.Write(0, []record.Record{{Value: make([]byte, 100), Group: 1, Partition: 4, Offset: 77}})
	if err != nil {
		t.Fatal(err)
	}
	s.lane.Flush()
	var large *txsink.TooLargeError
	if err := <-s.done; !errors.As(err, &large) || large.Topic != s.outputs[0].Topic || large.Partition != 1 || large.Records != 1 ||
		large.Bytes < 100 || large.Origin.Offset != 77 || large.Origin.Partition != 4 || !large.OperatorDecides() {
		t.Errorf("got %v", err)
	}
	s.done <- nil
}

func TestACommitEndsWithItsContext(t *testing.T) {
	s, f, _ := fake(t)
	s.attempt()
	id := s.open(0)
	s.lane.Begin(id)
	s.finish(1, record.Identity{})
	f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.ConcurrentTransactions, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := s.txns.Commit(ctx, txsink.PermitFor(t, 1, id), witness(1, id)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
