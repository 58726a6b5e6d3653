package consumer

import (
	"reflect"
	"time"
	"unsafe"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/record"
)

const (
	// recordOverhead is what a record costs beside its bytes.
	recordOverhead = int(unsafe.Sizeof(record.Record{}))
	headerOverhead = int(unsafe.Sizeof(record.Header{}))
	// batchOverhead is what a batch costs without any record: positions that move over aborted data take memory too.
	batchOverhead = int(unsafe.Sizeof(record.Batch{})) + 64
)

// convert hands the records of one fetched partition on and moves its offset. It reports whether the response got it
// anywhere. With own, keys and values are copied out of the response.
func (p *partition) convert(block *sarama.FetchResponseBlock, own bool) (moved bool, err error) {
	p.filter.Reset(block.AbortedTransactions)
	out := p.lane.take()
	before := p.next
	for _, set := range block.RecordsSet {
		b := set.RecordBatch
		if b == nil {
			err = p.unreadable(errOld)
			break
		}
		if b.PartialTrailingRecord {
			break
		}
		p.epoch = b.PartitionLeaderEpoch
		if p.filter.Accept(b) {
			out = p.appendRecords(out, b, own && b.Codec == sarama.CompressionNone)
		}
		p.next = max(p.next, b.LastOffset()+1)
	}
	if len(block.RecordsSet) == 0 && !block.Partial {
		p.next = max(p.next, afterEmpty(block))
	}
	if p.next == before {
		p.lane.giveBack(out)
		return false, err
	}
	p.push(out)
	return true, err
}

// afterEmpty returns the offset after record batches without any record, 0 where there are none. The log cleaner leaves such
// batches in compacted topics; sarama keeps them out of RecordsSet, and the offset that they end at in a field of its own.
// Without it a consumer would fetch such a batch at the end of a log for ever.
func afterEmpty(block *sarama.FetchResponseBlock) int64 {
	field := reflect.ValueOf(block).Elem().FieldByName("recordsNextOffset")
	if !field.IsValid() || field.Kind() != reflect.Pointer || field.IsNil() {
		return 0
	}
	return field.Elem().Int()
}

// appendRecords adds the records of b from the wanted offset on, and hands on whenever enough are gathered.
func (p *partition) appendRecords(out *record.Batch, b *sarama.RecordBatch, own bool) *record.Batch {
	first, last := millis(b.FirstTimestamp), millis(b.MaxTimestamp)
	headers := headerSlab(b)
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
			stamp = last
		}
		key, value := r.Key, r.Value
		if own {
			key, value = clone(out, key), clone(out, value)
		}
		var hs []record.Header
		hs, headers = cut(headers, r.Headers)
		out.Records = append(out.Records, record.Record{
			Key: key, Value: value, Headers: hs, Timestamp: stamp,
			Offset: offset, Partition: p.at.Partition, Source: p.at.Source, Group: record.NoGroup,
		})
		out.Bytes += len(key) + len(value) + recordOverhead
		for _, h := range hs {
			out.Bytes += len(h.Key) + len(h.Value) + headerOverhead
		}
	}
	return out
}

// millis is the timestamp of a record batch, -1 where it has none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

// clone copies a key or value into the memory of the batch; nil stays nil.
func clone(out *record.Batch, b []byte) []byte {
	if b == nil {
		return nil
	}
	c := out.Alloc(len(b))
	copy(c, b)
	return c
}

// headerSlab holds all headers of a record batch in one allocation.
func headerSlab(b *sarama.RecordBatch) []record.Header {
	n := 0
	for _, r := range b.Records {
		n += len(r.Headers)
	}
	return make([]record.Header, n) // which allocates nothing where there are none
}

// cut takes the headers of one record from the front of the slab.
func cut(slab []record.Header, from []*sarama.RecordHeader) (headers, rest []record.Header) {
	n := len(from)
	if n == 0 {
		return nil, slab
	}
	headers = slab[:n:n]
	for i, h := range from {
		headers[i] = record.Header{Key: h.Key, Value: h.Value}
	}
	return headers, slab[n:]
}

// push hands out on, as all that was read up to the partition's offset.
func (p *partition) push(out *record.Batch) {
	out.At, out.Next, out.LeaderEpoch = p.at, p.next, p.epoch
	p.stats.records.Add(int64(len(out.Records)))
	p.stats.bytes.Add(int64(out.Bytes - len(out.Records)*recordOverhead))
	p.stats.fetched.Store(p.next)
	out.Bytes += batchOverhead
	p.lane.push(out)
}

// copies says which lanes get copies of their part of a response. Records that are not compressed are views into the whole
// response, so a slow lane with a small part of each would keep far more memory alive than it accounts for.
type copies map[*Lane]bool

func (c copies) of(p *partition) bool { return c[p.lane] }

// smallPart is the share of a response below which a lane's part is copied: copying costs little there, and what a lane
// keeps alive is at most smallPart times what it accounts for.
const smallPart = 4

func planCopies(parts []*partition, resp *sarama.FetchResponse) copies {
	sizes := map[*Lane]int{}
	total := 0
	for _, p := range parts {
		n := plainBytes(resp.GetBlock(p.topic, p.at.Partition))
		sizes[p.lane] += n
		total += n
	}
	var c copies
	for lane, n := range sizes {
		if n > 0 && n*smallPart < total {
			if c == nil {
				c = copies{}
			}
			c[lane] = true
		}
	}
	return c
}

// plainBytes is about the size of the records of a block that are not compressed.
func plainBytes(block *sarama.FetchResponseBlock) (n int) {
	if block == nil {
		return 0
	}
	for _, set := range block.RecordsSet {
		if b := set.RecordBatch; b != nil && b.Codec == sarama.CompressionNone {
			for _, r := range b.Records {
				n += len(r.Key) + len(r.Value)
			}
		}
	}
	return n
}
