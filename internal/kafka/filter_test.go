package kafka

import (
	"testing"

	"github.com/IBM/sarama"
)

// log builds record batches of given producers at consecutive offsets: positive numbers are data, control types as given.
type step struct {
	producer int64
	records  int32
	marker   int // 0 abort, 1 commit, -1 data
}

func batches(steps []step) []*sarama.RecordBatch {
	var all []*sarama.RecordBatch
	var at int64
	for _, s := range steps {
		b := &sarama.RecordBatch{FirstOffset: at, ProducerID: s.producer, IsTransactional: s.producer > 0}
		if s.marker >= 0 {
			b.Control = true
			b.Records = []*sarama.Record{{Key: []byte{0, 0, 0, byte(s.marker)}}}
			at++
		} else {
			b.LastOffsetDelta = s.records - 1
			at += int64(s.records)
		}
		all = append(all, b)
	}
	return all
}

func TestFilterInterleavedCommitsAndAbortsOfOneProducer(t *testing.T) {
	log := batches([]step{
		{1, 2, -1}, {2, 1, -1}, {1, 0, 0}, // 0-1 producer 1, 2 producer 2, 3 abort of 1
		{0, 1, -1},            // 4 no transaction
		{1, 3, -1}, {1, 0, 1}, // 5-7 producer 1, 8 commit
		{2, 1, -1}, {2, 0, 1}, // 9 producer 2, 10 commit
		{1, 1, -1}, {1, 0, 0}, // 11 producer 1, 12 abort
	})
	want := []bool{false, true, false, true, true, false, true, false, false, false}
	var f CommittedFilter
	f.Reset([]*sarama.AbortedTransaction{{ProducerID: 1, FirstOffset: 11}, {ProducerID: 1, FirstOffset: 0}})
	for i, b := range log {
		if got := f.Accept(b); got != want[i] {
			t.Errorf("batch %d at offset %d: accepted %v, want %v", i, b.FirstOffset, got, want[i])
		}
	}
}

// FuzzFilter makes a log of three transactional producers and one other out of bytes, reads it from some offset on as a
// broker would serve it, and wants exactly the batches of committed transactions.
func FuzzFilter(f *testing.F) {
	f.Add([]byte{0, 1, 8, 2, 3, 9, 1, 0, 9}, uint8(2))
	f.Fuzz(func(t *testing.T, script []byte, from uint8) {
		steps := make([]step, len(script))
		for i, c := range script {
			steps[i] = step{producer: int64(c % 4), records: 1 + int32(c>>4), marker: -1}
			if c&0b1000 != 0 && c%4 != 0 {
				steps[i].marker = int(c >> 2 & 1)
			}
		}
		log := batches(steps)
		start := min(int(from), len(log))
		committed, aborted := fates(log, start)
		var filter CommittedFilter
		filter.Reset(aborted)
		for i := start; i < len(log); i++ {
			if got := filter.Accept(log[i]); got != committed[i] {
				t.Fatalf("batch %d of %v: accepted %v, want %v", i, steps, got, committed[i])
			}
		}
	})
}

// fates says of each batch whether it holds committed records, and lists the aborted transactions that do not end before batch
// start. A transaction that is still open at the end is aborted there: a broker would not serve it.
func fates(log []*sarama.RecordBatch, start int) (committed []bool, aborted []*sarama.AbortedTransaction) {
	committed = make([]bool, len(log))
	open := map[int64][]int{}
	abort := func(producer int64, end int) {
		if own := open[producer]; len(own) > 0 && end >= start {
			aborted = append(aborted, &sarama.AbortedTransaction{ProducerID: producer, FirstOffset: log[own[0]].FirstOffset})
		}
	}
	for i, b := range log {
		switch {
		case !b.IsTransactional:
			committed[i] = true
		case !b.Control:
			open[b.ProducerID] = append(open[b.ProducerID], i)
		case isAbortMarker(b):
			abort(b.ProducerID, i)
			delete(open, b.ProducerID)
		default:
			for _, own := range open[b.ProducerID] {
				committed[own] = true
			}
			delete(open, b.ProducerID)
		}
	}
	for producer := range open {
		abort(producer, len(log))
	}
	return committed, aborted
}
