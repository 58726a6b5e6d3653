package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/internal/seldom"
	"github.com/weirstream/weir/record"
)

// Consumer reads the sources of one instance.
type Consumer struct {
	cluster *kafka.Cluster
	opts    Options
	lanes   []*Lane
	// ids are the topic ids that the positions belong to, by source.
	ids []record.TopicID
	mu  struct {
		sync.Mutex
		parts    []*partition
		byAt     map[record.SourcePartition]*partition
		fetchers map[string]*fetcher
	}
	errors errorCounts
	// missingSince is when each topic that is missing was found so first; the manager owns it.
	missingSince map[string]time.Time
	// lost tells the manager that a partition has no fetcher.
	lost chan struct{}
	// noMetadata and noLeader are what the manager may have to say again and again.
	noMetadata, noLeader seldom.Log
}

// partition is one partition of one source.
type partition struct {
	at     record.SourcePartition
	topic  string
	source string
	lane   *Lane
	start  record.Position
	// The holder, a fetcher, owns the following; nobody else touches them while it holds the partition.
	next     int64
	epoch    int32
	maxBytes int32
	filter   kafka.CommittedFilter
	// leaderEpoch is what the metadata said when the partition was given to its holder.
	leaderEpoch int32
	// undecodable counts the answers in a row that could not be decoded.
	undecodable int
	stats       partitionStats
}

type partitionStats struct {
	records, bytes, fetched, highWatermark, lastStable atomic.Int64
}

// New finds out where each partition starts. It fails with a *RecreatedError, *RenamedError or *RenamedSourceError where
// positions do not belong to the topics, unless that is accepted.
func New(ctx context.Context, cluster *kafka.Cluster, o Options) (*Consumer, error) {
	o.setDefaults()
	c := &Consumer{cluster: cluster, opts: o, lost: make(chan struct{}, 1), missingSince: map[string]time.Time{}}
	c.mu.byAt, c.mu.fetchers = map[record.SourcePartition]*partition{}, map[string]*fetcher{}
	for i := range o.Subtasks {
		l := &Lane{consumer: c, subtask: i, limit: int64(o.Prefetch)}
		c.lanes = append(c.lanes, l)
	}
	if err := cluster.Refresh(ctx, o.topics()...); err != nil {
		return nil, err
	}
	if err := c.orphans(); err != nil {
		return nil, err
	}
	for i := range o.Sources {
		if err := c.addSource(ctx, int32(i)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Lane returns the queue of one subtask.
func (c *Consumer) Lane(subtask int) *Lane { return c.lanes[subtask] }

// Positions returns where each partition starts, by subtask.
func (c *Consumer) Positions(subtask int) map[record.SourcePartition]record.Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := map[record.SourcePartition]record.Position{}
	for _, p := range c.mu.parts {
		if p.lane.subtask == subtask {
			m[p.at] = p.start
		}
	}
	return m
}

func (c *Consumer) position(at record.SourcePartition) record.Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.byAt[at].start
}

// addSource finds the start of each partition of a source.
func (c *Consumer) addSource(ctx context.Context, source int32) error {
	s := c.opts.Sources[source]
	topic, err := c.cluster.Topic(ctx, s.Topic)
	if err != nil {
		return fmt.Errorf("source %s: %w", s.Name, err)
	}
	c.ids = append(c.ids, record.TopicID(topic.ID))
	restored, at, err := c.restored(s, record.TopicID(topic.ID), len(topic.Partitions))
	if err != nil {
		return err
	}
	var missing []int32
	for p := range topic.Partitions {
		if _, have := restored[int32(p)]; !have {
			missing = append(missing, int32(p))
		}
	}
	starts, err := c.starts(ctx, s, missing, at)
	if err != nil {
		return fmt.Errorf("source %s: %w", s.Name, err)
	}
	for p := range int32(len(topic.Partitions)) {
		pos, have := restored[p]
		if !have {
			pos = record.Position{Source: s.Name, Topic: s.Topic, TopicID: record.TopicID(topic.ID), Partition: p, Offset: starts[p], LeaderEpoch: -1}
		}
		c.add(source, pos)
	}
	return nil
}

// starts asks for the first offset to read of each partition given.
func (c *Consumer) starts(ctx context.Context, s Source, partitions []int32, at int64) (map[int32]int64, error) {
	ask := func(parts []int32, at int64) (map[int32]int64, error) {
		var tps []kafka.TopicPartition
		for _, p := range parts {
			tps = append(tps, kafka.TopicPartition{Topic: s.Topic, Partition: p})
		}
		got, err := c.cluster.ListOffsets(ctx, tps, at, sarama.ReadCommitted)
		offsets := map[int32]int64{}
		for tp, o := range got {
			offsets[tp.Partition] = o
		}
		return offsets, err
	}
	found, err := ask(partitions, at)
	if err != nil || at < 0 {
		return found, err
	}
	var none []int32 // no record is that new: start at the end
	for p, o := range found {
		if o < 0 {
			none = append(none, p)
		}
	}
	ends, err := ask(none, kafka.Latest)
	for p, o := range ends {
		found[p] = o
	}
	return found, err
}

func (c *Consumer) add(source int32, start record.Position) *partition {
	at := record.SourcePartition{Source: source, Partition: start.Partition}
	p := &partition{
		at: at, topic: start.Topic, source: start.Source, start: start, next: start.Offset, epoch: start.LeaderEpoch,
		lane: c.lanes[c.opts.Owner(source, start.Partition)], maxBytes: c.opts.FetchBytes,
	}
	p.stats.fetched.Store(start.Offset)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.parts, c.mu.byAt[at] = append(c.mu.parts, p), p
	return p
}

// PartitionStatus is a picture of one partition.
type PartitionStatus struct {
	Source, Topic string
	Partition     int32
	// Fetched is the offset up to which records were fetched; LastStable and HighWatermark are from the last answer.
	Fetched, LastStable, HighWatermark int64
	// Records and Bytes count what was handed on since the start.
	Records, Bytes int64
}

// Status returns a picture of all partitions. Any goroutine may call it.
func (c *Consumer) Status() []PartitionStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]PartitionStatus, 0, len(c.mu.parts))
	for _, p := range c.mu.parts {
		all = append(all, PartitionStatus{
			Source: p.source, Topic: p.topic, Partition: p.at.Partition, Fetched: p.stats.fetched.Load(),
			LastStable: p.stats.lastStable.Load(), HighWatermark: p.stats.highWatermark.Load(),
			Records: p.stats.records.Load(), Bytes: p.stats.bytes.Load(),
		})
	}
	return all
}

