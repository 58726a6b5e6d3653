package exchange

import (
	"sync"
	"sync/atomic"

	"github.com/weirstream/weir/internal/fifo"
	"github.com/weirstream/weir/record"
)

// Message is one element of a channel: a batch, or a barrier where Batch is nil.
type Message struct {
	Batch   *record.Batch
	Barrier record.Barrier
}

// Channel is an ordered queue of messages from one subtask to another. Send and Full belong to the sender's goroutine,
// Receive and Empty to the receiver's.
type Channel struct {
	limit        int
	wakeSender   func()
	wakeReceiver func()
	// size is the memory of the queued batches in bytes, length the number of messages.
	size, length atomic.Int64
	mu           struct {
		sync.Mutex
		queue fifo.Queue[Message]
	}
}

// NewChannel returns a channel that is full once its batches keep limit bytes alive. One batch always fits, so the most
// that a channel holds is limit and the results of one batch. The wake functions must be quick and must not call the
// channel.
func NewChannel(limit int, wakeSender, wakeReceiver func()) *Channel {
	return &Channel{limit: max(limit, 1), wakeSender: wakeSender, wakeReceiver: wakeReceiver}
}

// Full says whether the sender should hold back. It turns false only after wakeSender was called.
func (c *Channel) Full() bool { return c.size.Load() >= int64(c.limit) }

// Empty says whether Receive would return nothing.
func (c *Channel) Empty() bool { return c.length.Load() == 0 }

// Bytes returns the memory that the queued batches keep alive.
func (c *Channel) Bytes() int64 { return c.size.Load() }

// Send appends m and passes its batch on to the receiver. It never refuses: a sender that respects Full stays in bounds,
// and a barrier must get through even where batches may not.
func (c *Channel) Send(m Message) {
	c.mu.Lock()
	c.mu.queue.Push(m)
	c.length.Add(1)
	c.size.Add(weight(m))
	c.mu.Unlock()
	c.wakeReceiver()
}

// Receive takes the first message.
func (c *Channel) Receive() (Message, bool) {
	if c.Empty() {
		return Message{}, false
	}
	c.mu.Lock()
	m, _ := c.mu.queue.Pop()
	c.length.Add(-1)
	left := c.size.Add(-weight(m))
	c.mu.Unlock()
	if limit := int64(c.limit); left < limit && left+weight(m) >= limit {
		c.wakeSender()
	}
	return m, true
}

// weight is at least one byte for a batch, so that a channel with a small limit still fills up.
func weight(m Message) int64 {
	if m.Batch == nil {
		return 0
	}
	return int64(max(m.Batch.Bytes, 1))
}
