package verify

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

// Feeder writes generated views to a topic, at a steady rate and with an idempotent producer, so that the views of a user
// stay in order through retries.
type Feeder struct {
	topic    string
	producer sarama.AsyncProducer
	// Sent and Acknowledged count records.
	Sent, Acknowledged atomic.Int64
	failed             chan error
}

// NewFeeder connects to the cluster.
func NewFeeder(brokers []string, conf *sarama.Config, topic string) (*Feeder, error) {
	c := *conf
	c.Producer.RequiredAcks, c.Producer.Idempotent, c.Net.MaxOpenRequests = sarama.WaitForAll, true, 1
	c.Producer.Retry.Max, c.Producer.Retry.Backoff = 300, 200*time.Millisecond
	c.Producer.Return.Successes, c.Producer.Return.Errors = true, true
	c.Producer.Flush.Frequency, c.Producer.Flush.MaxMessages = 5*time.Millisecond, 1000
	producer, err := sarama.NewAsyncProducer(brokers, &c)
	if err != nil {
		return nil, fmt.Errorf("connecting to %v: %w", brokers, err)
	}
	f := &Feeder{topic: topic, producer: producer, failed: make(chan error, 1)}
	go f.acknowledge()
	return f, nil
}

// acknowledge counts answers until the producer is closed.
func (f *Feeder) acknowledge() {
	defer close(f.failed)
	successes, failures := f.producer.Successes(), f.producer.Errors()
	var first error
	for successes != nil || failures != nil {
		select {
		case _, ok := <-successes:
			if !ok {
				successes = nil
				continue
			}
			f.Acknowledged.Add(1)
		case e, ok := <-failures:
			if !ok {
				failures = nil
				continue
			}
			if first == nil {
				first = fmt.Errorf("writing to %s: %w", f.topic, e.Err)
			}
		}
	}
	if first != nil {
		f.failed <- first
	}
}

const feedTick = 10 * time.Millisecond

// Feed writes views from g, rate a second (0: as fast as the cluster takes them), until ctx ends or so many are sent (0: no
// bound). When it returns, every view that it sent is acknowledged; an error says why not.
func (f *Feeder) Feed(ctx context.Context, g *Generator, rate, count int) error {
	start, tick := time.Now(), time.NewTicker(feedTick)
	defer tick.Stop()
	for sent := 0; count == 0 || sent < count; sent++ {
		for rate > 0 && float64(sent) >= time.Since(start).Seconds()*float64(rate) && ctx.Err() == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			break
		}
		key, value := g.Next()
		f.producer.Input() <- &sarama.ProducerMessage{Topic: f.topic, Key: sarama.ByteEncoder(key), Value: sarama.ByteEncoder(value)}
		f.Sent.Add(1)
	}
	return f.close()
}

// close waits for all answers.
func (f *Feeder) close() error {
	f.producer.AsyncClose()
	return <-f.failed
}