// errorCounts counts failed fetches by what they failed with.
type errorCounts struct {
	mu struct {
		sync.Mutex
		byCause map[string]int64
	}
}

func (e *errorCounts) count(err error) {
	cause := "connection"
	if code := sarama.KError(0); errors.As(err, &code) {
		cause = strconv.Itoa(int(code))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.byCause == nil {
		e.mu.byCause = map[string]int64{}
	}
	e.mu.byCause[cause]++
}

// Errors counts the failed fetches since the start by Kafka's error code in decimal, or "connection". Any goroutine may
// call it.
func (c *Consumer) Errors() map[string]int64 {
	c.errors.mu.Lock()
	defer c.errors.mu.Unlock()
	return maps.Clone(c.errors.mu.byCause)
}

// askTimeout bounds questions to the brokers that keep a fetcher or the manager from their other partitions.
const askTimeout = 10 * time.Second

// gap finds out why an offset is not in a log: the topic is another one, or records are gone. Where the log holds the
// offset after all, as a new leader may a moment later, the fetch is to be made again.
func (c *Consumer) gap(ctx context.Context, p *partition) (kafka.Class, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := c.sameTopic(ctx, p); err != nil {
		return kafka.Stop, err
	}
	tp := []kafka.TopicPartition{{Topic: p.topic, Partition: p.at.Partition}}
	first, err := c.cluster.ListOffsets(ctx, tp, kafka.Earliest, sarama.ReadUncommitted)
	end, endErr := c.cluster.ListOffsets(ctx, tp, kafka.Latest, sarama.ReadUncommitted)
	if err = errors.Join(err, endErr); err != nil {
		return kafka.Stop, fmt.Errorf("offset %d of %v is out of range; asking for the range: %w", p.next, tp[0], err)
	}
	if first[tp[0]] <= p.next && p.next <= end[tp[0]] {
		return kafka.Retry, nil
	}
	gap := &GapError{Source: p.source, Topic: p.topic, Partition: p.at.Partition, Wanted: p.next, First: first[tp[0]], End: end[tp[0]]}
	if !c.opts.Sources[p.at.Source].AcceptLoss {
		return kafka.Stop, gap
	}
	c.skip(p, gap)
	return kafka.Retry, nil
}

// sameTopic looks whether the topic of a partition is still the one that its position belongs to.
func (c *Consumer) sameTopic(ctx context.Context, p *partition) error {
	if err := c.cluster.Refresh(ctx, p.topic); err != nil {
		return fmt.Errorf("offset %d of %s-%d is out of range; looking for the topic: %w", p.next, p.topic, p.at.Partition, err)
	}
	topic, err := c.cluster.Topic(ctx, p.topic)
	if err != nil {
		return err
	}
	if id := record.TopicID(topic.ID); id != p.start.TopicID {
		return &RecreatedError{Source: p.source, Topic: p.topic, Partition: -1, Old: p.start.TopicID, New: id}
	}
	return nil
}
