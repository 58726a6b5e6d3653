package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
)

// Run reads until ctx ends or something happens that only an operator can mend. It is called once.
func (c *Consumer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.manage(ctx, g) })
	return g.Wait()
}

// unheldPause is how long the manager leaves a partition that has no leader alone.
const unheldPause = 100 * time.Millisecond

// manage gives partitions to fetchers and looks for new ones.
func (c *Consumer) manage(ctx context.Context, g *errgroup.Group) error {
	discovery := time.NewTicker(c.opts.Discovery)
	defer discovery.Stop()
	for {
		again := c.assign(ctx, g)
		var retry <-chan time.Time
		if again {
			retry = time.After(unheldPause)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-retry:
		case <-c.lost:
		case <-discovery.C:
		}
		if err := c.refresh(ctx); err != nil {
			return err
		}
	}
}

// assign gives each partition without a holder to the fetcher of its leader. It reports whether some remain.
func (c *Consumer) assign(ctx context.Context, g *errgroup.Group) (remain bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := map[*partition]bool{}
	for _, f := range c.mu.fetchers {
		for _, p := range f.holding() {
			held[p] = true
		}
	}
	for _, p := range c.mu.parts {
		if held[p] {
			continue
		}
		addr, epoch, err := c.cluster.Leader(p.topic, p.at.Partition)
		if err != nil {
			remain = true
			continue
		}
		f := c.mu.fetchers[addr]
		if f == nil {
			f = newFetcher(c, addr)
			c.mu.fetchers[addr] = f
			g.Go(func() error { return f.run(ctx) })
		}
		p.leaderEpoch = epoch
		f.give(p)
	}
	return remain
}

// refresh looks at the metadata again: for leaders, for new partitions, and whether topics are still the same.
func (c *Consumer) refresh(ctx context.Context) error {
	if err := c.cluster.Refresh(ctx, c.opts.topics()...); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if kafka.Permanent(err) || errors.Is(err, sarama.ErrTopicAuthorizationFailed) {
			return fmt.Errorf("metadata of the sources: %w", err)
		}
		c.noMetadata.Warn(c.opts.Logger, "metadata of the sources is not to be had, trying again", "error", err)
		if errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
			return c.findMissing(ctx)
		}
		return nil
	}
	c.noMetadata.Over(c.opts.Logger, "the metadata of the sources is there again")
	clear(c.missingSince)
	for i, s := range c.opts.Sources {
		if err := c.discover(ctx, int32(i), s); err != nil {
			return err
		}
	}
	return nil
}

func (c *Consumer) discover(ctx context.Context, source int32, s Source) error {
	topic, err := c.cluster.Topic(ctx, s.Topic)
	if err != nil {
		return fmt.Errorf("source %s: %w", s.Name, err)
	}
	if id := record.TopicID(topic.ID); id != c.ids[source] {
		return &RecreatedError{Source: s.Name, Topic: s.Topic, Partition: -1, Old: c.ids[source], New: id}
	}
	var added []int32
	c.mu.Lock()
	for p := range int32(len(topic.Partitions)) {
		if c.mu.byAt[record.SourcePartition{Source: source, Partition: p}] == nil {
			added = append(added, p)
		}
	}
	c.mu.Unlock()
	if len(added) == 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	starts, err := c.starts(asking, s, added, kafka.Earliest)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		c.noLeader.Warn(c.opts.Logger, "new partitions have no leader yet, trying again", "source", s.Name, "topic", s.Topic, "partitions", added)
		return nil
	}
	if err != nil {
		return fmt.Errorf("source %s: new partitions: %w", s.Name, err)
	}
	for _, p := range added {
		c.opts.Logger.Info("a partition was added", "source", s.Name, "topic", s.Topic, "partition", p, "offset", starts[p])
		part := c.add(source, record.Position{Source: s.Name, Topic: s.Topic, TopicID: c.ids[source], Partition: p, Offset: starts[p], LeaderEpoch: -1})
		part.push(part.lane.take()) // no records: from here on the subtask knows of it, and so do its checkpoints
	}
	return nil
}

// giveUp tells the manager that partitions are without a holder.
func (c *Consumer) giveUp() {
	select {
	case c.lost <- struct{}{}:
	default:
	}
}

// kickAll wakes the fetchers: a lane has room again.
func (c *Consumer) kickAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.mu.fetchers {
		f.kick()
	}
}
