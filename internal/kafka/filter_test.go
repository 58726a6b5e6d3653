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
