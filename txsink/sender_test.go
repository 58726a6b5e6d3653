package txsink

import (
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/record"
)

// ready is a sender that leads all partitions, each with one batch of the transaction with the given turn.
func ready(turns ...int) *sender {
	s := newSender(NewWriter(nil, WriterOptions{Outputs: []Output{{Topic: "out", Partitions: int32(len(turns))}}, Transactional: true}), "broker")
	for i, turn := range turns {
		id := record.Identity{TransactionalID: string(rune('a' + turn)), ProducerID: int64(turn)}
		var sealed slab
		sealed.add(&record.Record{Value: []byte("v")})
		s.writer.parts[i].sender = s
		s.writer.parts[i].queue.push(&batch{
			identity: id, sequence: 0, slab: &sealed, period: &period{identity: id, turn: turn}, wire: sealed.wire(id, 0, 0),
		})
	}
	return s
}

func collected(s *sender) (partitions []int32) {
	_, sent, _ := s.collect(time.Now())
	for _, x := range sent {
		partitions = append(partitions, x.partition.tp.Partition)
	}
	return partitions
}

func TestARequestIsForTheOldestTransaction(t *testing.T) {
	s := ready(2, 0, 1, 0)
	for _, want := range [][]int32{{1, 3}, {2}, {0}, nil} {
		if got := collected(s); !slices.Equal(got, want) {
			t.Errorf("a request for the partitions %v, want %v", got, want)
		}
	}
}

func TestEveryPartitionHasItsTurn(t *testing.T) {
	s := ready(0, 0, 0)
	for _, p := range s.writer.parts {
		p.queue.batches[0].slab.bytes = maxRequestBytes // one fills a request
	}
	for _, want := range []int32{0, 1, 2, 0, 1} {
		_, sent, _ := s.collect(time.Now())
		if len(sent) != 1 || sent[0].partition.tp.Partition != want {
			t.Fatalf("a request with %d batches, the first for partition %d; want one for %d", len(sent), sent[0].partition.tp.Partition, want)
		}
		again := *sent[0].batch // the partition takes it, and has more at once
		sent[0].partition.queue.answer(sent[0].batch, nil)
		again.sequence++
		sent[0].partition.queue.push(&again)
	}
}

// TestAPartitionThatIsBehindGathers: one record at a time to a leader that does not answer must not become one batch each.
func TestAPartitionThatIsBehindGathers(t *testing.T) {
	woken := 0
	w := NewWriter(nil, WriterOptions{
		Outputs: []Output{{Topic: "out", Partitions: 1}}, Subtasks: 1, Transactional: true,
		Wake: func(int) { woken++ }, Acked: func(int, record.CheckpointID) {},
	})
	l, p := w.Lane(0), w.parts[0]
	l.Begin(record.Identity{TransactionalID: "t", ProducerID: 1})
	for range 100 {
		if err := l.Write(0, []record.Record{{Value: []byte("v")}}); err != nil {
			t.Fatal(err)
		}
		l.Flush()
	}
	if n := len(p.queue.batches); n != maxUnacknowledged {
		t.Fatalf("%d batches for a leader that does not answer, want %d", n, maxUnacknowledged)
	}
	w.answered(p, p.queue.next(time.Now()), outcome{offset: 0})
	if woken != 1 {
		t.Fatalf("the subtask was woken %d times when the queue was short again, want once", woken)
	}
	l.Flush()
	if last := p.queue.batches[len(p.queue.batches)-1]; last.wire.LastOffsetDelta != 100-maxUnacknowledged-1 {
		t.Errorf("the next batch has %d records, want all that were gathered", last.wire.LastOffsetDelta+1)
	}
}
