package txsink

import (
	"context"
	"errors"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
)

// sentinelMember is who commits the group's offsets. A broker answers it with 25 where the group has real members, whose
// positions would be overwritten otherwise; an empty member id would be obeyed.
const sentinelMember = "weir"

// commitOffsets puts the positions into the transaction for ordinary tools to see. Weir never reads them back. All
// partitions are committed each time, since an offset not repeated expires although its neighbours are fresh. What goes
// wrong is logged and no reason to fail: the transaction is unharmed.
func (t *Transactions) commitOffsets(ctx context.Context, s *slot, positions []record.Position) error {
	if t.opts.Group == "" || len(positions) == 0 {
		return nil
	}
	err := t.addOffsets(ctx, s)
	if err == nil {
		err = t.commitAsSentinel(ctx, s, positions)
	}
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, sarama.ErrUnknownMemberId) {
		if t.groupTaken.Swap(true) {
			return nil
		}
		t.opts.Logger.Warn("the consumer group has members of its own: the job's offsets are not shown in it; give the job a group to itself",
			"group", t.opts.Group)
		return nil
	}
	if kafka.Classify(kafka.TxnOffsetCommit, err) == kafka.Fenced {
		return fenced(kafka.TxnOffsetCommit, err)
	}
	t.opts.Logger.Warn("the job's offsets are not shown in the consumer group this time", "group", t.opts.Group, "error", err)
	return nil
}

// commitAsSentinel commits as the sentinel member. There are brokers, kfake among them, that answer it with 25 although the
// group has no members: there, from then on, the offsets are committed as nobody.
func (t *Transactions) commitAsSentinel(ctx context.Context, s *slot, positions []record.Position) error {
	if t.asNobody.Load() {
		return t.txnOffsetCommit(ctx, s, positions, "")
	}
	err := t.txnOffsetCommit(ctx, s, positions, sentinelMember)
	if !errors.Is(err, sarama.ErrUnknownMemberId) {
		return err
	}
	if members, askErr := t.groupHasMembers(ctx); members || askErr != nil {
		return errors.Join(err, askErr)
	}
	t.asNobody.Store(true)
	return t.txnOffsetCommit(ctx, s, positions, "")
}

// groupHasMembers asks the group's coordinator. Its list has the groups of all protocols, while DescribeGroups calls those of
// the newer one dead, members or not.
func (t *Transactions) groupHasMembers(ctx context.Context) (members bool, err error) {
	err = t.group.Do(ctx, kafka.FindCoordinator, "look for members of group "+t.opts.Group, t.tried, func(b *sarama.Broker) (sarama.KError, error) {
		resp, err := b.ListGroups(&sarama.ListGroupsRequest{Version: 4})
		if err != nil {
			return 0, err
		}
		_, listed := resp.Groups[t.opts.Group]
		state := resp.GroupsData[t.opts.Group].GroupState
		members = listed && state != "Empty" && state != "Dead"
		return resp.Err, nil
	})
	return members, err
}

func (t *Transactions) addOffsets(ctx context.Context, s *slot) error {
	req := &sarama.AddOffsetsToTxnRequest{
		Version: 3, TransactionalID: s.id, ProducerID: s.last.ProducerID, ProducerEpoch: s.last.Epoch, GroupID: t.opts.Group,
	}
	return s.coordinator.Do(ctx, kafka.AddOffsetsToTxn, "add the group's offsets to the transaction", t.tried,
		func(b *sarama.Broker) (sarama.KError, error) {
			resp, err := b.AddOffsetsToTxn(req)
			if err != nil {
				return 0, err
			}
			return resp.Err, nil
		})
}

func (t *Transactions) txnOffsetCommit(ctx context.Context, s *slot, positions []record.Position, member string) error {
	req := &sarama.TxnOffsetCommitRequest{
		Version: 3, TransactionalID: s.id, GroupID: t.opts.Group, ProducerID: s.last.ProducerID, ProducerEpoch: s.last.Epoch,
		GenerationID: -1, MemberID: member, Topics: map[string][]*sarama.PartitionOffsetMetadata{},
	}
	for _, p := range positions {
		req.Topics[p.Topic] = append(req.Topics[p.Topic], &sarama.PartitionOffsetMetadata{
			Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch,
		})
	}
	return t.group.Do(ctx, kafka.TxnOffsetCommit, "commit the group's offsets", t.tried, func(b *sarama.Broker) (sarama.KError, error) {
		resp, err := b.TxnOffsetCommit(req)
		if err != nil {
			return 0, err
		}
		return worst(resp.Topics), nil
	})
}
