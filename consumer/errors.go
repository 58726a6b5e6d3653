package consumer

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/record"
)

// GapError says that the offsets to be read next are not in the log: retention has removed them, or the log was truncated.
type GapError struct {
	Source, Topic string
	Partition     int32
	// Wanted is the next offset to read; the log holds First up to, but not including, End.
	Wanted, First, End int64
}

// Error names the partition and the offsets that are gone.
func (e *GapError) Error() string {
	if e.Wanted < e.First {
		return fmt.Sprintf("source %s: %s-%d starts at offset %d, but the job has read up to %d: records %d to %d are gone",
			e.Source, e.Topic, e.Partition, e.First, e.Wanted, e.Wanted, e.First-1)
	}
	return fmt.Sprintf("source %s: %s-%d ends at offset %d, but the job has read up to %d: the log was truncated",
		e.Source, e.Topic, e.Partition, e.End, e.Wanted)
}

// OperatorDecides marks errors that no restart can mend.
func (e *GapError) OperatorDecides() bool { return true }

// Loss is the source whose loss may be accepted: reading goes on over the gap, without the records that are gone.
func (e *GapError) Loss() string { return e.Source }

// resume is where the log goes on.
func (e *GapError) resume() int64 {
	if e.Wanted < e.First {
		return e.First
	}
	return e.End
}

// RecreatedError says that a topic is not the one that the positions belong to.
type RecreatedError struct {
	Source, Topic string
	// Partition is one that is missing, or -1 where the topic's id has changed from Old to New.
	Partition int32
	Old, New  record.TopicID
}

// Error names what has changed: the id of the topic, or the partition that it lacks.
func (e *RecreatedError) Error() string {
	if e.Partition >= 0 {
		return fmt.Sprintf("source %s: %s-%d has a position in the checkpoint, but the topic has no such partition",
			e.Source, e.Topic, e.Partition)
	}
	return fmt.Sprintf("source %s: topic %s was deleted and created again (its id was %s and is %s): offsets of the old one mean nothing in the new",
		e.Source, e.Topic, e.Old, e.New)
}

// OperatorDecides marks errors that no restart can mend.
func (e *RecreatedError) OperatorDecides() bool { return true }

// Loss is the source whose loss may be accepted: the new topic is read from its beginning.
func (e *RecreatedError) Loss() string { return e.Source }

// UnreadableError says that what a partition holds at an offset cannot be decoded, however often it is fetched.
type UnreadableError struct {
	Source, Topic string
	Partition     int32
	Offset        int64
	Cause         error
}

// Error names the partition and the offset of the record batch.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("source %s: the record batch of %s-%d at offset %d cannot be read: %v", e.Source, e.Topic, e.Partition, e.Offset, e.Cause)
}

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Cause }

// OperatorDecides marks errors that no restart can mend.
func (e *UnreadableError) OperatorDecides() bool { return true }

// Causes of an UnreadableError beside those of the decoder.
var (
	errTooLarge = errors.New("it is larger than the largest fetch, or damaged")
	errOld      = errors.New("it has the format of Kafka before 0.11; rewrite the topic")
)

func (p *partition) unreadable(cause error) error {
	return &UnreadableError{Source: p.source, Topic: p.topic, Partition: p.at.Partition, Offset: p.next, Cause: cause}
}
