package kafka

import (
	"encoding/binary"
	"slices"

	"github.com/IBM/sarama"
)

// CommittedFilter decides which record batches of one fetched partition are committed. A broker sends everything up to the last
// stable offset, with a list of the aborted transactions in it; what of these is skipped is the client's work (as in
// org.apache.kafka.clients.consumer.internals.CompletedFetch).
type CommittedFilter struct {
	// pending are aborted transactions that begin later in the response, by first offset; aborting the producers whose
	// aborted transaction is open at this point. One producer may have several, committed ones between them.
	pending  []*sarama.AbortedTransaction
	aborting []int64
}

// Reset starts a new response.
func (f *CommittedFilter) Reset(aborted []*sarama.AbortedTransaction) {
	f.pending, f.aborting = aborted, f.aborting[:0]
	slices.SortFunc(f.pending, func(a, b *sarama.AbortedTransaction) int { return int(a.FirstOffset - b.FirstOffset) })
}

// Accept says whether b holds records for the application. Batches must be given in the order of their offsets.
func (f *CommittedFilter) Accept(b *sarama.RecordBatch) bool {
	for len(f.pending) > 0 && f.pending[0].FirstOffset <= b.LastOffset() {
		f.aborting = append(f.aborting, f.pending[0].ProducerID)
		f.pending = f.pending[1:]
	}
	if b.Control {
		if isAbortMarker(b) {
			f.aborting = slices.DeleteFunc(f.aborting, func(pid int64) bool { return pid == b.ProducerID })
		}
		return false
	}
	return !b.IsTransactional || !slices.Contains(f.aborting, b.ProducerID)
}

// controlAbort is the type of an abort marker, in the second half of a control record's key.
const controlAbort = 0

func isAbortMarker(b *sarama.RecordBatch) bool {
	return len(b.Records) > 0 && len(b.Records[0].Key) >= 4 && binary.BigEndian.Uint16(b.Records[0].Key[2:]) == controlAbort
}
