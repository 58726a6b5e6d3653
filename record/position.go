package record

import "encoding/hex"

// TopicID is Kafka's id of a topic: it differs when a topic is deleted and created again under its old name.
type TopicID [16]byte

func (t TopicID) String() string { return hex.EncodeToString(t[:]) }

// Position says where to go on reading one partition of one source.
type Position struct {
	Source    string
	Topic     string
	TopicID   TopicID
	Partition int32
	// Offset is the next offset to read.
	Offset int64
	// LeaderEpoch is the epoch of the last record batch read, -1 where none was read.
	LeaderEpoch int32
}
