package kafkatest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Patience is how long the helpers wait for a broker to do what it should, elections included, before they fail the test.
const Patience = 60 * time.Second

// Endpoint is a Kafka that a test talks to. Its methods fail the test that it was made for; they are for the goroutine
// of that test.
type Endpoint struct {
	t       testing.TB
	brokers []string
	client  *kgo.Client
}

func newEndpoint(t testing.TB, brokers []string) *Endpoint {
	t.Helper()
	e := &Endpoint{t: t, brokers: brokers}
	e.client = e.open()
	t.Cleanup(e.client.Close)
	return e
}

// Brokers are the bootstrap addresses, without encryption or login.
func (e *Endpoint) Brokers() []string { return e.brokers }

// open returns a client for which every kind of wait is bounded by Patience.
func (e *Endpoint) open(opts ...kgo.Opt) *kgo.Client {
	e.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(e.brokers...), kgo.DialTimeout(2 * time.Second), kgo.RequestTimeoutOverhead(2 * time.Second),
		kgo.ProduceRequestTimeout(5 * time.Second),
		kgo.RetryTimeout(Patience), kgo.MetadataMinAge(50 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxWait(100 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		e.t.Fatalf("kafka client: %v", err)
	}
	return c
}

func (e *Endpoint) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), Patience)
}

// Until calls try until it returns nil, and fails the test with the last error when that takes longer than Patience.
func (e *Endpoint) Until(what string, try func(context.Context) error) {
	e.t.Helper()
	ctx, cancel := e.context()
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			e.t.Fatalf("%s: not within %v: %v", what, Patience, err)
		case <-tick.C:
		}
	}
}

// CreateTopic creates a topic and waits until each of its partitions has a leader. The name gets a random end, so that tests
// that share a cluster share no topic; the whole name is returned. Settings are "name=value"; replication is the cluster's
// default unless a setting "replication=n" says otherwise.
func (e *Endpoint) CreateTopic(name string, partitions int, settings ...string) string {
	e.t.Helper()
	topic := fmt.Sprintf("%s-%08x", name, rand.Uint32())
	e.CreateExactTopic(topic, partitions, settings...)
	return topic
}

// CreateExactTopic is CreateTopic without the random end.
func (e *Endpoint) CreateExactTopic(topic string, partitions int, settings ...string) {
	e.t.Helper()
	req, want := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
	req.TimeoutMillis = int32(Patience.Milliseconds())
	want.Topic, want.NumPartitions, want.ReplicationFactor = topic, int32(partitions), -1
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		if key == "replication" {
			if _, err := fmt.Sscan(value, &want.ReplicationFactor); err != nil {
				e.t.Fatalf("topic %s: setting %q: %v", topic, s, err)
			}
			continue
		}
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		want.Configs = append(want.Configs, c)
	}
	req.Topics = append(req.Topics, want)
	ctx, cancel := e.context()
	defer cancel()
	resp, err := req.RequestWith(ctx, e.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		e.t.Fatalf("create topic %s: %v", topic, err)
	}
	e.awaitLeaders(topic, partitions)
}

// awaitLeaders waits until every broker knows a leader of each of a topic's partitions: each hears of a new topic by itself.
func (e *Endpoint) awaitLeaders(topic string, partitions int) {
	e.t.Helper()
	e.Until("leaders of "+topic, func(ctx context.Context) error {
		alive, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, e.client)
		if err != nil {
			return err
		}
		for _, b := range alive.Brokers {
			if _, err := leaders(ctx, e.client.Broker(int(b.NodeID)), topic, partitions); err != nil {
				return fmt.Errorf("broker %d: %w", b.NodeID, err)
			}
		}
		return nil
	})
}

// AddPartitions gives a topic partitions up to a total count and waits until each has a leader.
func (e *Endpoint) AddPartitions(topic string, total int) {
	e.t.Helper()
	req, one := kmsg.NewPtrCreatePartitionsRequest(), kmsg.NewCreatePartitionsRequestTopic()
	req.TimeoutMillis = int32(Patience.Milliseconds())
	one.Topic, one.Count = topic, int32(total)
	req.Topics = append(req.Topics, one)
	ctx, cancel := e.context()
	defer cancel()
	resp, err := req.RequestWith(ctx, e.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		e.t.Fatalf("add partitions to %s: %v", topic, err)
	}
	e.awaitLeaders(topic, total)
	e.client = e.open() // the client before goes on believing in the old count for a while
	e.t.Cleanup(e.client.Close)
}

// DeleteTopic deletes a topic and waits until the brokers have forgotten it.
func (e *Endpoint) DeleteTopic(topic string) {
	e.t.Helper()
	req, one := kmsg.NewPtrDeleteTopicsRequest(), kmsg.NewDeleteTopicsRequestTopic()
	one.Topic = &topic
	req.Topics, req.TopicNames = append(req.Topics, one), []string{topic}
	req.TimeoutMillis = int32(Patience.Milliseconds())
	ctx, cancel := e.context()
	defer cancel()
	resp, err := req.RequestWith(ctx, e.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		e.t.Fatalf("delete topic %s: %v", topic, err)
	}
	e.Until("end of "+topic, func(ctx context.Context) error {
		if _, err := e.leaders(ctx, topic, 0); err == nil {
			return fmt.Errorf("the topic is still there")
		}
		return nil
	})
	e.client = e.open() // the client before goes on believing in the old topic's id for a while
	e.t.Cleanup(e.client.Close)
}

// Leader waits until the partition has a leader and returns its node. Nodes count from 1 on the real broker, from 0 on kfake.
func (e *Endpoint) Leader(topic string, partition int32) int {
	e.t.Helper()
	var node int
	e.Until(fmt.Sprintf("leader of %s-%d", topic, partition), func(ctx context.Context) error {
		all, err := e.leaders(ctx, topic, 0)
		if err != nil {
			return err
		}
		id, ok := all[partition]
		if !ok {
			return fmt.Errorf("no such partition")
		}
		node = int(id)
		return nil
	})
	return node
}

// InSync waits until every partition of every topic has all its replicas in sync, so that a node may be lost again.
func (e *Endpoint) InSync() {
	e.t.Helper()
	e.Until("all replicas in sync", func(ctx context.Context) error {
		resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, e.client)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if len(p.ISR) < len(p.Replicas) {
					return fmt.Errorf("%s-%d has %v of %v in sync", *t.Topic, p.Partition, p.ISR, p.Replicas)
				}
			}
		}
		return nil
	})
}

// leaders returns the leaders of a topic's partitions, of which there must be at least the number given, each with a leader.
func (e *Endpoint) leaders(ctx context.Context, topic string, partitions int) (map[int32]int32, error) {
	return leaders(ctx, e.client, topic, partitions)
}

func leaders(ctx context.Context, asked kmsg.Requestor, topic string, partitions int) (map[int32]int32, error) {
	req, one := kmsg.NewPtrMetadataRequest(), kmsg.NewMetadataRequestTopic()
	one.Topic = &topic
	req.Topics = append(req.Topics, one)
	resp, err := req.RequestWith(ctx, asked)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		return nil, err
	}
	found := make(map[int32]int32)
	for _, p := range resp.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil || p.Leader < 0 {
			return nil, fmt.Errorf("partition %d: leader %d, %w", p.Partition, p.Leader, err)
		}
		found[p.Partition] = p.Leader
	}
	if len(found) < partitions {
		return nil, fmt.Errorf("%d of %d partitions known", len(found), partitions)
	}
	return found, nil
}
