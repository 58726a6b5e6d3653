package consumer_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/consumer"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/tests/kafkatest"
)

// reading is a consumer of one topic that runs.
type reading struct {
	t        *testing.T
	consumer *consumer.Consumer
	woken    chan struct{}
	ended    chan error
	values   map[int32][]string
	next     map[int32]int64
}

func read(t *testing.T, e *kafkatest.Endpoint, topic string) *reading {
	t.Helper()
	cluster, err := kafka.Open(t.Context(), kafka.Options{Brokers: e.Brokers()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	r := &reading{
		t: t, woken: make(chan struct{}, 1), ended: make(chan error, 1), values: map[int32][]string{}, next: map[int32]int64{},
	}
	r.consumer, err = consumer.New(t.Context(), cluster, consumer.Options{
		Sources: []consumer.Source{{Name: "src", Topic: topic, Start: kafka.Earliest}}, Subtasks: 1,
		Owner: func(int32, int32) int { return 0 }, Prefetch: 1 << 20, Discovery: 50 * time.Millisecond,
		Wake: func(int) {
			select {
			case r.woken <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		r.ended <- r.consumer.Run(ctx)
		close(over)
	}()
	t.Cleanup(func() {
		cancel()
		<-over
	})
	return r
}

// until reads up to the given offset of each partition.
func (r *reading) until(ends map[int32]kafkatest.Offsets) {
	r.t.Helper()
	for {
		behind := false
		for p, end := range ends {
			behind = behind || r.next[p] < end.High
		}
		if !behind {
			return
		}
		b := r.consumer.Lane(0).Poll()
		if b == nil {
			select {
			case <-r.woken:
			case err := <-r.ended:
				r.t.Fatalf("the consumer ended: %v", err)
			case <-r.t.Context().Done():
				r.t.Fatalf("read up to %v of %v", r.next, ends)
			}
			continue
		}
		for _, rec := range b.Records {
			r.values[rec.Partition] = append(r.values[rec.Partition], string(rec.Value))
		}
		r.next[b.At.Partition] = b.Next
		r.consumer.Lane(0).Release(b)
	}
}

func (r *reading) want(partition int32, values ...string) {
	r.t.Helper()
	if got := r.values[partition]; !slices.Equal(got, values) {
		r.t.Errorf("partition %d: read %q, want %q", partition, got, values)
	}
}

func values(vs ...string) (all []kafkatest.Record) {
	for _, v := range vs {
		all = append(all, kafkatest.Record{Value: []byte(v)})
	}
	return all
}

func acceptConsumer(t *testing.T, e *kafkatest.Endpoint) {
	t.Run("Fault46OnlyCommittedRecordsAreReadToTheEnd", func(t *testing.T) {
		topic := e.CreateTopic("in", 1)
		a, b := e.Transactional(topic+"-a"), e.Transactional(topic+"-b")
		a.Begin().Write(topic, values("a1")...)
		b.Begin().Write(topic, values("b1")...)
		a.Write(topic, values("a2")...)
		a.Abort()
		b.Write(topic, values("b2")...)
		b.Commit()
		a.Begin().Write(topic, values("a3")...).Commit()
		a.Begin().Write(topic, values("a4")...).Abort() // the last thing in the partition is a marker of nothing
		r := read(t, e, topic)
		r.until(e.Settled(topic))
		r.want(0, "b1", "b2", "a3")
		b.Begin().Write(topic, values("b3")...).Commit()
		r.until(e.Settled(topic))
		r.want(0, "b1", "b2", "a3", "b3")
	})
	t.Run("Fault35ANewPartitionIsReadFromItsStart", func(t *testing.T) {
		topic := e.CreateTopic("in", 1)
		e.Produce(topic, values("old")...)
		r := read(t, e, topic)
		r.until(e.Offsets(topic))
		e.AddPartitions(topic, 2)
		e.Produce(topic, kafkatest.Record{Partition: 1, Value: []byte("new")})
		r.until(e.Offsets(topic))
		r.want(0, "old")
		r.want(1, "new")
	})
	t.Run("Fault34ARecreatedTopicEndsTheConsumer", func(t *testing.T) {
		topic := e.CreateTopic("in", 1)
		e.Produce(topic, values("old")...)
		r := read(t, e, topic)
		r.until(e.Offsets(topic))
		e.DeleteTopic(topic)
		e.CreateExactTopic(topic, 1)
		var recreated *consumer.RecreatedError
		if err := <-r.ended; !errors.As(err, &recreated) {
			t.Errorf("Run returned %v, want a RecreatedError", err)
		}
		if recreated != nil && recreated.Old == recreated.New || recreated == nil || recreated.New == (record.TopicID{}) {
			t.Errorf("the error is %+v", recreated)
		}
	})
}

func TestConsumerOnFake(t *testing.T) { acceptConsumer(t, kafkatest.Fake(t).Endpoint) }
