package txsink

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
)

// fakePartition is a broker's view of one partition: the log, and for each producer epoch the sequences that it remembers.
type fakePartition struct {
	log   []string
	next  map[record.Identity]int32
	known map[record.Identity][]int32
}

// produce appends a batch of one record as a broker does.
func (f *fakePartition) produce(b *batch) error {
	next, state := f.next[b.identity]
	switch {
	case state && slices.Contains(f.known[b.identity], b.sequence):
		return nil
	case state && b.sequence != next:
		return &kafka.Error{Code: sarama.ErrOutOfOrderSequenceNumber}
	}
	// Without state for the producer any first sequence is accepted.
	f.next[b.identity] = b.sequence + 1
	k := append(f.known[b.identity], b.sequence)
	f.known[b.identity] = k[max(0, len(k)-maxUnacknowledged):]
	f.log = append(f.log, b.identity.TransactionalID+string('a'+b.sequence))
	return nil
}

// TestRule06And07OneBatchFirstThenInOrderRepair drives a queue against a broker that loses requests, answers and
// connections, and refuses at random: each batch must be in the log once, in order, transaction after transaction.
func TestRule06And07OneBatchFirstThenInOrderRepair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &fakePartition{next: map[record.Identity]int32{}, known: map[record.Identity][]int32{}}
		q := &queue{window: maxUnacknowledged}
		var want []string
		for txn := range 3 {
			id := record.Identity{TransactionalID: string(rune('A' + txn)), ProducerID: int64(txn + 1)}
			for seq := range rapid.IntRange(0, 9).Draw(t, "batches") {
				q.push(&batch{identity: id, sequence: int32(seq)})
				want = append(want, id.TransactionalID+string(rune('a'+seq)))
			}
		}
		var wire []*batch
		now := time.Now()
		acked := 0
		answer := func(b *batch, err error) {
			v, done := q.answer(b, err)
			if v == fatal {
				t.Fatalf("batch %v/%d: fatal %v", b.identity, b.sequence, err)
			}
			acked += len(done)
		}
		for steps := 0; acked < len(want); steps++ {
			healthy := steps > 300 // faults end, so that the test does
			if b := q.next(now); b != nil {
				if b.sequence == 0 && len(wire) > 0 {
					t.Fatalf("the first batch of %v is not alone", b.identity)
				}
				if wire = append(wire, b); len(wire) > maxUnacknowledged {
					t.Fatalf("%d batches in flight", len(wire))
				}
				if rapid.Bool().Draw(t, "send more") {
					continue
				}
			}
			if len(wire) == 0 {
				continue
			}
			head := wire[0]
			fault := 0
			if !healthy {
				fault = rapid.IntRange(0, 5).Draw(t, "fault")
			}
			switch fault {
			case 1: // the connection dies; some of what was sent arrived
				arrived := rapid.IntRange(0, len(wire)).Draw(t, "arrived")
				for i, b := range wire {
					if i < arrived {
						_ = f.produce(b) // its answer is lost
					}
				}
				for _, b := range wire {
					answer(b, io.EOF)
				}
				wire = nil
			case 2:
				wire = wire[1:]
				answer(head, &kafka.Error{Code: sarama.ErrNotLeaderForPartition})
			case 3:
				wire = wire[1:]
				answer(head, &kafka.Error{Code: sarama.ErrNotEnoughReplicas})
			case 4: // appended, but the replicas were late
				wire = wire[1:]
				err := f.produce(head)
				if err == nil {
					err = &kafka.Error{Code: sarama.ErrRequestTimedOut}
				}
				answer(head, err)
			default:
				wire = wire[1:]
				answer(head, f.produce(head))
			}
		}
		if !slices.Equal(f.log, want) {
			t.Fatalf("log %v, want %v", f.log, want)
		}
	})
}

func TestRule07OutOfOrderAtTheHeadIsFatalBehindAFailureItIsNot(t *testing.T) {
	id := record.Identity{TransactionalID: "t", ProducerID: 1}
	q := &queue{window: maxUnacknowledged}
	for seq := range int32(3) {
		q.push(&batch{identity: id, sequence: seq})
	}
	first := q.next(time.Now())
	if v, _ := q.answer(first, nil); v != written {
		t.Fatal("the first batch was not taken")
	}
	second, third := q.next(time.Now()), q.next(time.Now())
	if v, _ := q.answer(second, &kafka.Error{Code: sarama.ErrNotLeaderForPartition}); v != refresh {
		t.Errorf("not leader: verdict %d", v)
	}
	if v, _ := q.answer(third, &kafka.Error{Code: sarama.ErrOutOfOrderSequenceNumber}); v != again {
		t.Errorf("out of order behind a failure: verdict %d", v)
	}
	if v, _ := q.answer(q.next(time.Now()), &kafka.Error{Code: sarama.ErrOutOfOrderSequenceNumber}); v != fatal {
		t.Errorf("out of order at the head: verdict %d", v)
	}
}

func TestRule10FencedAndForeignTransactionsAreFatal(t *testing.T) {
	for code, wantFenced := range map[sarama.KError]bool{sarama.ErrInvalidProducerEpoch: true, sarama.ErrInvalidTxnState: false} {
		q := &queue{window: maxUnacknowledged}
		b := &batch{identity: record.Identity{TransactionalID: "t"}, slab: &slab{}}
		q.push(b)
		q.next(time.Now())
		err := &kafka.Error{Code: code}
		if v, _ := q.answer(b, err); v != fatal {
			t.Errorf("code %d: verdict %d", code, v)
		}
		if got := errors.Is(explain(&partition{}, b, err), ErrFenced); got != wantFenced {
			t.Errorf("code %d: fenced %v", code, got)
		}
	}
}

func TestSequencesWrapAround(t *testing.T) {
	if got := sequenceAfter(0x7ffffffe, 3); got != 1 {
		t.Errorf("after 2^31-2 and three records comes %d, want 1", got)
	}
}
