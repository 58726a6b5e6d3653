package exchange

import (
	"sync"

	"github.com/weirstream/weir/record"
)

// Mesh holds the channels between the subtasks of one process, by edge of the plan.
type Mesh struct {
	subtasks int
	edges    [][]*Channel
	spare    sync.Pool
}

// NewMesh makes the channels for edges edges between subtasks subtasks: each to each, or, where forward says so, only
// from a subtask to itself. limit is the bound of one channel in bytes; wake wakes one subtask.
func NewMesh(edges, subtasks, limit int, forward func(edge int) bool, wake func(subtask int)) *Mesh {
	m := &Mesh{subtasks: subtasks, edges: make([][]*Channel, edges)}
	for e := range m.edges {
		m.edges[e] = make([]*Channel, subtasks*subtasks)
		for i := range m.edges[e] {
			from, to := i/subtasks, i%subtasks
			if from == to || !forward(e) {
				m.edges[e][i] = NewChannel(limit, func() { wake(from) }, func() { wake(to) })
			}
		}
	}
	return m
}

// Channel returns the channel of an edge from one subtask to another, nil where there is none.
func (m *Mesh) Channel(edge, from, to int) *Channel { return m.edges[edge][from*m.subtasks+to] }

// Bytes returns the memory that the queued batches of an edge keep alive.
func (m *Mesh) Bytes(edge int) (n int64) {
	for _, c := range m.edges[edge] {
		if c != nil {
			n += c.Bytes()
		}
	}
	return n
}

// Take returns an empty batch to fill and send.
func (m *Mesh) Take() *record.Batch {
	if b, ok := m.spare.Get().(*record.Batch); ok {
		return b
	}
	return new(record.Batch)
}

// Recycle takes back a received batch whose records were processed.
func (m *Mesh) Recycle(b *record.Batch) {
	b.Reset()
	m.spare.Put(b)
}
