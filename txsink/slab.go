package txsink

import (
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/record"
)

// slab gathers the records of one record batch in memory that is used again and again.
type slab struct {
	records  []sarama.Record
	pointers []*sarama.Record
	// first is the timestamp that the others are relative to, last the highest, in milliseconds.
	first, last int64
	bytes       int
	// source is the input record that the first result came from, for messages.
	source record.Record
}

// recordCost bounds what the encoding of a record adds to its bytes: lengths, deltas and attributes.
const recordCost = 21

// add appends a record; its bytes are referred to, not copied.
func (s *slab) add(r *record.Record) {
	if len(s.records) == 0 {
		s.first, s.last = r.Timestamp, r.Timestamp
		s.source = record.Record{Source: r.Source, Partition: r.Partition, Offset: r.Offset}
	}
	s.last = max(s.last, r.Timestamp)
	s.records = append(s.records, sarama.Record{
		Key: r.Key, Value: r.Value, Headers: headers(r.Headers), OffsetDelta: int64(len(s.records)),
		TimestampDelta: time.Duration(r.Timestamp-s.first) * time.Millisecond,
	})
	s.bytes += size(r)
}

// size bounds what r takes in a record batch.
func size(r *record.Record) int {
	n := len(r.Key) + len(r.Value) + recordCost
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}

func headers(from []record.Header) []*sarama.RecordHeader {
	if len(from) == 0 {
		return nil
	}
	to := make([]*sarama.RecordHeader, len(from))
	for i, h := range from {
		to[i] = &sarama.RecordHeader{Key: h.Key, Value: h.Value}
	}
	return to
}

// wire makes the record batch to send. Without a transaction its producer is anonymous.
func (s *slab) wire(id record.Identity, sequence int32, codec sarama.CompressionCodec) *sarama.RecordBatch {
	s.pointers = s.pointers[:0]
	for i := range s.records {
		s.pointers = append(s.pointers, &s.records[i])
	}
	b := &sarama.RecordBatch{
		Version: 2, Codec: codec, CompressionLevel: sarama.CompressionLevelDefault, Records: s.pointers,
		FirstTimestamp: time.UnixMilli(s.first), MaxTimestamp: time.UnixMilli(s.last), LastOffsetDelta: int32(len(s.records) - 1),
		ProducerID: id.ProducerID, ProducerEpoch: id.Epoch, FirstSequence: sequence, IsTransactional: true,
	}
	if id.IsZero() {
		b.ProducerID, b.ProducerEpoch, b.FirstSequence, b.IsTransactional = -1, -1, -1, false
	}
	return b
}

func (s *slab) reset() {
	clear(s.records)
	*s = slab{records: s.records[:0], pointers: s.pointers[:0]}
}
