package kafkatest

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/record"
)

// Offsets are the limits of one partition.
type Offsets struct {
	// Start is the first offset kept.
	Start int64
	// LastStable is the offset up to which every transaction is settled: read_committed readers stop there.
	LastStable int64
	// High is the high watermark, the offset of the next record.
	High int64
}

// Offsets returns the limits of each partition of a topic, from its leaders.
func (e *Endpoint) Offsets(topic string) map[int32]Offsets {
	e.t.Helper()
	var found map[int32]Offsets
	e.Until("offsets of "+topic, func(ctx context.Context) (err error) {
		found, err = e.offsets(ctx, topic)
		return err
	})
	return found
}

func (e *Endpoint) offsets(ctx context.Context, topic string) (map[int32]Offsets, error) {
	leaders, err := e.leaders(ctx, topic, 1)
	if err != nil {
		return nil, err
	}
	const latest, earliest = -1, -2
	found := make(map[int32]Offsets)
	list := func(at int64, isolation int8, set func(*Offsets, int64)) error {
		req, one := kmsg.NewPtrListOffsetsRequest(), kmsg.NewListOffsetsRequestTopic()
		req.IsolationLevel, one.Topic = isolation, topic
		for p := range leaders {
			part := kmsg.NewListOffsetsRequestTopicPartition()
			part.Partition, part.Timestamp = p, at
			one.Partitions = append(one.Partitions, part)
		}
		req.Topics = append(req.Topics, one)
		resp, err := req.RequestWith(ctx, e.client)
		if err != nil {
			return err
		}
		for _, p := range resp.Topics[0].Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			o := found[p.Partition]
			set(&o, p.Offset)
			found[p.Partition] = o
		}
		return nil
	}
	// The last stable offset first: a write between two requests must not make it seem to have caught up.
	if err := list(latest, 1, func(o *Offsets, v int64) { o.LastStable = v }); err != nil {
		return nil, err
	}
	if err := list(latest, 0, func(o *Offsets, v int64) { o.High = v }); err != nil {
		return nil, err
	}
	return found, list(earliest, 0, func(o *Offsets, v int64) { o.Start = v })
}

// Settled waits until no transaction is open in any partition of the topic, and returns the limits then.
func (e *Endpoint) Settled(topic string) map[int32]Offsets {
	e.t.Helper()
	var found map[int32]Offsets
	e.Until("end of the transactions in "+topic, func(ctx context.Context) (err error) {
		if found, err = e.offsets(ctx, topic); err != nil {
			return err
		}
		for p, o := range found {
			if o.LastStable != o.High {
				return fmt.Errorf("partition %d: the last stable offset is %d of %d", p, o.LastStable, o.High)
			}
		}
		return nil
	})
	return found
}

// ReadCommitted returns all committed records of a topic by partition and offset. It waits until every transaction is
// settled and then reads to the high watermark: reading to either limit alone would cut the end off.
func (e *Endpoint) ReadCommitted(topic string) []Record {
	e.t.Helper()
	return e.read(topic, e.Settled(topic), kgo.ReadCommitted())
}

// ReadAll returns all records of a topic, those of aborted and open transactions included.
func (e *Endpoint) ReadAll(topic string) []Record {
	e.t.Helper()
	return e.read(topic, e.Offsets(topic), kgo.ReadUncommitted())
}

func (e *Endpoint) read(topic string, limits map[int32]Offsets, level kgo.IsolationLevel) []Record {
	e.t.Helper()
	from := make(map[int32]kgo.Offset)
	for p, o := range limits {
		if o.High > o.Start {
			from[p] = kgo.NewOffset().At(o.Start)
		}
	}
	if len(from) == 0 {
		return nil
	}
	// Control records are kept: the marker of an aborted transaction may be all that shows that the end is reached.
	c := e.open(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(level),
		kgo.KeepControlRecords())
	defer c.Close()
	ctx, cancel := e.context()
	defer cancel()
	var all []Record
	for len(from) > 0 {
		fetched := c.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			e.t.Fatalf("read %s: %d records read, %d partitions to go: %v", topic, len(all), len(from), err)
		}
		fetched.EachRecord(func(r *kgo.Record) {
			if r.Offset >= limits[r.Partition].High {
				return
			}
			if r.Offset == limits[r.Partition].High-1 {
				delete(from, r.Partition)
			}
			if !r.Attrs.IsControl() {
				all = append(all, incoming(r))
			}
		})
	}
	slices.SortFunc(all, func(a, b Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return all
}

func incoming(r *kgo.Record) Record {
	in := Record{Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Time: r.Timestamp}
	for _, h := range r.Headers {
		in.Headers = append(in.Headers, record.Header{Key: []byte(h.Key), Value: h.Value})
	}
	return in
}
