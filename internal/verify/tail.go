package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

// Batch is a run of committed records of one partition and one transaction. Txn is zero outside transactions.
type Batch struct {
	Topic     string
	Partition int32
	Txn       Txn
	// FirstOffset is that which the deltas of the records count from.
	FirstOffset int64
	Records     []*sarama.Record
}

// Tail reads all partitions of some topics with read_committed, from their start. It keeps what an ordinary consumer hides:
// to which transaction a record belongs, and how far the last stable offset is behind the end. One goroutine uses it.
type Tail struct {
	client     sarama.Client
	partitions []*tailed
	// LongestOpen is the longest time for which a last stable offset stood still below its partition's end.
	LongestOpen time.Duration
}

// tailed is one partition.
type tailed struct {
	topic     string
	partition int32
	next      int64
	// stable and end are the last stable offset and the high watermark of the last answer.
	stable, end int64
	// held is when stable began to stand still below end, zero where it is not so.
	held time.Time
}

// Config returns the settings of a plain client, to be adapted by the caller where the cluster asks for more.
func Config(clientID string) *sarama.Config {
	c := sarama.NewConfig()
	c.ClientID, c.Version = clientID, sarama.V3_6_0_0
	c.Net.DialTimeout, c.Net.ReadTimeout, c.Net.WriteTimeout = 2*time.Second, 10*time.Second, 5*time.Second
	c.Metadata.Retry.Max, c.Metadata.Retry.Backoff = 3, 200*time.Millisecond
	c.Metadata.AllowAutoTopicCreation = false
	c.ApiVersionsRequest = true
	return c
}

// NewTail returns a tail at the start of every partition of the topics, which must exist.
func NewTail(brokers []string, conf *sarama.Config, topics ...string) (*Tail, error) {
	client, err := sarama.NewClient(brokers, conf)
	if err != nil {
		return nil, fmt.Errorf("connecting to %v: %w", brokers, err)
	}
	t := &Tail{client: client}
	for _, topic := range topics {
		partitions, err := client.Partitions(topic)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("topic %s: %w", topic, err), client.Close())
		}
		for _, p := range partitions {
			t.partitions = append(t.partitions, &tailed{topic: topic, partition: p, end: -1})
		}
	}
	return t, nil
}

// Close ends the connections.
func (t *Tail) Close() error { return t.client.Close() }

// Reconnect goes on with a new client where this one was.
func (t *Tail) Reconnect(brokers []string, conf *sarama.Config) error {
	client, err := sarama.NewClient(brokers, conf)
	if err != nil {
		return fmt.Errorf("connecting to %v: %w", brokers, err)
	}
	old := t.client
	t.client = client
	return old.Close()
}

// Drained says whether everything that the last answers told of has been read: the last stable offset has met the high
// watermark. Reading to either alone would take an open transaction for the end, or stop short of a marker.
func (t *Tail) Drained() bool {
	return !slices.ContainsFunc(t.partitions, func(p *tailed) bool { return p.end < 0 || p.next < p.end })
}

// OpenFor returns the longest time for which a last stable offset stands still below the end now.
func (t *Tail) OpenFor() (longest time.Duration) {
	for _, p := range t.partitions {
		if !p.held.IsZero() {
			longest = max(longest, time.Since(p.held))
		}
	}
	return longest
}

const (
	tailWait      = 50 // milliseconds that a broker may wait for data
	tailBytes     = 4 << 20
	tailRetryWait = 100 * time.Millisecond
)

// Poll asks every broker once and returns what is there. Brokers that fail, or have lost a partition, are looked up again and
// asked the next time. The only error is a ctx that has ended before: what is read is always returned.
func (t *Tail) Poll(ctx context.Context) ([]Batch, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var out []Batch
	failed := false
	for broker, request := range t.requests() {
		answer, err := broker.Fetch(request)
		if err != nil {
			_ = broker.Close() // it is opened again when it is asked for
			failed = true
			continue
		}
		batches, moved := t.take(answer)
		out, failed = append(out, batches...), failed || moved
	}
	if failed {
		_ = t.client.RefreshMetadata() // a failure shows again at the next poll
		select {
		case <-ctx.Done():
		case <-time.After(tailRetryWait):
		}
	}
	return out, nil
}

// requests makes one fetch request for each broker that leads a partition.
func (t *Tail) requests() map[*sarama.Broker]*sarama.FetchRequest {
	out := map[*sarama.Broker]*sarama.FetchRequest{}
	for _, p := range t.partitions {
		broker, err := t.client.Leader(p.topic, p.partition)
		if err != nil {
			continue // without a leader now
		}
		r := out[broker]
		if r == nil {
			r = &sarama.FetchRequest{Version: 11, MaxWaitTime: tailWait, MinBytes: 1, MaxBytes: 8 * tailBytes,
				Isolation: sarama.ReadCommitted}
			out[broker] = r
		}
		r.AddBlock(p.topic, p.partition, p.next, tailBytes, -1)
	}
	return out
}

// take turns an answer into batches. moved says that a partition has another leader now.
func (t *Tail) take(answer *sarama.FetchResponse) (out []Batch, moved bool) {
	for _, p := range t.partitions {
		block := answer.GetBlock(p.topic, p.partition)
		if block == nil {
			continue
		}
		if block.Err != sarama.ErrNoError {
			moved = true
			continue
		}
		out = append(out, p.take(block)...)
		p.watch(block, &t.LongestOpen)
	}
	return out, moved
}

// watch measures how long the last stable offset stands still below the end.
func (p *tailed) watch(block *sarama.FetchResponseBlock, longest *time.Duration) {
	now := time.Now()
	if !p.held.IsZero() {
		*longest = max(*longest, now.Sub(p.held))
	}
	switch {
	case block.LastStableOffset >= block.HighWaterMarkOffset:
		p.held = time.Time{}
	case p.held.IsZero() || block.LastStableOffset != p.stable:
		p.held = now
	}
	p.stable, p.end = block.LastStableOffset, block.HighWaterMarkOffset
}

// take returns the committed records of a block from p.next on, and moves p.next.
func (p *tailed) take(block *sarama.FetchResponseBlock) (out []Batch) {
	aborted := slices.Clone(block.AbortedTransactions)
	slices.SortFunc(aborted, func(a, b *sarama.AbortedTransaction) int { return int(a.FirstOffset - b.FirstOffset) })
	open := map[int64]bool{}
	for _, set := range block.RecordsSet {
		b := set.RecordBatch
		if b == nil || b.PartialTrailingRecord || b.LastOffset() < p.next {
			continue
		}
		for len(aborted) > 0 && aborted[0].FirstOffset <= b.LastOffset() {
			open[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		switch {
		case b.Control:
			delete(open, b.ProducerID)
		case !b.IsTransactional || !open[b.ProducerID]:
			out = append(out, p.batch(b))
		}
		p.next = b.LastOffset() + 1
	}
	return out
}

// batch leaves out the records before p.next.
func (p *tailed) batch(b *sarama.RecordBatch) Batch {
	out := Batch{Topic: p.topic, Partition: p.partition, FirstOffset: b.FirstOffset}
	if b.IsTransactional {
		out.Txn = Txn{b.ProducerID, b.ProducerEpoch}
	}
	for _, r := range b.Records {
		if b.FirstOffset+r.OffsetDelta >= p.next {
			out.Records = append(out.Records, r)
		}
	}
	return out
}
