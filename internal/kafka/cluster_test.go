package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"
)

func open(t *testing.T, brokers int, topics ...string) (*kfake.Cluster, *Cluster) {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.SeedTopics(3, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	c, err := Open(t.Context(), Options{Brokers: fake.ListenAddrs()}, topics...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return fake, c
}

func TestClusterKnowsTopicsAndLeaders(t *testing.T) {
	_, c := open(t, 2)
	topic, err := c.Topic(t.Context(), "t")
	if err != nil || len(topic.Partitions) != 3 || topic.ID == [16]byte{} {
		t.Fatalf("topic %+v, %v", topic, err)
	}
	for p := range int32(3) {
		if addr, _, err := c.Leader("t", p); err != nil || addr == "" {
			t.Errorf("leader of t-%d: %q, %v", p, addr, err)
		}
	}
	if _, _, err := c.Leader("t", 9); !errors.Is(err, ErrNoLeader) {
		t.Errorf("leader of t-9: %v", err)
	}
}

func TestAMissingTopicIsNamed(t *testing.T) {
	_, c := open(t, 1)
	_, err := c.Topic(t.Context(), "nope")
	if !errors.Is(err, sarama.ErrUnknownTopicOrPartition) || !strings.Contains(err.Error(), "nope") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Topic(t.Context(), "t"); err != nil {
		t.Errorf("after the failure: %v", err)
	}
}

func TestAnUnreachableBrokerIsToldInOneLine(t *testing.T) {
	_, err := Open(t.Context(), Options{Brokers: []string{"127.0.0.1:1"}})
	if err == nil || !strings.Contains(Describe(err), "nothing listens") {
		t.Errorf("got %v", err)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	fake, c := open(t, 1)
	addr := fake.ListenAddrs()[0]
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := Call(ctx, c, Control, addr, func(b *sarama.Broker) (*sarama.FetchResponse, error) {
		r := &sarama.FetchRequest{Version: 11, MaxWaitTime: 4000, MinBytes: 1 << 20, MaxBytes: 1 << 20}
		r.AddBlock("t", 0, 0, 1<<20, -1)
		return b.Fetch(r)
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Topic(t.Context(), "t"); err != nil {
		t.Errorf("the next request on a new connection: %v", err)
	}
}

func TestListOffsetsAcrossBrokers(t *testing.T) {
	_, c := open(t, 3, "t")
	parts := []TopicPartition{{"t", 0}, {"t", 1}, {"t", 2}}
	for _, at := range []int64{Latest, Earliest} {
		got, err := c.ListOffsets(t.Context(), parts, at, sarama.ReadCommitted)
		if err != nil || len(got) != 3 || got[parts[1]] != 0 {
			t.Errorf("offsets %v, %v", got, err)
		}
	}
}

// TestClassesCoverWhatBrokersWereSeenToAnswer has the codes that each request was answered with by real brokers.
func TestClassesCoverWhatBrokersWereSeenToAnswer(t *testing.T) {
	for r, want := range map[Request]map[int16]Class{
		InitProducerID:     {51: Retry, 14: Refresh, 15: Refresh, 16: Refresh, 7: Retry, 90: Fenced, 50: Stop},
		AddPartitionsToTxn: {51: Retry, 14: Refresh, 15: Refresh, 16: Refresh, 7: Retry, 90: Fenced, 49: Fenced, 55: Stop},
		ProduceBatch:       {19: Retry, 6: Refresh, 7: Retry, 3: Refresh, 5: Refresh, 20: Retry, 47: Fenced, 48: Stop, 45: Stop},
		AddOffsetsToTxn:    {51: Retry, 14: Refresh, 15: Refresh, 16: Refresh, 7: Retry, 90: Fenced, 48: Stop},
		TxnOffsetCommit:    {51: Retry, 14: Refresh, 15: Refresh, 16: Refresh, 7: Retry, 47: Fenced, 25: Stop},
		EndTxn:             {51: Retry, 14: Refresh, 15: Refresh, 16: Refresh, 7: Retry, 90: Witness, 49: Witness, 48: Witness, 47: Witness},
		ListOffsets:        {78: Retry, 6: Refresh, 5: Refresh, 74: Refresh, 75: Retry},
		FetchBatch:         {78: Retry, 6: Refresh, 5: Refresh, 74: Refresh, 75: Retry, 1: Stop},
	} {
		for code, class := range want {
			if got := Classify(r, &Error{Op: "x", Code: sarama.KError(code)}); got != class {
				t.Errorf("request %d, code %d: class %v, want %v", r, code, got, class)
			}
		}
	}
}
