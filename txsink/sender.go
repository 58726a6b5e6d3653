package txsink

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
)

// sender sends to one broker: what is ready in all partitions that it leads goes into one request, since a broker works on
// one request of a connection at a time.
type sender struct {
	writer *Writer
	addr   string
	wake   chan struct{}
	out    atomic.Int32 // requests without an answer
	// conn is the connection now in use; it belongs to the sender's goroutine.
	conn *kafka.Conn
	// broken is the connection on which a request has failed.
	broken atomic.Pointer[kafka.Conn]
	// first is the index of the partition that the next request begins with.
	first int
}

const (
	// maxRequests is the most unanswered requests of one connection.
	maxRequests = maxUnacknowledged
	// maxRequestBytes keeps a request well below the brokers' socket.request.max.bytes (100 MB).
	maxRequestBytes = 32 << 20
)

func newSender(w *Writer, addr string) *sender {
	return &sender{writer: w, addr: addr, wake: make(chan struct{}, 1)}
}

func (s *sender) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sending is one batch in a request.
type sending struct {
	partition *partition
	batch     *batch
}

func (s *sender) run(ctx context.Context) error {
	for {
		req, sent, wait := s.collect(time.Now())
		if len(sent) > 0 {
			s.send(req, sent)
			continue
		}
		var later <-chan time.Time
		if wait > 0 {
			later = time.After(wait)
		}
		select {
		case <-ctx.Done():
			s.drop()
			return context.Cause(ctx)
		case <-s.wake:
		case <-later:
		}
	}
}

// collect takes what may be sent now, or says how long to wait for a partition that pauses. A request has one transactional
// id, so it is for the oldest transaction that has something ready: a partition that is behind would otherwise wait for
// ever for a request without anything of the transactions after its own.
func (s *sender) collect(now time.Time) (*sarama.ProduceRequest, []sending, time.Duration) {
	if s.out.Load() >= maxRequests {
		return nil, nil, 0
	}
	w := s.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	oldest, wait := s.oldest(now)
	if oldest == nil {
		return nil, nil, wait
	}
	req := &sarama.ProduceRequest{Version: 10, RequiredAcks: sarama.WaitForAll, Timeout: int32(w.opts.RequestTimeout / time.Millisecond)}
	if !oldest.identity.IsZero() {
		req.TransactionalID = &oldest.identity.TransactionalID
	}
	var sent []sending
	size := 0
	for i := range w.parts {
		at := (s.first + i) % len(w.parts)
		p := w.parts[at]
		if p.sender != s {
			continue
		}
		if b := p.queue.ready(now); b == nil || b.period.turn != oldest.turn {
			continue
		}
		if size >= maxRequestBytes {
			s.first = at // it begins the next request, so that each has its turn
			break
		}
		b := p.queue.next(now)
		req.AddBatch(p.tp.Topic, p.tp.Partition, b.wire)
		sent = append(sent, sending{p, b})
		size += b.slab.bytes
	}
	return req, sent, 0
}

// oldest returns the period of the oldest transaction that has a batch ready here; where there is none, the time until a
// partition that pauses may go on, 0 where none does. The writer's lock is held.
func (s *sender) oldest(now time.Time) (oldest *period, wait time.Duration) {
	for _, p := range s.writer.parts {
		if p.sender != s {
			continue
		}
		if b := p.queue.ready(now); b != nil {
			if oldest == nil || b.period.turn < oldest.turn {
				oldest = b.period
			}
		} else if at, ok := p.queue.resumes(); ok && (wait == 0 || at.Sub(now) < wait) {
			wait = max(at.Sub(now), time.Millisecond)
		}
	}
	return oldest, wait
}

var errNoAnswer = errors.New("the response does not mention the partition")

// send makes one request. Its outcome comes on another goroutine, also where sending itself fails.
func (s *sender) send(req *sarama.ProduceRequest, sent []sending) {
	conn, err := s.connection()
	if err != nil {
		s.failed(sent, err)
		return
	}
	s.out.Add(1)
	err = conn.AsyncProduce(req, func(resp *sarama.ProduceResponse, err error) {
		if err != nil {
			s.broken.Store(conn)
			s.failed(sent, err)
		} else {
			s.answered(sent, resp)
		}
		s.out.Add(-1)
		s.kick()
	})
	if err != nil {
		s.out.Add(-1)
		s.broken.Store(conn)
		s.failed(sent, err)
	}
}

// connection returns the connection, a new one after a failure.
func (s *sender) connection() (*kafka.Conn, error) {
	if s.conn != nil && s.broken.Load() == s.conn {
		s.drop()
	}
	if s.conn != nil {
		return s.conn, nil
	}
	conn, err := s.writer.cluster.Conn(kafka.Produce, s.addr)
	if err == nil {
		s.conn = conn
	}
	return conn, err
}

func (s *sender) drop() {
	if s.conn != nil {
		s.writer.cluster.Drop(s.conn)
		s.conn = nil
	}
}

func (s *sender) failed(sent []sending, err error) {
	for _, x := range sent {
		s.writer.stats.retry(err)
		s.writer.answered(x.partition, x.batch, outcome{offset: -1, err: err})
	}
}

func (s *sender) answered(sent []sending, resp *sarama.ProduceResponse) {
	for _, x := range sent {
		block := resp.GetBlock(x.partition.tp.Topic, x.partition.tp.Partition)
		switch {
		case block == nil:
			s.writer.answered(x.partition, x.batch, outcome{offset: -1, err: errNoAnswer})
		case block.Err != sarama.ErrNoError:
			err := &kafka.Error{Op: "produce", Code: block.Err}
			s.writer.stats.retry(err)
			s.writer.answered(x.partition, x.batch, outcome{-1, err, s.writer.cluster.Learn(x.partition.tp, resp)})
		default:
			s.writer.answered(x.partition, x.batch, outcome{offset: block.Offset})
		}
	}
}

func hasCode(err error, code sarama.KError) bool { return errors.Is(err, code) }
