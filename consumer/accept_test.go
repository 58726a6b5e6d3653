package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirstream/weir/record"
)

// idOf is the topic id of the fixture's topic.
func (f *fixture) idOf(t *testing.T) record.TopicID {
	t.Helper()
	topic, err := f.cluster.Topic(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	return record.TopicID(topic.ID)
}

// TestPositionsThatMeanNothing takes each kind of position that the topic does not have, refused and accepted.
func TestPositionsThatMeanNothing(t *testing.T) {
	f := newFixture(t)
	f.produce(t, 0, 10)
	good := record.Position{Source: "src", Topic: "in", TopicID: f.idOf(t), Partition: 0, Offset: 5, LeaderEpoch: -1}
	for name, c := range map[string]struct {
		change func(*record.Position)
		want   any
		loss   string
		// start is where partition 0 starts once the loss is accepted; the source's own start is the end, 10.
		start int64
	}{
		"another topic":     {func(p *record.Position) { p.Topic = "other" }, new(*RenamedError), "src", 10},
		"another id":        {func(p *record.Position) { p.TopicID[3]++ }, new(*RecreatedError), "src", 0},
		"no such partition": {func(p *record.Position) { p.Partition = 7 }, new(*RecreatedError), "src", 0},
		"another name":      {func(p *record.Position) { p.Source = "old" }, new(*RenamedSourceError), "src", 10},
	} {
		p := good
		c.change(&p)
		o := f.options([]record.Position{p})
		o.Sources[0].Name, o.Sources[0].Start = "src", StartLatest
		_, err := New(t.Context(), f.cluster, o)
		var lost interface {
			Loss() string
			OperatorDecides() bool
		}
		if !errors.As(err, c.want) || !errors.As(err, &lost) || lost.Loss() != c.loss || !lost.OperatorDecides() {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o.Sources[0].AcceptLoss = true
		cons, err := New(t.Context(), f.cluster, o)
		if err != nil {
			t.Errorf("%s, accepted: %v", name, err)
			continue
		}
		if got := cons.position(record.SourcePartition{}); got.Offset != c.start || got.Topic != "in" || got.TopicID != good.TopicID {
			t.Errorf("%s, accepted: starts at %+v, want offset %d", name, got, c.start)
		}
	}
}

// TestAnAcceptedGapIsSkipped goes on where the log begins, or ends, and tells the subtask by a batch without records.
func TestAnAcceptedGapIsSkipped(t *testing.T) {
	for name, c := range map[string]struct{ offset, resume int64 }{"removed": {2, 4}, "truncated": {50, 10}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.produce(t, 0, 10)
			if err := f.fake.DeleteRecords("in", 0, 4); err != nil {
				t.Fatal(err)
			}
			o := f.options([]record.Position{{Source: "src", Topic: "in", TopicID: f.idOf(t), Offset: c.offset, LeaderEpoch: -1}})
			o.Sources[0].AcceptLoss = true
			cons, err := New(t.Context(), f.cluster, o)
			if err != nil {
				t.Fatal(err)
			}
			f.run(t, cons)
			for {
				b := cons.Lane(0).Poll()
				if b == nil {
					<-f.woken
					continue
				}
				if b.At.Partition == 0 {
					if b.Next != c.resume || len(b.Records) > 0 {
						t.Errorf("the first batch has %d records and leads to offset %d, want none and %d", len(b.Records), b.Next, c.resume)
					}
					return
				}
				cons.Lane(0).Release(b)
			}
		})
	}
}

// TestATopicThatStaysAwayEndsTheConsumer deletes a topic that is read.
func TestATopicThatStaysAwayEndsTheConsumer(t *testing.T) {
	f := newFixture(t)
	f.produce(t, 0, 10)
	o := f.options(nil)
	o.Discovery, o.MissingAfter = 10*time.Millisecond, 100*time.Millisecond
	c, err := New(t.Context(), f.cluster, o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() { ended <- c.Run(ctx) }()
	if err := f.fake.DeleteTopic("in"); err != nil {
		t.Fatal(err)
	}
	var missing *MissingError
	if err := <-ended; !errors.As(err, &missing) || missing.Topic != "in" {
		t.Errorf("Run returned %v", err)
	}
}
