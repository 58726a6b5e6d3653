package kafka

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/IBM/sarama"
)

// ErrNoLeader says that the metadata names no leader for a partition at the moment.
var ErrNoLeader = errors.New("no leader is known")

// Error is a request that a broker answered with an error code.
type Error struct {
	// Op is what was being done, as a person would say it: "look up topic views".
	Op   string
	Code sarama.KError
}

// Error names what was being done, Kafka's name and number of the answer, and what a person can do about it.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (Kafka error %d)%s", e.Op, name(e.Code), int16(e.Code), cure(e.Code))
}

// Unwrap gives the code to errors.Is.
func (e *Error) Unwrap() error { return e.Code }

// CodeOf is the error code that err carries, for counting: "no_leader" where nobody could be asked, "connection" where nobody
// answered.
func CodeOf(err error) string {
	var code sarama.KError
	switch {
	case errors.As(err, &code):
		return strconv.Itoa(int(code))
	case errors.Is(err, ErrNoLeader):
		return "no_leader"
	}
	return "connection"
}

// name is sarama's text, or ours for codes that it does not know.
func name(code sarama.KError) string {
	switch code {
	case 90:
		return "the producer was fenced by a newer one with the same transactional id"
	case 100:
		return "the topic id is unknown"
	}
	return code.Error()
}

// cure is what a person can do about a code, where there is something.
func cure(code sarama.KError) string {
	switch code {
	case sarama.ErrUnknownTopicOrPartition:
		return "; create the topic, or correct its name"
	case sarama.ErrTopicAuthorizationFailed:
		return "; grant this user Describe and Read on the topics it reads, Describe and Write on those it writes"
	case sarama.ErrGroupAuthorizationFailed:
		return "; grant this user Read on the consumer group"
	case sarama.ErrTransactionalIDAuthorizationFailed:
		return "; grant this user Describe and Write on the transactional ids with the job's name as prefix"
	case sarama.ErrClusterAuthorizationFailed:
		return "; grant this user the right on the cluster"
	case sarama.ErrInvalidTransactionTimeout:
		return "; lower kafka.transaction_timeout or raise the brokers' transaction.max.timeout.ms"
	}
	return ""
}

// Class is what a caller can do about an error.
type Class uint8

// The classes, from the harmless to the final.
const (
	// OK is no error.
	OK Class = iota
	// Retry: the same request, to the same broker, a little later.
	Retry
	// Refresh: the same request after a new look at metadata or coordinator.
	Refresh
	// Fenced: a newer owner has taken over; stop and learn what it did.
	Fenced
	// Witness: no answer at all about the transaction; only the ledger tells.
	Witness
	// Stop: repeating cannot help.
	Stop
)

// String names the class, for tests and logs.
func (c Class) String() string {
	return [...]string{"ok", "retry", "refresh", "fenced", "witness", "stop"}[c]
}

// Undecodable says that a response came whole and its content could not be decoded: damaged, or beyond the limit that
// LimitBatches sets.
func Undecodable(err error) bool {
	var decoding sarama.PacketDecodingError
	return errors.As(err, &decoding) || errors.Is(err, sarama.ErrDecompressedBatchTooLarge) || errors.Is(err, sarama.ErrInsufficientData)
}
