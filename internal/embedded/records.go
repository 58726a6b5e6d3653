package embedded

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is a record of a topic.
type Record struct {
	Partition  int32
	Key, Value []byte
	Headers    []kgo.RecordHeader
}

// Produce writes records to their partitions of a topic, in order.
func (b *Broker) Produce(ctx context.Context, topic string, records []Record) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Brokers()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return fmt.Errorf("writing to %s: %w", topic, err)
	}
	defer c.Close()
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		out[i] = &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers}
	}
	if err := c.ProduceSync(ctx, out...).FirstErr(); err != nil {
		return fmt.Errorf("writing to %s: %w", topic, err)
	}
	return nil
}

// ReadCommitted returns all committed records of a topic, partition by partition. No transaction may be open.
func (b *Broker) ReadCommitted(ctx context.Context, topic string) ([]Record, error) {
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for _, p := range b.cluster.PartitionInfos(topic) {
		if p.HighWatermark > 0 {
			from[p.Partition], left[p.Partition] = kgo.NewOffset().AtStart(), p.HighWatermark
		}
	}
	if len(from) == 0 {
		return nil, nil
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Brokers()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", topic, err)
	}
	defer c.Close()
	read := map[int32][]Record{}
	for len(left) > 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("reading %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				read[r.Partition] = append(read[r.Partition], Record{r.Partition, r.Key, r.Value, r.Headers})
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	var all []Record
	for p := range int32(len(b.cluster.PartitionInfos(topic))) {
		all = append(all, read[p]...)
	}
	return all, nil
}

// Consumed says whether a consumer group has committed the end of every partition of a topic, where it is empty as well.
func (b *Broker) Consumed(group, topic string) bool {
	g := b.cluster.GroupInfo(group)
	if g == nil {
		return false
	}
	for _, p := range b.cluster.PartitionInfos(topic) {
		commit, known := g.Commits[topic][p.Partition]
		if !known || commit.Offset < p.HighWatermark {
			return false
		}
	}
	return true
}
