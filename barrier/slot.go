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

// opened takes a fresh transaction. The first one lets the sources begin; the others wait for a barrier.
func (c *Coordinator) opened(i int, id record.Identity) error {
	if i < 0 || i >= len(c.slots) || c.slots[i].state != opening {
		return fmt.Errorf("%w: %v was opened in slot %d without being asked for", ErrProtocol, id, i)
	}
	if id.IsZero() || slices.ContainsFunc(c.slots, func(s slot) bool { return s.identity == id }) {
		return fmt.Errorf("%w: %v was used before", ErrProtocol, id)
	}
	c.slots[i] = slot{open, id}
	if c.started || c.draining {
		c.ready = append(c.ready, i)
		return nil
	}
	c.current = i
	c.start(id)
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
