package consumer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
)

// fixture is a fake cluster with a topic "in" of two partitions.
type fixture struct {
	fake    *kfake.Cluster
	cluster *kafka.Cluster
	woken   chan struct{}
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(2, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	c, err := kafka.Open(t.Context(), kafka.Options{Brokers: fake.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &fixture{fake, c, make(chan struct{}, 1)}
}

// produce appends n records to each partition, in record batches of up to size.
func (f *fixture) produce(t *testing.T, codec sarama.CompressionCodec, n int) {
	t.Helper()
	cfg := sarama.NewConfig()
	cfg.Version, cfg.Producer.Return.Successes, cfg.Producer.Compression = sarama.V2_8_0_0, true, codec
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	p, err := sarama.NewSyncProducer(f.fake.ListenAddrs(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var ms []*sarama.ProducerMessage
	for i := range 2 * n {
		ms = append(ms, &sarama.ProducerMessage{Topic: "in", Partition: int32(i % 2), Key: sarama.StringEncoder(fmt.Sprint(i / 2)),
			Value: sarama.StringEncoder("value"), Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte("v")}}})
	}
	if err := p.SendMessages(ms); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) options(positions []record.Position) Options {
	return Options{
		Sources: []Source{{Name: "src", Topic: "in", Start: kafka.Earliest}}, Positions: positions, Subtasks: 1,
		Owner: func(int32, int32) int { return 0 }, Prefetch: 1 << 10, Discovery: 20 * time.Millisecond,
		Wake: func(int) {
			select {
			case f.woken <- struct{}{}:
			default:
			}
		},
	}
}

// run starts a consumer; its end is checked at the end of the test.
func (f *fixture) run(t *testing.T, c *Consumer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// read takes batches until both partitions are read to their ends, and returns the offsets by partition.
func (f *fixture) read(t *testing.T, c *Consumer, until map[int32]int64) map[int32][]int64 {
	t.Helper()
	got, next := map[int32][]int64{}, map[int32]int64{}
	for {
		b := c.Lane(0).Poll()
		if b == nil {
			done := true
			for p, end := range until {
				done = done && next[p] >= end
			}
			if done {
				return got
			}
			select {
			case <-f.woken:
			case <-t.Context().Done():
				t.Fatal("the test is over")
			}
			continue
		}
		for _, r := range b.Records {
			if string(r.Key) != fmt.Sprint(r.Offset) || string(r.Value) != "value" || len(r.Headers) != 1 || r.Timestamp == 0 {
				t.Fatalf("record %+v", r)
			}
			got[r.Partition] = append(got[r.Partition], r.Offset)
		}
		next[b.At.Partition] = b.Next
		c.Lane(0).Release(b)
	}
}

func TestConsumerReadsEverythingInOrderWithinItsPrefetch(t *testing.T) {
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
		t.Run(codec.String(), func(t *testing.T) {
			f := newFixture(t)
			const n = 5000
			f.produce(t, codec, n)
			c, err := New(t.Context(), f.cluster, f.options(nil))
			if err != nil {
				t.Fatal(err)
			}
			f.run(t, c)
			for p, offsets := range f.read(t, c, map[int32]int64{0: n, 1: n}) {
				for i, o := range offsets {
					if o != int64(i) {
						t.Fatalf("partition %d: record %d has offset %d", p, i, o)
					}
				}
			}
		})
	}
}

func TestConsumerGoesOnFromItsPositionsAndFollowsLeaders(t *testing.T) {
	f := newFixture(t)
	f.produce(t, sarama.CompressionNone, 100)
	topic, err := f.cluster.Topic(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(t.Context(), f.cluster, f.options([]record.Position{
		{Source: "src", Topic: "in", TopicID: topic.ID, Partition: 0, Offset: 90, LeaderEpoch: -1},
		{Source: "src", Topic: "in", TopicID: topic.ID, Partition: 1, Offset: 95, LeaderEpoch: -1},
	}))
	if err != nil {
		t.Fatal(err)
	}
	f.run(t, c)
	got := f.read(t, c, map[int32]int64{0: 100, 1: 100})
	if len(got[0]) != 10 || len(got[1]) != 5 {
		t.Fatalf("read %v", got)
	}
	f.fake.ShufflePartitionLeaders()
	f.produce(t, sarama.CompressionNone, 0)
	for p := range int32(2) {
		if err := f.fake.MoveTopicPartition("in", p, 1-p); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConsumerStopsAtAGapAndAtARecreatedTopic(t *testing.T) {
	f := newFixture(t)
	f.produce(t, sarama.CompressionNone, 10)
	topic, err := f.cluster.Topic(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(t.Context(), f.cluster, f.options([]record.Position{{Source: "src", Topic: "in", TopicID: topic.ID, Partition: 0, Offset: 50}}))
	if err != nil {
		t.Fatal(err)
	}
	var gap *GapError
	if err := c.Run(t.Context()); !errors.As(err, &gap) || gap.Wanted != 50 || gap.End != 10 {
		t.Errorf("Run returned %v", err)
	}
	var recreated *RecreatedError
	_, err = New(t.Context(), f.cluster, f.options([]record.Position{{Source: "src", Topic: "in", TopicID: record.TopicID{1}, Partition: 0, Offset: 5}}))
	if !errors.As(err, &recreated) {
		t.Errorf("New returned %v", err)
	}
}
