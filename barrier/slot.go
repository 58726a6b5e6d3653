package barrier

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/record"
)

// slotState is what the transaction of one transactional id is doing.
type slotState uint8

const (
	free    slotState = iota // nothing is open
	opening                  // OpenTransaction is under way
	open                     // an identity is there: ready, being written to, or part of a checkpoint in flight
	closing                  // ReleaseSlot or AbortSlot is under way
)

// slot is one transactional id. identity is that of its last transaction, kept to recognise one that comes again.
type slot struct {
	state    slotState
	identity record.Identity
}

func (c *Coordinator) identity(slot int) record.Identity {
	if slot == noSlot {
		return record.Identity{}
	}
	return c.slots[slot].identity
}

func (c *Coordinator) open(i int) {
	c.slots[i].state = opening
	c.emit(OpenTransaction{i})
}

func (c *Coordinator) release(i int) {
	c.slots[i].state = closing
	c.emit(ReleaseSlot{i, c.slots[i].identity})
}

func (c *Coordinator) abort(i int) {
	c.slots[i].state = closing
	c.emit(AbortSlot{i, c.slots[i].identity})
}

// opened takes a fresh transaction, which waits for a barrier to name it. The sources begin once every slot has one.
//
// Why every slot: an attempt fences all transactional ids and then opens each on the condition that nobody fenced it since.
// Of two attempts that recover at the same time, one may win the first id and the other the second. If one open
// transaction were enough to start, both would run and both would commit the same checkpoint. As all fences of an attempt
// come before all its opens, at most one of the two gets every id (docs/decisions/001).
func (c *Coordinator) opened(i int, id record.Identity) error {
	if i < 0 || i >= len(c.slots) || c.slots[i].state != opening {
		return fmt.Errorf("%w: %v was opened in slot %d without being asked for", ErrProtocol, id, i)
	}
	if id.IsZero() || slices.ContainsFunc(c.slots, func(s slot) bool { return s.identity == id }) {
		return fmt.Errorf("%w: %v was used before", ErrProtocol, id)
	}
	c.slots[i] = slot{open, id}
	c.ready = append(c.ready, i)
	if !c.started && !c.draining && len(c.ready) == len(c.slots) {
		c.current, c.ready = c.ready[0], c.ready[1:]
		c.start(c.identity(c.current))
	}
	return nil
}

// released opens the slot again, unless the attempt drains.
func (c *Coordinator) released(i int) error {
	if i < 0 || i >= len(c.slots) || c.slots[i].state != closing {
		return fmt.Errorf("%w: slot %d was released without being asked for", ErrProtocol, i)
	}
	c.slots[i].state = free
	if !c.draining {
		c.open(i)
	}
	return nil
}
