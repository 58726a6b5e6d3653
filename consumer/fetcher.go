package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
)

// fetcher reads the partitions that one broker leads. Its goroutine owns the partitions that it holds.
type fetcher struct {
	consumer *Consumer
	addr     string
	wake     chan struct{}
	mu       struct {
		sync.Mutex
		held []*partition
	}
}

func newFetcher(c *Consumer, addr string) *fetcher {
	return &fetcher{consumer: c, addr: addr, wake: make(chan struct{}, 1)}
}

func (f *fetcher) kick() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *fetcher) give(p *partition) {
	f.mu.Lock()
	f.mu.held = append(f.mu.held, p)
	f.mu.Unlock()
	f.kick()
}

func (f *fetcher) holding() []*partition {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*partition(nil), f.mu.held...)
}

// leave gives up partitions; the manager finds them a new holder.
func (f *fetcher) leave(left map[*partition]bool) {
	if len(left) == 0 {
		return
	}
	f.mu.Lock()
	var kept []*partition
	for _, p := range f.mu.held {
		if !left[p] {
			kept = append(kept, p)
		}
	}
	f.mu.held = kept
	f.mu.Unlock()
	f.consumer.giveUp()
}

func (f *fetcher) run(ctx context.Context) error {
	for ctx.Err() == nil {
		parts := f.wanted()
		if len(parts) == 0 {
			select {
			case <-f.wake:
			case <-ctx.Done():
			}
			continue
		}
		if err := f.fetch(ctx, parts); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// wanted returns the held partitions whose lane has room. A broker fills its response from the front of the request;
// the order there is that of a map, so no partition is always last.
func (f *fetcher) wanted() []*partition {
	var parts []*partition
	for _, p := range f.holding() {
		if !p.lane.full() {
			parts = append(parts, p)
		}
	}
	return parts
}

// retryPause is the wait after an answer that asks for one.
const retryPause = 20 * time.Millisecond

// fetch makes one request and hands on what comes. Only errors that end the consumer are returned.
func (f *fetcher) fetch(ctx context.Context, parts []*partition) error {
	o := &f.consumer.opts
	req := &sarama.FetchRequest{
		Version: 11, MaxWaitTime: int32(o.MaxWait / time.Millisecond), MinBytes: 1, MaxBytes: maxFetchBytes, Isolation: sarama.ReadCommitted,
	}
	for _, p := range parts {
		req.AddBlock(p.topic, p.at.Partition, p.next, p.maxBytes, p.leaderEpoch)
	}
	resp, err := kafka.Call(ctx, f.consumer.cluster, kafka.Fetch, f.addr, func(b *sarama.Broker) (*sarama.FetchResponse, error) { return b.Fetch(req) })
	if err != nil {
		return f.failed(ctx, parts, err)
	}
	left := map[*partition]bool{}
	pause := false
	for _, p := range parts {
		class, err := f.take(ctx, p, resp.GetBlock(p.topic, p.at.Partition))
		switch class {
		case kafka.OK:
		case kafka.Retry:
			pause = true
		case kafka.Refresh:
			left[p] = true
		default:
			return err
		}
	}
	f.leave(left)
	if pause {
		return kafka.Sleep(ctx, retryPause)
	}
	return nil
}

// failed gives all partitions up after an error of the connection.
func (f *fetcher) failed(ctx context.Context, parts []*partition, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if kafka.Classify(kafka.FetchBatch, err) == kafka.Stop {
		return err
	}
	f.consumer.opts.Logger.Debug("fetch failed, looking for the leaders again", "broker", f.addr, "error", err)
	left := map[*partition]bool{}
	for _, p := range parts {
		left[p] = true
	}
	f.leave(left)
	return nil
}

// take hands on the answer for one partition and classes it.
func (f *fetcher) take(ctx context.Context, p *partition, block *sarama.FetchResponseBlock) (kafka.Class, error) {
	if block == nil { // the response was full before its turn came
		return kafka.OK, nil
	}
	if block.Err == sarama.ErrOffsetOutOfRange {
		return kafka.Stop, f.consumer.gap(ctx, p)
	}
	if block.Err != sarama.ErrNoError {
		tp := kafka.TopicPartition{Topic: p.topic, Partition: p.at.Partition}
		err := &kafka.Error{Op: "fetch " + tp.String(), Code: block.Err}
		return kafka.Classify(kafka.FetchBatch, err), err
	}
	p.stats.highWatermark.Store(block.HighWaterMarkOffset)
	p.stats.lastStable.Store(block.LastStableOffset)
	switch {
	case p.convert(block):
		p.maxBytes = f.consumer.opts.FetchBytes
	case block.Partial || len(block.RecordsSet) > 0:
		p.maxBytes = min(2*p.maxBytes, maxFetchBytes) // a record batch larger than what was asked for
	}
	return kafka.OK, nil
}
