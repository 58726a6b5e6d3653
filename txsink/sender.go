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

// collect takes what may be sent now, or says how long to wait for a partition that pauses.
func (s *sender) collect(now time.Time) (*sarama.ProduceRequest, []sending, time.Duration) {
	if s.out.Load() >= maxRequests {
		return nil, nil, 0
	}
	w := s.writer
	req := &sarama.ProduceRequest{Version: 10, RequiredAcks: sarama.WaitForAll, Timeout: int32(w.opts.RequestTimeout / time.Millisecond)}
	var sent []sending
	var wait time.Duration
	size := 0
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts {
		if p.sender != s || size >= maxRequestBytes || !fits(req, p) {
			continue
		}
		b := p.queue.next(now)
		if b == nil {
			if at, ok := p.queue.resumes(); ok && (wait == 0 || at.Sub(now) < wait) {
				wait = max(at.Sub(now), time.Millisecond)
			}
			continue
		}
		if !b.identity.IsZero() {
			req.TransactionalID = &b.identity.TransactionalID
		}
		req.AddBatch(p.tp.Topic, p.tp.Partition, b.wire)
		sent = append(sent, sending{p, b})
		size += b.slab.bytes
	}
	return req, sent, wait
}

// fits says whether p's next batch may share the request: a request has one transactional id.
func fits(req *sarama.ProduceRequest, p *partition) bool {
	if req.TransactionalID == nil {
		return true
	}
	at := p.queue.sent
	if p.queue.failed {
		at = 0
	}
	return at >= len(p.queue.batches) || p.queue.batches[at].identity.TransactionalID == *req.TransactionalID
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
