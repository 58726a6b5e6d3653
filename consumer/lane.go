package consumer

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirstream/weir/internal/fifo"
	"github.com/weirstream/weir/record"
)

// Lane is the queue of fetched batches of one subtask.
type Lane struct {
	consumer *Consumer
	subtask  int
	limit    int64
	// bytes counts the batches that wait and those that the subtask has not given back.
	bytes atomic.Int64
	size  atomic.Int64
	// out are the batches that the subtask has; they belong to its goroutine.
	out []outstanding
	mu  struct {
		sync.Mutex
		queue fifo.Queue[*record.Batch]
		spare []*record.Batch
	}
}

// outstanding is a polled batch as it was: operators replace its records and may change its size.
type outstanding struct {
	batch   *record.Batch
	records []record.Record
	bytes   int64
}

// spareBatches bounds the empty batches kept for reuse.
const spareBatches = 64

// Poll returns the next batch, or nil where none is ready. It belongs to the goroutine of the lane's subtask.
func (l *Lane) Poll() *record.Batch {
	if l.size.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b, _ := l.mu.queue.Pop()
	l.size.Add(-1)
	l.out = append(l.out, outstanding{b, b.Records, int64(b.Bytes)})
	return b
}

// Release gives a batch back that came from Poll. Its records must not be used any more; the bytes that they refer to may be.
// It belongs to the goroutine of the lane's subtask.
func (l *Lane) Release(b *record.Batch) {
	at := slices.IndexFunc(l.out, func(o outstanding) bool { return o.batch == b })
	if at < 0 {
		return
	}
	o := l.out[at]
	l.out = slices.Delete(l.out, at, at+1)
	clear(o.records) // also those that an operator took out, lest a spare batch keep a response alive
	b.Reset()
	b.Records = o.records[:0]
	l.giveBack(b)
	if left := l.bytes.Add(-o.bytes); left < l.limit && left+o.bytes >= l.limit {
		l.consumer.kickAll()
	}
}

// giveBack keeps an empty batch for reuse.
func (l *Lane) giveBack(b *record.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.spare) < spareBatches {
		l.mu.spare = append(l.mu.spare, b)
	}
}

// Position describes a partition of this lane as it was found, before anything was read.
func (l *Lane) Position(at record.SourcePartition) record.Position { return l.consumer.position(at) }

// Bytes returns what the lane holds and its bound, in bytes. Any goroutine may call it.
func (l *Lane) Bytes() (held, limit int64) { return l.bytes.Load(), l.limit }

// full says that the lane's partitions should not be fetched for now.
func (l *Lane) full() bool { return l.bytes.Load() >= l.limit }

// take returns an empty batch to fill.
func (l *Lane) take() *record.Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.mu.spare); n > 0 {
		b := l.mu.spare[n-1]
		l.mu.spare = l.mu.spare[:n-1]
		return b
	}
	return new(record.Batch)
}

// push appends a batch and wakes the subtask.
func (l *Lane) push(b *record.Batch) {
	l.bytes.Add(int64(b.Bytes))
	l.mu.Lock()
	l.mu.queue.Push(b)
	l.mu.Unlock()
	l.size.Add(1)
	l.consumer.opts.Wake(l.subtask)
}
