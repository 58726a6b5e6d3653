package record

import (
	"encoding/hex"
	"fmt"
)

// TopicID is Kafka's id of a topic: it differs when a topic is deleted and created again under its old name.
type TopicID [16]byte

// String is the id as 32 hexadecimal digits.
func (t TopicID) String() string { return hex.EncodeToString(t[:]) }

// MarshalText writes the id as 32 hexadecimal digits.
func (t TopicID) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (t *TopicID) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(t)) {
		return fmt.Errorf("topic id %q: want %d hexadecimal digits", text, hex.EncodedLen(len(t)))
	}
	if _, err := hex.Decode(t[:], text); err != nil {
		return fmt.Errorf("topic id %q: %w", text, err)
	}
	return nil
}

// Position says where to go on reading one partition of one source.
type Position struct {
	Source    string  `json:"source"`
	Topic     string  `json:"topic"`
	TopicID   TopicID `json:"topic_id"`
	Partition int32   `json:"partition"`
	// Offset is the next offset to read.
	Offset int64 `json:"offset"`
	// LeaderEpoch is the epoch of the last record batch read, -1 where none was read.
	LeaderEpoch int32 `json:"leader_epoch"`
}
