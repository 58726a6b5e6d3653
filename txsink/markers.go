package txsink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
)

// Release makes sure that the last transaction of a slot, committed under id, has its marker in every partition, so that
// the slot may be used again. Kafka 4.3 can complete a transaction without the marker of a partition that has no leader at
// that moment (KAFKA-20734): its records stay undecided, and the next transaction of the id would decide them, perhaps
// the other way.
func (t *Transactions) Release(ctx context.Context, i int, id record.Identity) error {
	defer t.took(StepMarkers, time.Now())
	s := &t.slots[i]
	written := map[kafka.TopicPartition]int64{}
	if t.opts.LastOffsets != nil {
		written = t.opts.LastOffsets(id)
	}
	if s.witness >= 0 {
		written[kafka.TopicPartition{Topic: t.opts.Ledger}] = s.witness
	}
	if id.Epoch >= lastEpoch {
		if err := t.awaitMarkers(ctx, written); err != nil {
			return err
		}
	}
	if err := t.initialise(ctx, s, id); err != nil {
		return err
	}
	behind, err := t.behind(ctx, written)
	if err != nil || len(behind) == 0 {
		return err
	}
	return t.repair(ctx, behind, func(record.Identity) bool { return true })
}

// lastEpoch is the highest that Kafka hands out (Short.MAX_VALUE - 1); the next identity has another producer id, and with
// it a marker that is missing could not be written any more.
const lastEpoch = 32766

// awaitMarkers waits until the last stable offset of each partition has passed the given one.
func (t *Transactions) awaitMarkers(ctx context.Context, written map[kafka.TopicPartition]int64) error {
	return kafka.Repeat(ctx, "wait for the markers of a transaction", func() error {
		behind, err := t.behind(ctx, written)
		if err == nil && len(behind) > 0 {
			err = &undecidedError{behind}
		}
		return err
	}, func(err error) bool { return errors.As(err, new(*undecidedError)) })
}

// undecidedError names partitions in which a transaction has no marker yet.
type undecidedError struct{ partitions []kafka.TopicPartition }

func (e *undecidedError) Error() string {
	return fmt.Sprintf("a transaction is undecided in %v", e.partitions)
}

// behind returns the partitions whose last stable offset has not passed the given offset.
func (t *Transactions) behind(ctx context.Context, past map[kafka.TopicPartition]int64) ([]kafka.TopicPartition, error) {
	if len(past) == 0 {
		return nil, nil
	}
	stable, err := t.cluster.ListOffsets(ctx, slices.Collect(maps.Keys(past)), kafka.Latest, sarama.ReadCommitted)
	var behind []kafka.TopicPartition
	for p, o := range stable {
		if o <= past[p] {
			behind = append(behind, p)
		}
	}
	return behind, err
}

// undecided returns the partitions of the job that hold records whose transaction, anybody's, is not ended.
func (t *Transactions) undecided(ctx context.Context) ([]kafka.TopicPartition, error) {
	high, err := t.cluster.ListOffsets(ctx, t.partitions, kafka.Latest, sarama.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	for p := range high {
		high[p]-- // the last record
	}
	return t.behind(ctx, high)
}

// repair ends what is stuck in partitions: an empty transaction of the same transactional id that covers the partition
// puts the missing marker there. committed says for the identity of a stuck record whether its transaction was committed.
// No slot may have an open transaction of its own in these partitions under the stuck producer id, which holds after
// InitProducerId. Partitions held back by other producers are left alone.
func (t *Transactions) repair(ctx context.Context, parts []kafka.TopicPartition, committed func(record.Identity) bool) error {
	for _, p := range parts {
		open, err := t.openProducers(ctx, p)
		if err != nil {
			return err
		}
		for _, o := range open {
			s := t.slotOfProducer(o.ProducerID)
			if s == nil || !s.fresh {
				continue // another producer's, or a transaction that is open in its own right
			}
			o.TransactionalID = s.id
			if err := t.repairOne(ctx, s, p, committed(o)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Transactions) repairOne(ctx context.Context, s *slot, p kafka.TopicPartition, commit bool) error {
	t.opts.Logger.Warn("a transaction was ended without its marker in one partition; writing the marker", "partition", p.String(),
		"transactional_id", s.id, "commit", commit)
	if err := t.addPartitions(ctx, s, []kafka.TopicPartition{p}); err != nil {
		return fmt.Errorf("repair of %v: %w", p, err)
	}
	s.fresh = false
	if err := t.end(ctx, s, s.last, commit); err != nil {
		return fmt.Errorf("repair of %v: %w", p, err)
	}
	return t.initialise(ctx, s, s.last)
}

func (t *Transactions) slotOfProducer(pid int64) *slot {
	for _, s := range t.all() {
		if s.last.ProducerID == pid {
			return s
		}
	}
	return nil
}

// openProducers returns the identities, without their ids, that have undecided records in a partition.
func (t *Transactions) openProducers(ctx context.Context, p kafka.TopicPartition) ([]record.Identity, error) {
	var open []record.Identity
	err := kafka.Repeat(ctx, "ask for the producers of "+p.String(), func() (err error) {
		open, err = t.askProducers(ctx, p)
		return err
	}, func(err error) bool { return t.again(ctx, kafka.ListOffsets, err, p.Topic) })
	return open, err
}

func (t *Transactions) askProducers(ctx context.Context, p kafka.TopicPartition) ([]record.Identity, error) {
	addr, _, err := t.cluster.Leader(p.Topic, p.Partition)
	if err != nil {
		return nil, err
	}
	req := &sarama.DescribeProducersRequest{Topics: []sarama.DescribeProducersRequestTopic{{Name: p.Topic, PartitionIndexes: []int32{p.Partition}}}}
	resp, err := kafka.Call(ctx, t.cluster, kafka.Control, addr, func(b *sarama.Broker) (*sarama.DescribeProducersResponse, error) {
		return b.DescribeProducers(req)
	})
	if err != nil {
		return nil, err
	}
	var open []record.Identity
	for _, topic := range resp.Topics {
		for _, part := range topic.Partitions {
			if part.ErrorCode != sarama.ErrNoError {
				return nil, &kafka.Error{Op: "ask for the producers of " + p.String(), Code: part.ErrorCode}
			}
			for _, x := range part.ActiveProducers {
				if x.CurrentTxnStartOffset >= 0 {
					open = append(open, record.Identity{ProducerID: x.ProducerID, Epoch: int16(x.ProducerEpoch)})
				}
			}
		}
	}
	return open, nil
}
