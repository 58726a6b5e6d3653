package topology

import "github.com/weirstream/weir/record"

// Operator is one step of a chain. It belongs to one subtask and is called by that subtask's goroutine alone.
type Operator interface {
	// Process replaces the records of b by the results of the operator, in order. An error ends the attempt; a record
	// that the pipeline's on_error policy covers is given to OperatorContext.Reject instead.
	Process(b *record.Batch) error
	// Barrier is called when barrier n has arrived on every input and before the state is frozen. What the operator emits
	// at a checkpoint (emit: on_checkpoint) it appends to b, which arrives empty.
	Barrier(n record.CheckpointID, b *record.Batch) error
}

// OperatorContext is what an operator is built with.
type OperatorContext struct {
	// Groups is the number of key groups of the job.
	Groups int
	// State opens the operator's keyed state. Names are unique within the operator.
	State func(name string) (Table, error)
	// Reject applies the on_error policy to a record that could not be processed: nil means that the record is dealt with
	// (dropped, or on its way to the dead-letter topic within the same transaction), an error ends the attempt.
	Reject func(r *record.Record, cause error) error
	// SourceName and TopicName give the names behind record.Record.Source.
	SourceName func(source int32) string
	TopicName  func(source int32) string
}

// Table is keyed state of one operator in one subtask: byte strings by key within a key group. It is called by the
// goroutine of its subtask alone. A returned slice is valid until the next call on the same table, or the end of the batch.
type Table interface {
	// Upsert returns the value of key for change in place, and records it as changed. A key that is absent, or whose value
	// has another length, gets a value of size bytes, zeroed; found tells whether the key was there.
	Upsert(group record.KeyGroup, key []byte, size int) (value []byte, found bool, err error)
	// Get returns the value of key for reading.
	Get(group record.KeyGroup, key []byte) (value []byte, found bool, err error)
	// Put stores a copy of value.
	Put(group record.KeyGroup, key, value []byte) error
	// Delete removes key; removing an absent key is no error.
	Delete(group record.KeyGroup, key []byte) error
	// Warm tells that the next calls will be for the keys of these records, whose groups are computed, so that waits for memory
	// may overlap. It returns how many of them it took notice of, at least one, and changes nothing.
	Warm(records []record.Record) int
	// Changed calls f for each key that was changed since the last barrier and still exists. f must not call the table.
	Changed(f func(group record.KeyGroup, key, value []byte) error) error
}
