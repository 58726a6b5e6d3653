package consumer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/record"
)

// What a source has lost, an operator of the job may accept. Then its positions that mean nothing any more are left behind,
// as far as it takes to go on, and each is logged. Nothing else is read again or skipped.

// restored returns the positions of a source's partitions in the checkpoint, and where partitions without one start.
func (c *Consumer) restored(s Source, id record.TopicID, partitions int) (found map[int32]record.Position, start int64, err error) {
	found, start = map[int32]record.Position{}, s.Start
	for _, p := range c.opts.Positions {
		if p.Source != s.Name {
			continue
		}
		fault := unusable(p, s, id, partitions)
		switch {
		case fault == nil:
			found[p.Partition] = p
			start = StartEarliest // others were added since the checkpoint
		case !s.AcceptLoss:
			return nil, 0, fault
		default:
			c.opts.Logger.Warn("a position is left behind, as accepted", "source", s.Name, "topic", p.Topic, "partition", p.Partition,
				"offset", p.Offset, "because", fault)
			if p.Topic == s.Topic {
				start = StartEarliest // all in the new topic is new
			}
		}
	}
	return found, start, nil
}

// unusable says why reading cannot go on from a position of a source, nil where it can.
func unusable(p record.Position, s Source, id record.TopicID, partitions int) error {
	switch {
	case p.Topic != s.Topic:
		return &RenamedError{Source: s.Name, Old: p.Topic, New: s.Topic}
	case p.TopicID != id:
		return &RecreatedError{Source: s.Name, Topic: s.Topic, Partition: -1, Old: p.TopicID, New: id}
	case int(p.Partition) >= partitions:
		return &RecreatedError{Source: s.Name, Topic: s.Topic, Partition: p.Partition}
	}
	return nil
}

// orphans looks for positions of sources that the pipeline does not have. One whose topic is now read under another name was
// renamed, most likely by mistake: all of the topic would be read again.
func (c *Consumer) orphans() error {
	positioned := map[string]string{}
	for _, p := range c.opts.Positions {
		positioned[p.Source] = p.Topic
	}
	for _, s := range c.opts.Sources {
		delete(positioned, s.Name)
	}
	for old, topic := range positioned {
		for _, s := range c.opts.Sources {
			if s.Topic == topic && !s.AcceptLoss && !c.positioned(s.Name) {
				return &RenamedSourceError{Topic: topic, Old: old, New: s.Name}
			}
		}
		c.opts.Logger.Warn("the checkpoint has positions of a source that the pipeline does not have; they are left behind", "source", old,
			"topic", topic)
	}
	return nil
}

func (c *Consumer) positioned(source string) bool {
	return slices.ContainsFunc(c.opts.Positions, func(p record.Position) bool { return p.Source == source })
}

// skip moves a partition over a gap that is accepted, and tells its subtask.
func (c *Consumer) skip(p *partition, gap *GapError) {
	c.opts.Logger.Warn("a gap in the input is skipped, as accepted", "source", p.source, "topic", p.topic, "partition", p.at.Partition,
		"from", gap.Wanted, "to", gap.resume(), "because", gap)
	p.next, p.epoch = gap.resume(), -1
	p.push(p.lane.take())
}

// MissingAfter is how long a topic must be gone before that is believed: brokers learn of new topics one after the other.
const MissingAfter = time.Minute

// findMissing looks which source's topic cannot be found, and fails once that lasts. Topics that others need may be missing
// too.
func (c *Consumer) findMissing(ctx context.Context) error {
	for _, s := range c.opts.Sources {
		exists, err := c.cluster.Exists(ctx, s.Topic)
		if err != nil || exists {
			delete(c.missingSince, s.Topic)
			continue // whatever else is wrong with it is tried again
		}
		since, known := c.missingSince[s.Topic]
		if !known {
			since = time.Now()
			c.missingSince[s.Topic] = since
		}
		if time.Since(since) > c.opts.MissingAfter {
			return &MissingError{Source: s.Name, Topic: s.Topic, Since: since}
		}
	}
	return nil
}

// RenamedError says that the positions of a source are in another topic than the pipeline names.
type RenamedError struct{ Source, Old, New string }

// Error names both topics, and the two ways to go on.
func (e *RenamedError) Error() string {
	return fmt.Sprintf("source %s: the checkpoint has its positions in topic %s, but the pipeline names topic %s: name %s again, "+
		"or give the source another name to read both", e.Source, e.Old, e.New, e.Old)
}

// OperatorDecides marks errors that no restart can mend.
func (e *RenamedError) OperatorDecides() bool { return true }

// Loss is the source whose loss may be accepted: the new topic is read from where the source's start says.
func (e *RenamedError) Loss() string { return e.Source }

// RenamedSourceError says that a topic is read by a source of another name than in the checkpoint.
type RenamedSourceError struct{ Topic, Old, New string }

// Error names both sources, and what reading under the new name would do.
func (e *RenamedSourceError) Error() string {
	return fmt.Sprintf("source %s: the checkpoint has positions in its topic %s under the name %s: name the source so again, "+
		"or all of the topic is read anew", e.New, e.Topic, e.Old)
}

// OperatorDecides marks errors that no restart can mend.
func (e *RenamedSourceError) OperatorDecides() bool { return true }

// Loss is the source whose loss may be accepted: the source starts where its start says.
func (e *RenamedSourceError) Loss() string { return e.New }

// MissingError says that the topic of a source has been gone for long.
type MissingError struct {
	Source, Topic string
	Since         time.Time
}

// Error names the topic and since when it is gone.
func (e *MissingError) Error() string {
	return fmt.Sprintf("source %s: topic %s has been gone since %s: create it again, which the next start must be told to accept, "+
		"or take the source out of the pipeline", e.Source, e.Topic, e.Since.Format(time.TimeOnly))
}

// OperatorDecides marks errors that no restart can mend.
func (e *MissingError) OperatorDecides() bool { return true }
