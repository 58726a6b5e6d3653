// Package fifo is a first-in, first-out queue over one slice, for the hand-over of batches from one goroutine to another. It
// has no lock: both its users hold one anyway, which guards more than the queue.
package fifo

// Queue holds elements in the order of Push. The zero value is an empty queue. Its memory is that of
// the most that it ever held, doubled once or twice.
type Queue[T any] struct {
	items []T
	// head is the index of the first element; those before it are taken and zero.
	head int
}

// Len returns the number of elements.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// Push appends an element.
func (q *Queue[T]) Push(v T) {
	// A queue that is never empty must not creep upwards. Moving no more than were taken keeps the cost of a Push constant.
	if len(q.items) == cap(q.items) && q.head >= q.Len() && q.head > 0 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// Pop takes the first element, and answers false where there is none.
func (q *Queue[T]) Pop() (v T, ok bool) {
	if q.head == len(q.items) {
		return v, false
	}
	var taken T // what was taken must not be kept alive from here
	v, q.items[q.head] = q.items[q.head], taken
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return v, true
}
