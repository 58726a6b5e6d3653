package txsink

import (
	"errors"
	"fmt"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
)

// ErrFenced says that another instance has taken the transaction over: this attempt is stale.
var ErrFenced = errors.New("the transaction was taken over by a newer attempt")

// ErrUndecided says that no answer tells whether a transaction was committed; the ledger does, after a fence.
var ErrUndecided = errors.New("Kafka's answer does not tell whether the transaction was committed")

// MayBeFenced says that an error may come from another instance that has taken the transactions over. Brokers do not always say
// so: to a transaction that a fence has aborted they answer that its state is invalid, for instance.
func MayBeFenced(err error) bool {
	if errors.Is(err, ErrFenced) || errors.Is(err, ErrUndecided) {
		return true
	}
	var code sarama.KError
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case sarama.ErrInvalidProducerEpoch, sarama.ErrInvalidTxnState, sarama.ErrInvalidProducerIDMapping, sarama.ErrProducerFenced,
		sarama.ErrOutOfOrderSequenceNumber, sarama.ErrUnknownProducerID:
		return true
	}
	return false
}

// RecreatedError says that a topic that is written to is not the one that the job has written to before.
type RecreatedError struct {
	Topic    string
	Old, New record.TopicID
}

// Error names both ids, and what the topic lacks.
func (e *RecreatedError) Error() string {
	return fmt.Sprintf("output topic %s was deleted and created again (its id was %s and is %s): the results of before are gone from it, "+
		"and the job would add those of from now on only", e.Topic, e.Old, e.New)
}

// OperatorDecides marks errors that no restart can mend.
func (e *RecreatedError) OperatorDecides() bool { return true }

// Loss is the topic whose loss may be accepted: what comes from now on is written.
func (e *RecreatedError) Loss() string { return e.Topic }

// LedgerError says that the ledger does not tell what was committed. Going on would lose or repeat results.
type LedgerError struct {
	Topic string
	Cause error
}

// Error names the ledger and the cause.
func (e *LedgerError) Error() string { return fmt.Sprintf("ledger %s: %v", e.Topic, e.Cause) }

// Unwrap returns the cause.
func (e *LedgerError) Unwrap() error { return e.Cause }

// OperatorDecides marks errors that no restart can mend.
func (e *LedgerError) OperatorDecides() bool { return true }

var errLostMarker = errors.New("a transaction was ended without its marker here, which brokers of version 4.3 can do (KAFKA-20734); " +
	"find out from the outputs whether it is committed, and end it so with kafka-transactions.sh")

// TooLargeError is a batch that the topic does not take. Another attempt would come to the same record.
type TooLargeError struct {
	Topic          string
	Partition      int32
	Records, Bytes int
	// Origin is the input record that the first result of the batch came from.
	Origin record.Record
	Cause  error
}

// Error names the record that the result came from, or the size of the batch, and the setting to change.
func (e *TooLargeError) Error() string {
	if e.Records == 1 {
		return fmt.Sprintf("the result of offset %d of input partition %d takes %d bytes, more than partition %d of %s allows: "+
			"raise max.message.bytes of the topic, or make the result smaller (%v)",
			e.Origin.Offset, e.Origin.Partition, e.Bytes, e.Partition, e.Topic, e.Cause)
	}
	return fmt.Sprintf("a batch of %d records takes %d bytes, more than partition %d of %s allows: "+
		"lower kafka.batch_bytes, or raise max.message.bytes of the topic (%v)", e.Records, e.Bytes, e.Partition, e.Topic, e.Cause)
}

// Unwrap returns the broker's answer.
func (e *TooLargeError) Unwrap() error { return e.Cause }

// OperatorDecides marks errors that no restart can mend.
func (e *TooLargeError) OperatorDecides() bool { return true }

// explain puts the end of an attempt into words.
func explain(p *partition, b *batch, err error) error {
	origin := b.slab.source
	switch {
	case kafka.Classify(kafka.ProduceBatch, err) == kafka.Fenced:
		return fmt.Errorf("write to %v: %w: %w", p.tp, ErrFenced, err)
	case hasCode(err, sarama.ErrMessageSizeTooLarge), hasCode(err, sarama.ErrMessageSetSizeTooLarge):
		return &TooLargeError{p.tp.Topic, p.tp.Partition, len(b.slab.records), b.slab.bytes, origin, err}
	}
	return fmt.Errorf("write to %v, %d records of %d bytes, the first one the result of offset %d of partition %d: %w",
		p.tp, len(b.slab.records), b.slab.bytes, origin.Offset, origin.Partition, err)
}
