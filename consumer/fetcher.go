package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/internal/seldom"
)

// fetcher reads the partitions that one broker leads. Its goroutine owns the partitions that it holds.
type fetcher struct {
	consumer *Consumer
	addr     string
	wake     chan struct{}
	fails    seldom.Log
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
		parts, paused := f.wanted()
		if len(parts) == 0 {
			select {
			case <-f.wake:
			case <-ctx.Done():
			}
			continue
		}
		maxWait := f.consumer.opts.MaxWait
		if paused {
			maxWait = min(maxWait, pausedWait)
		}
		if err := f.fetch(ctx, parts, maxWait); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// wanted returns the held partitions whose lane has room, and whether some were left out. A broker fills its response from
// the front of the request; the order there is that of a map, so no partition is always last.
func (f *fetcher) wanted() (parts []*partition, paused bool) {
	for _, p := range f.holding() {
		if p.lane.full() {
			paused = true
			continue
		}
		parts = append(parts, p)
	}
	return parts, paused
}

// retryPause is the wait after an answer that asks for one.
const retryPause = 20 * time.Millisecond

// fetch makes one request and hands on what comes. Only errors that end the consumer are returned.
func (f *fetcher) fetch(ctx context.Context, parts []*partition, maxWait time.Duration) error {
	resp, err := f.request(ctx, parts, maxWait)
	if err != nil {
		return f.failed(ctx, parts, err)
	}
	if code := sarama.KError(resp.ErrorCode); code != sarama.ErrNoError {
		return f.failed(ctx, parts, &kafka.Error{Op: "fetch from broker " + f.addr, Code: code})
	}
	f.fails.Over(f.consumer.opts.Logger, "fetching again", "broker", f.addr)
	keep := planCopies(parts, resp)
	left := map[*partition]bool{}
	pause := false
	for _, p := range parts {
		class, err := f.take(ctx, p, resp.GetBlock(p.topic, p.at.Partition), keep)
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

// sessionless is the epoch of a fetch that opens no fetch session on the broker: with the zero value each request would
// take a slot of the broker's session cache (KIP-227).
const sessionless = -1

func (f *fetcher) request(ctx context.Context, parts []*partition, maxWait time.Duration) (*sarama.FetchResponse, error) {
	req := &sarama.FetchRequest{
		Version: 11, MaxWaitTime: int32(maxWait / time.Millisecond), MinBytes: 1, MaxBytes: maxFetchBytes,
		Isolation: sarama.ReadCommitted, SessionEpoch: sessionless,
	}
	for _, p := range parts {
		req.AddBlock(p.topic, p.at.Partition, p.next, p.maxBytes, p.leaderEpoch)
	}
	return kafka.Call(ctx, f.consumer.cluster, kafka.Fetch, f.addr, func(b *sarama.Broker) (*sarama.FetchResponse, error) { return b.Fetch(req) })
}

// failed gives all partitions up after an error of the connection.
func (f *fetcher) failed(ctx context.Context, parts []*partition, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.consumer.errors.count(err)
	if kafka.Undecodable(err) {
		return f.isolate(ctx, parts, err)
	}
	if kafka.Classify(kafka.FetchBatch, err) == kafka.Stop {
		return err
	}
	f.fails.Warn(f.consumer.opts.Logger, "fetch failed, looking for the leaders again", "error", err)
	left := map[*partition]bool{}
	for _, p := range parts {
		left[p] = true
	}
	f.leave(left)
	return nil
}

// undecodableTries is how often a partition that cannot be decoded is fetched again: damage may be on the way only.
const undecodableTries = 3

// isolate finds the partition that made a whole response undecodable, by fetching each one alone.
func (f *fetcher) isolate(ctx context.Context, parts []*partition, err error) error {
	if len(parts) > 1 {
		for _, p := range parts {
			if err := f.fetch(ctx, []*partition{p}, pausedWait); err != nil {
				return err
			}
		}
		return nil
	}
	p := parts[0]
	if p.undecodable++; p.undecodable < undecodableTries {
		return kafka.Sleep(ctx, retryPause)
	}
	return p.unreadable(err)
}

// take hands on the answer for one partition and classes it.
func (f *fetcher) take(ctx context.Context, p *partition, block *sarama.FetchResponseBlock, keep copies) (kafka.Class, error) {
	if block == nil { // the response was full before its turn came
		return kafka.OK, nil
	}
	if block.Err != sarama.ErrNoError {
		tp := kafka.TopicPartition{Topic: p.topic, Partition: p.at.Partition}
		err := &kafka.Error{Op: "fetch " + tp.String(), Code: block.Err}
		f.consumer.errors.count(err)
		if block.Err == sarama.ErrOffsetOutOfRange {
			return f.consumer.gap(ctx, p)
		}
		return kafka.Classify(kafka.FetchBatch, err), err
	}
	p.undecodable = 0
	p.stats.highWatermark.Store(block.HighWaterMarkOffset)
	p.stats.lastStable.Store(block.LastStableOffset)
	moved, err := p.convert(block, keep.of(p))
	switch {
	case err != nil:
		return kafka.Stop, err
	case moved:
		p.maxBytes = f.consumer.opts.FetchBytes
	case block.Partial || len(block.RecordsSet) > 0:
		if p.maxBytes == maxFetchBytes {
			return kafka.Stop, p.unreadable(errTooLarge)
		}
		p.maxBytes = min(2*p.maxBytes, maxFetchBytes) // a record batch larger than what was asked for
	}
	return kafka.OK, nil
}
