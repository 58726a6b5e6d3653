package record

import "fmt"

// CheckpointID numbers the checkpoints of a job from 1, upwards for ever; 0 is the empty beginning.
type CheckpointID int64

// Attempt numbers the runs of a job between restores. Messages of another attempt are refused.
type Attempt int64

// Barrier separates the records of checkpoint Checkpoint from those after it.
type Barrier struct {
	Checkpoint CheckpointID
	Attempt    Attempt
	// Next is the transaction that the sinks write to after the barrier. It is zero in a final barrier.
	Next Identity
	// Final ends the stream: no record follows.
	Final bool
}

// Identity is what all writers of one transaction share. (ProducerID, Epoch) is an opaque pair: the producer id
// changes when the epochs run out, so two identities are ordered by their checkpoints and never by their epochs.
type Identity struct {
	TransactionalID string `json:"transactional_id"`
	ProducerID      int64  `json:"producer_id"`
	Epoch           int16  `json:"epoch"`
}

// IsZero says whether i names no transaction.
func (i Identity) IsZero() bool { return i == Identity{} }

// String names the transactional id, the producer id and the epoch, for errors and logs.
func (i Identity) String() string {
	return fmt.Sprintf("%s (producer %d, epoch %d)", i.TransactionalID, i.ProducerID, i.Epoch)
}
