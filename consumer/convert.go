package consumer

import (
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/record"
)

// recordOverhead is about what a record costs beside its bytes.
const recordOverhead = 112

// convert hands the records of one fetched partition on and moves its offset. It reports whether the response got it
// anywhere.
func (p *partition) convert(block *sarama.FetchResponseBlock) (moved bool) {
	p.filter.Reset(block.AbortedTransactions)
	out := p.lane.take()
	before := p.next
	for _, set := range block.RecordsSet {
		b := set.RecordBatch
		if b == nil || b.PartialTrailingRecord {
			break
		}
		p.epoch = b.PartitionLeaderEpoch
		if p.filter.Accept(b) {
			out = p.appendRecords(out, b)
		}
		p.next = max(p.next, b.LastOffset()+1)
	}
	if p.next == before {
		p.lane.Release(out)
		return false
	}
	p.push(out)
	return true
}

// appendRecords adds the records of b from the wanted offset on, and hands on whenever enough are gathered.
func (p *partition) appendRecords(out *record.Batch, b *sarama.RecordBatch) *record.Batch {
	first := b.FirstTimestamp.UnixMilli()
	for _, r := range b.Records {
		offset := b.FirstOffset + r.OffsetDelta
		if offset < p.next {
			continue
		}
		if len(out.Records) == batchRecords {
			p.next = offset
			p.push(out)
			out = p.lane.take()
		}
		stamp := first + int64(r.TimestampDelta/time.Millisecond)
		if b.LogAppendTime {
			stamp = b.MaxTimestamp.UnixMilli()
		}
		out.Records = append(out.Records, record.Record{
			Key: r.Key, Value: r.Value, Headers: headers(r.Headers), Timestamp: stamp,
			Offset: offset, Partition: p.at.Partition, Source: p.at.Source, Group: record.NoGroup,
		})
		out.Bytes += len(r.Key) + len(r.Value) + recordOverhead
	}
	return out
}

// push hands out on, as all that was read up to the partition's offset.
func (p *partition) push(out *record.Batch) {
	out.At, out.Next, out.LeaderEpoch = p.at, p.next, p.epoch
	p.stats.records.Add(int64(len(out.Records)))
	p.stats.bytes.Add(int64(out.Bytes - len(out.Records)*recordOverhead))
	p.stats.fetched.Store(p.next)
	p.lane.push(out)
}

func headers(from []*sarama.RecordHeader) []record.Header {
	if len(from) == 0 {
		return nil
	}
	to := make([]record.Header, len(from))
	for i, h := range from {
		to[i] = record.Header{Key: h.Key, Value: h.Value}
	}
	return to
}
