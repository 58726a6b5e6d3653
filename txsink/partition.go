package txsink

import (
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/internal/planted"
	"github.com/weirstream/weir/record"
)

// maxUnacknowledged is the number of a producer's last batches that a broker remembers for each partition: what is sent
// again within them is recognised, what is older is refused as out of order.
const maxUnacknowledged = 5

// batch is a sealed record batch on its way to one partition.
type batch struct {
	identity record.Identity
	// sequence is that of the first record; 0 marks the first batch of an identity on this partition.
	sequence int32
	slab     *slab
	period   *period
	wire     *sarama.RecordBatch
	done     bool
}

// queue orders the batches of one output partition. It is a state machine without I/O:
//
//   - the first batch of an identity goes alone: a partition that knows nothing of a producer accepts any first sequence, so
//     a second batch might get ahead of a lost first one;
//   - then the oldest unacknowledged batch and what was sent after it are at most window batches, also where some of these
//     are acknowledged: the broker must still remember the oldest when it comes again;
//   - a batch of the next transaction waits until all of this one's are acknowledged;
//   - after a failure nothing is sent until everything in flight is answered, then all is sent again, in order, from the
//     oldest that is not acknowledged. What the broker has already is recognised by its sequence.
type queue struct {
	window  int
	batches []*batch
	// sent counts the batches from the front that are out, or acknowledged behind one that is not.
	sent     int
	inFlight int
	failed   bool
	// stopped is set by a fatal answer: nothing is sent any more, the attempt is about to end.
	stopped bool
	// notBefore is when the next try may be made after a failure.
	notBefore time.Time
}

func (q *queue) push(b *batch) { q.batches = append(q.batches, b) }

// next returns the batch to send now and counts it as sent, or nil.
func (q *queue) next(now time.Time) *batch {
	b := q.ready(now)
	if b != nil {
		q.sent++
		q.inFlight++
	}
	return b
}

// ready returns the batch that next would.
func (q *queue) ready(now time.Time) *batch {
	if q.stopped {
		return nil
	}
	if q.failed {
		if q.inFlight > 0 || now.Before(q.notBefore) {
			return nil
		}
		q.failed, q.sent = false, 0
	}
	for q.sent < len(q.batches) && q.batches[q.sent].done {
		q.sent++
	}
	if q.sent == len(q.batches) || q.sent >= q.window {
		return nil
	}
	b := q.batches[q.sent]
	if q.sent > 0 && (q.batches[0].sequence == 0 && !q.batches[0].done || q.batches[q.sent-1].identity != b.identity) &&
		!planted.Is(planted.WriteAhead) {
		return nil
	}
	return b
}

// verdict is what an answer means for a partition.
type verdict uint8

const (
	again   verdict = iota // the batches are sent again after a pause
	refresh                // the same, after a look for the leader
	written                // the batch is acknowledged
	fatal                  // the attempt must end
)

// answer takes the outcome of b. acked are the batches that are now acknowledged in order.
func (q *queue) answer(b *batch, err error) (v verdict, acked []*batch) {
	q.inFlight--
	class := kafka.Classify(kafka.ProduceBatch, err)
	if class == kafka.OK {
		b.done = true
		return written, q.pop()
	}
	behind := q.failed || q.batches[0] != b
	q.failed = true
	switch {
	case class == kafka.Retry:
		return again, nil
	case class == kafka.Refresh:
		return refresh, nil
	case behind && hasCode(err, sarama.ErrOutOfOrderSequenceNumber): // the one before it is missing, and will be sent again
		return again, nil
	default:
		q.stopped = true
		return fatal, nil
	}
}

// resumes returns when a partition that has failed may go on: never (false) while something is in flight, whose answer will
// ask again, or once it is stopped.
func (q *queue) resumes() (at time.Time, ok bool) {
	return q.notBefore, q.failed && !q.stopped && q.inFlight == 0
}

// pop removes the batches from the front that are acknowledged.
func (q *queue) pop() []*batch {
	n := 0
	for n < len(q.batches) && q.batches[n].done {
		n++
	}
	acked := q.batches[:n]
	q.batches = append([]*batch(nil), q.batches[n:]...)
	q.sent = max(0, q.sent-n)
	return acked
}
