package barrier

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/internal/planted"
	"github.com/weirstream/weir/record"
)

// Mode says what becomes of a channel that has delivered a barrier which others have not delivered yet.
type Mode uint8

const (
	// Aligned holds the channel, so that its records after the barrier stay out of the snapshot.
	Aligned Mode = iota
	// AtLeastOnce reads on: records after the barrier may be part of the snapshot, and come again after a restart.
	AtLeastOnce
)

// ErrProtocol marks events and barriers that a correct peer or driver never produces. It ends the attempt: what has
// been written since the last committed checkpoint cannot be trusted.
var ErrProtocol = errors.New("protocol violated")

// Aligner tells when a barrier has arrived on all input channels of one chain in one subtask. It belongs to the
// goroutine of that subtask and never allocates, except for an error.
type Aligner struct {
	mode Mode
	// last is the newest barrier that each channel has delivered; passed the newest that all have.
	last   []record.CheckpointID
	passed record.CheckpointID
	// newest is the furthest barrier seen, and end the final one, 0 while it is unknown.
	newest record.Barrier
	end    record.CheckpointID
}

// NewAligner returns an aligner for so many channels, numbered from 0. The first barrier to arrive sets attempt and
// first checkpoint; from there on each channel must deliver every barrier, in order.
func NewAligner(channels int, mode Mode) *Aligner {
	if planted.Is(planted.SkipAlignment) {
		mode = AtLeastOnce
	}
	return &Aligner{mode: mode, last: make([]record.CheckpointID, channels)}
}

// Held says whether nothing may be taken from channel until the barrier that it has delivered is complete.
func (a *Aligner) Held(channel int) bool {
	return a.mode == Aligned && a.last[channel] > a.passed
}

// Arrive takes note of barrier b on channel. It returns true when b has now arrived everywhere: the barrier is to be
// passed on, and the channels that were held are released. An error wraps ErrProtocol and leaves the aligner as it was.
func (a *Aligner) Arrive(channel int, b record.Barrier) (done bool, err error) {
	if channel < 0 || channel >= len(a.last) || b.Checkpoint < 1 {
		return false, fmt.Errorf("%w: barrier %d on channel %d of %d", ErrProtocol, b.Checkpoint, channel, len(a.last))
	}
	if a.newest == (record.Barrier{}) {
		a.begin(b)
	}
	if err := a.check(channel, b); err != nil {
		return false, err
	}
	a.last[channel] = b.Checkpoint
	if b.Checkpoint > a.newest.Checkpoint {
		a.newest = b
	}
	if b.Final {
		a.end = b.Checkpoint
	}
	for _, n := range a.last {
		if n < b.Checkpoint {
			return false, nil
		}
	}
	a.passed = b.Checkpoint
	return true, nil
}

// begin sets the point that all channels start from.
func (a *Aligner) begin(b record.Barrier) {
	for i := range a.last {
		a.last[i] = b.Checkpoint - 1
	}
	a.passed = b.Checkpoint - 1
	a.newest = record.Barrier{Checkpoint: b.Checkpoint - 1, Attempt: b.Attempt}
}

// check refuses what cannot follow the barriers seen so far.
func (a *Aligner) check(channel int, b record.Barrier) error {
	refuse := func(why string) error {
		return fmt.Errorf("%w: barrier %d of attempt %d on channel %d %s", ErrProtocol, b.Checkpoint, b.Attempt, channel, why)
	}
	switch {
	case b.Attempt != a.newest.Attempt:
		return refuse(fmt.Sprintf("belongs to another attempt than %d", a.newest.Attempt))
	case b.Checkpoint != a.last[channel]+1:
		return refuse(fmt.Sprintf("follows barrier %d", a.last[channel]))
	case a.Held(channel):
		return refuse(fmt.Sprintf("came while the channel is held for barrier %d", a.last[channel]))
	case b.Checkpoint == a.newest.Checkpoint && b != a.newest:
		return refuse("differs from the same barrier on another channel")
	case a.end != 0 && b.Checkpoint > a.end:
		return refuse(fmt.Sprintf("follows the final barrier %d", a.end))
	case b.Final != (b.Checkpoint == a.end) && b.Checkpoint <= a.newest.Checkpoint:
		return refuse("disagrees with another channel on where the stream ends")
	}
	return nil
}
