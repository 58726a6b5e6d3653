package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"
)

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is topic and number as Kafka's tools write them: views-3.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// Which offset ListOffsets asks for, beside a time in milliseconds since the Unix epoch.
const (
	Latest   = sarama.OffsetNewest
	Earliest = sarama.OffsetOldest
)

// ListOffsets returns, for each partition, its first or last offset or the first one at or after a time (-1 where there is
// none). With sarama.ReadCommitted the last offset is the last stable one. It asks again while leaders move, until ctx
// ends.
func (c *Cluster) ListOffsets(ctx context.Context, parts []TopicPartition, at int64, isolation sarama.IsolationLevel) (map[TopicPartition]int64, error) {
	found := make(map[TopicPartition]int64, len(parts))
	try := func() error {
		err := c.listOnce(ctx, parts, at, isolation, found)
		switch {
		case len(found) == len(parts):
			return nil
		case err == nil:
			return errIncomplete
		}
		return err
	}
	err := Repeat(ctx, "list offsets", try, func(err error) bool {
		class := Classify(ListOffsets, err)
		if class == Refresh {
			_ = c.Refresh(ctx, topicsOf(parts)...) // the next try tells
		}
		return class < Fenced
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

var errIncomplete = errors.New("a response does not mention a partition that it was asked for")

func topicsOf(parts []TopicPartition) []string {
	topics := make([]string, len(parts))
	for i, p := range parts {
		topics[i] = p.Topic
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// listOnce asks each leader for what is not found yet, and returns the gravest error.
func (c *Cluster) listOnce(ctx context.Context, parts []TopicPartition, at int64, isolation sarama.IsolationLevel, found map[TopicPartition]int64) error {
	requests := map[string]*sarama.OffsetRequest{}
	var worst error
	note := func(err error) {
		if Classify(ListOffsets, err) > Classify(ListOffsets, worst) {
			worst = err
		}
	}
	for _, p := range parts {
		if _, have := found[p]; have {
			continue
		}
		addr, _, err := c.Leader(p.Topic, p.Partition)
		if err != nil {
			note(err)
			continue
		}
		if requests[addr] == nil {
			requests[addr] = &sarama.OffsetRequest{Version: 5, IsolationLevel: isolation}
		}
		requests[addr].AddBlock(p.Topic, p.Partition, at, 1)
	}
	for addr, req := range requests {
		resp, err := Call(ctx, c, Control, addr, func(b *sarama.Broker) (*sarama.OffsetResponse, error) { return b.GetAvailableOffsets(req) })
		if err != nil {
			note(fmt.Errorf("list offsets: %w", err))
			continue
		}
		note(collect(resp, found))
	}
	return worst
}

func collect(resp *sarama.OffsetResponse, found map[TopicPartition]int64) error {
	var errs []error
	for topic, blocks := range resp.Blocks {
		for p, b := range maps.All(blocks) {
			tp := TopicPartition{topic, p}
			if b.Err != sarama.ErrNoError {
				errs = append(errs, &Error{Op: "list the offsets of " + tp.String(), Code: b.Err})
				continue
			}
			found[tp] = b.Offset
		}
	}
	return errors.Join(errs...)
}
