package kafka

import (
	"errors"

	"github.com/IBM/sarama"
)

// Request is a kind of request whose answers are classed.
type Request uint8

// The kinds of request.
const (
	InitProducerID Request = iota
	AddPartitionsToTxn
	AddOffsetsToTxn
	TxnOffsetCommit
	EndTxn
	ProduceBatch
	ListOffsets
	FetchBatch
	FindCoordinator
)

// classes has the class of every code that a request is known to answer. The codes and what they mean were read in the
// broker's source (TransactionCoordinator, ReplicaManager, GroupCoordinator of Apache Kafka 4.3.1) and provoked on it. A
// code that is not here stops: repeating what is not understood would be guessing.
func classes(r Request) map[sarama.KError]Class {
	switch r {
	case InitProducerID:
		return with(coordinator(), map[sarama.KError]Class{
			sarama.ErrProducerFenced: Fenced, sarama.ErrInvalidProducerEpoch: Fenced, sarama.ErrInvalidProducerIDMapping: Fenced,
		})
	case AddPartitionsToTxn, AddOffsetsToTxn:
		return with(coordinator(), map[sarama.KError]Class{
			sarama.ErrProducerFenced: Fenced, sarama.ErrInvalidProducerEpoch: Fenced, sarama.ErrInvalidProducerIDMapping: Fenced,
			sarama.ErrUnknownTopicOrPartition: Refresh,
		})
	case TxnOffsetCommit:
		return with(coordinator(), map[sarama.KError]Class{
			sarama.ErrProducerFenced: Fenced, sarama.ErrInvalidProducerEpoch: Fenced, sarama.ErrInvalidProducerIDMapping: Fenced,
		})
	case EndTxn:
		return with(coordinator(), map[sarama.KError]Class{
			sarama.ErrProducerFenced: Witness, sarama.ErrInvalidProducerEpoch: Witness, sarama.ErrInvalidProducerIDMapping: Witness,
			sarama.ErrInvalidTxnState: Witness,
		})
	case ProduceBatch:
		return produceClasses()
	case ListOffsets, FetchBatch:
		return with(partitionMoved(), map[sarama.KError]Class{sarama.ErrOffsetNotAvailable: Retry})
	default:
		return coordinator()
	}
}

// coordinator has the codes of a coordinator that moves, loads, or is still writing the markers of the last transaction.
func coordinator() map[sarama.KError]Class {
	return map[sarama.KError]Class{
		sarama.ErrNoError:                         OK,
		sarama.ErrConcurrentTransactions:          Retry,
		sarama.ErrRequestTimedOut:                 Retry,
		sarama.ErrOffsetsLoadInProgress:           Refresh,
		sarama.ErrConsumerCoordinatorNotAvailable: Refresh,
		sarama.ErrNotCoordinatorForConsumer:       Refresh,
		sarama.ErrTransactionCoordinatorFenced:    Refresh,
		sarama.ErrNetworkException:                Refresh,
	}
}

// partitionMoved has the codes of a partition whose leader moves or is not ready.
func partitionMoved() map[sarama.KError]Class {
	return map[sarama.KError]Class{
		sarama.ErrNoError:                 OK,
		sarama.ErrUnknownTopicOrPartition: Refresh,
		sarama.ErrLeaderNotAvailable:      Refresh,
		sarama.ErrNotLeaderForPartition:   Refresh,
		sarama.ErrReplicaNotAvailable:     Refresh,
		sarama.ErrRequestTimedOut:         Retry,
		sarama.ErrNetworkException:        Refresh,
		sarama.ErrKafkaStorageError:       Refresh,
		sarama.ErrFencedLeaderEpoch:       Refresh,
		sarama.ErrUnknownLeaderEpoch:      Retry,
	}
}

// produceClasses: 19 on a first write is the price of an identity with several writers (a broker verifies one at a time),
// otherwise replicas are missing; both pass. 45 and what it means behind a failed batch is for the writer to judge.
func produceClasses() map[sarama.KError]Class {
	return with(partitionMoved(), map[sarama.KError]Class{
		sarama.ErrNotEnoughReplicas:            Retry,
		sarama.ErrNotEnoughReplicasAfterAppend: Retry,
		sarama.ErrConcurrentTransactions:       Retry,
		sarama.ErrOutOfOrderSequenceNumber:     Stop,
		sarama.ErrInvalidProducerEpoch:         Fenced,
		sarama.ErrProducerFenced:               Fenced,
		sarama.ErrInvalidTxnState:              Stop,
	})
}

func with(m, more map[sarama.KError]Class) map[sarama.KError]Class {
	for k, v := range more {
		m[k] = v
	}
	return m
}

// Classify tells what can be done about the outcome of a request: a code in an *Error or alone, or an error of the
// connection.
func Classify(r Request, err error) Class {
	if err == nil {
		return OK
	}
	var code sarama.KError
	if errors.As(err, &code) {
		if c, known := classes(r)[code]; known {
			return c
		}
		return Stop
	}
	if errors.Is(err, ErrNoLeader) {
		return Refresh
	}
	return connectionClass(err)
}
