package record

// Header is one Kafka record header.
type Header struct {
	Key, Value []byte
}

// Record is one Kafka record on its way through a subtask. Key, Value and Headers are views into memory that the
// batch keeps alive; an operator replaces a view, it never writes through one.
type Record struct {
	// Key is nil where the record has no key.
	Key []byte
	// Value is nil for a tombstone.
	Value   []byte
	Headers []Header
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
	// Offset, Partition and Source name the input record that this one comes from; the results of an operator carry
	// those of the record that caused them.
	Offset    int64
	Partition int32
	// Source is the index of the source in the plan.
	Source int32
	// Group is the key group of Key, or NoGroup while nobody has computed it. Whoever replaces Key resets it.
	Group KeyGroup
}

// Batch is the unit that moves between subtasks. One goroutine owns a batch at a time; sending it passes ownership.
type Batch struct {
	Records []Record
	// Next is the offset to continue from after this batch, and LeaderEpoch the epoch of the last record batch read.
	// They are set by a source, for the partition At, even where Records is empty (control records, aborted data).
	Next        int64
	LeaderEpoch int32
	At          SourcePartition
	// Bytes is the memory that the batch keeps alive, for the bounds of the buffers it waits in.
	Bytes int

	arena []byte
}

// SourcePartition names a partition of one source of the plan.
type SourcePartition struct {
	Source    int32
	Partition int32
}

const arenaChunk = 64 << 10

// Alloc returns n bytes of zeroed memory that live as long as somebody refers to them. Operators build new keys and
// values in it: one allocation serves many records.
func (b *Batch) Alloc(n int) []byte {
	if n > cap(b.arena)-len(b.arena) {
		b.arena = make([]byte, 0, max(n, arenaChunk))
	}
	at := len(b.arena)
	b.arena = b.arena[:at+n]
	return b.arena[at : at+n : at+n]
}

// Clone returns a batch with its own record headers that shares keys and values with b, for a second consumer.
func (b *Batch) Clone() *Batch {
	c := *b
	c.arena = nil
	c.Records = append([]Record(nil), b.Records...)
	return &c
}

// Reset empties b for reuse. The memory handed out by Alloc is kept going only by those who still refer to it.
func (b *Batch) Reset() {
	clear(b.Records)
	*b = Batch{Records: b.Records[:0], arena: b.arena}
}
