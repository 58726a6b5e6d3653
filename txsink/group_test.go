package txsink_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/tests/kafkatest"
	"github.com/weirstream/weir/txsink"
)

// warnings counts what is logged as a warning.
type warnings struct{ atomic.Int64 }

// Enabled implements slog.Handler.
func (*warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle implements slog.Handler.
func (w *warnings) Handle(context.Context, slog.Record) error {
	w.Add(1)
	return nil
}

// WithAttrs implements slog.Handler.
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w *warnings) WithGroup(string) slog.Handler { return w }

// groupStand is a stand that commits offsets of a topic of two partitions to its group.
type groupStand struct {
	*stand
	in, group string
	client    *kgo.Client
	warnings  warnings
}

func newGroupStand(t *testing.T, e *kafkatest.Endpoint) *groupStand {
	t.Helper()
	s := &groupStand{stand: newStand(t, e), in: e.CreateTopic("in", 2)}
	s.group, s.logger = s.ledger+"-group", slog.New(&s.warnings)
	s.client = s.join()
	return s
}

func (s *groupStand) join(opts ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(s.e.Brokers()...))...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// commitOffsets commits two checkpoints, each with its offset for both partitions.
func (s *groupStand) commitOffsets(first, second int64) {
	s.t.Helper()
	ids := []record.Identity{s.open(0), s.open(1), {}}
	s.lane.Begin(ids[0])
	for i, offset := range []int64{first, second} {
		n := record.CheckpointID(i + 1)
		s.finish(n, ids[i+1])
		w := witness(n, ids[i])
		w.Positions = []record.Position{{Topic: s.in, Partition: 0, Offset: offset}, {Topic: s.in, Partition: 1, Offset: offset}}
		if err := s.txns.Commit(s.t.Context(), txsink.PermitFor(s.t, n, ids[i]), w); err != nil {
			s.t.Fatal(err)
		}
	}
}

// wantShown waits until the group's offset of both partitions is the given one.
func (s *groupStand) wantShown(want int64) {
	s.t.Helper()
	s.e.Until(fmt.Sprintf("the group's offsets at %d", want), func(ctx context.Context) error {
		req, one, part := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic()
		part.Topic, part.Partitions = s.in, []int32{0, 1}
		one.Group, one.Topics = s.group, append(one.Topics, part)
		req.Groups, req.RequireStable = append(req.Groups, one), true
		resp, err := req.RequestWith(ctx, s.client)
		if err != nil {
			return err
		}
		n := 0
		for _, g := range resp.Groups {
			for _, x := range g.Topics {
				for _, p := range x.Partitions {
					if p.Offset == want {
						n++
					}
				}
			}
		}
		if n != 2 {
			return fmt.Errorf("%+v", resp.Groups)
		}
		return nil
	})
}

// acceptGroup is what must hold of the group's offsets on every broker.
func acceptGroup(t *testing.T, e *kafkatest.Endpoint) {
	t.Run("Rule21AllPositionsAreShownEachTime", func(t *testing.T) {
		s := newGroupStand(t, e)
		s.attempt()
		s.commitOffsets(7, 8)
		s.wantShown(8)
		s.attempt() // the broker knows the group by now
		s.commitOffsets(9, 10)
		s.wantShown(10)
		if n := s.warnings.Load(); n != 0 {
			t.Errorf("%d warnings about a group without members", n)
		}
	})
	t.Run("Rule20OffsetsOfMembersAreLeftAlone", func(t *testing.T) {
		s := newGroupStand(t, e)
		member := s.join(kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.in), kgo.DisableAutoCommit())
		e.Until("a member", func(ctx context.Context) error {
			polling, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			member.PollFetches(polling)
			if id, _ := member.GroupMetadata(); id == "" {
				return fmt.Errorf("the member has not joined")
			}
			return nil
		})
		err := member.CommitRecords(t.Context(), &kgo.Record{Topic: s.in, Partition: 0, Offset: 4}, &kgo.Record{Topic: s.in, Partition: 1, Offset: 4})
		if err != nil {
			t.Fatal(err)
		}
		s.attempt()
		s.commitOffsets(9, 10)
		e.Settled(s.outputs[0].Topic)
		s.wantShown(5)
		if n := s.warnings.Load(); n != 1 {
			t.Errorf("%d warnings about a group with members, want 1", n)
		}
	})
}

func TestGroupOnFake(t *testing.T) { acceptGroup(t, kafkatest.Fake(t).Endpoint) }
