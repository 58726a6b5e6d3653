package faultproxy

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxFrame bounds what a peer can make the proxy allocate; brokers refuse larger requests too.
const maxFrame = 100 << 20

// link is a client's connection and the one to the broker that it is forwarded to.
type link struct {
	proxy          *Proxy
	client, broker net.Conn
	// torn says that something was swallowed; the proxy's lock guards it.
	torn bool

	mu sync.Mutex
	// pending are the requests that the broker has and has not answered, in order: so it answers them.
	pending []pending
	// detached says that the client is gone while a request of its is still on the way.
	detached bool
}

type pending struct {
	request     kmsg.Key
	correlation uint32
	fault       Kind
	since       time.Time
}

// requests forwards frames from the client until a side ends or a fault ends the link.
func (l *link) requests() error {
	for {
		frame, err := readFrame(l.client)
		if err != nil {
			return err
		}
		if len(frame) < 12 {
			return fmt.Errorf("fault proxy: a request of %d bytes has no header", len(frame))
		}
		key, correlation := kmsg.Key(binary.BigEndian.Uint16(frame[4:])), binary.BigEndian.Uint32(frame[8:])
		fault := l.proxy.match(key)
		switch fault.Kind {
		case LoseRequest:
			return nil
		case HalfRequest:
			_, err := l.broker.Write(frame[:len(frame)/2])
			l.broker.Close() // no reset, which could overtake what was written
			return err
		case Late:
			return l.late(frame, key, correlation, fault)
		case Slow:
			l.proxy.sleep(fault.Delay)
		}
		if !l.proxy.pass(l, ToBroker) {
			continue
		}
		l.expect(key, correlation, fault.Kind)
		if _, err := l.broker.Write(frame); err != nil {
			return err
		}
	}
}

// late gives a request to the broker when its client is gone, and waits for the answer, which tells that it is done.
func (l *link) late(frame []byte, key kmsg.Key, correlation uint32, fault Fault) error {
	l.mu.Lock()
	l.detached = true
	l.mu.Unlock()
	reset(l.client)
	l.proxy.sleep(fault.Delay)
	l.expect(key, correlation, LoseAnswer)
	if _, err := l.broker.Write(frame); err != nil {
		return err
	}
	<-l.proxy.closing // answers ends the link before that
	return nil
}

func (l *link) expect(request kmsg.Key, correlation uint32, fault Kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, pending{request, correlation, fault, time.Now()})
}

// answers forwards frames from the broker until a side ends or a fault ends the link.
func (l *link) answers() error {
	for {
		frame, err := readFrame(l.broker)
		if err != nil {
			return err
		}
		fault, detached, err := l.answered(binary.BigEndian.Uint32(frame[4:]))
		if err != nil {
			return err
		}
		switch {
		case fault == LoseAnswer:
			return nil
		case fault == HalfAnswer:
			_, err := l.client.Write(frame[:len(frame)/2])
			l.client.Close()
			return err
		case detached || !l.proxy.pass(l, ToClient):
			continue
		}
		if _, err := l.client.Write(frame); err != nil {
			return err
		}
	}
}

// answered takes the oldest request off the list.
func (l *link) answered(correlation uint32) (Kind, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 || l.pending[0].correlation != correlation {
		return "", false, fmt.Errorf("fault proxy: answer %d, and the requests to be answered are %v", correlation, l.pending)
	}
	first := l.pending[0]
	l.pending = l.pending[1:]
	return first.fault, l.detached, nil
}

// readFrame returns a frame with its length in front.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > maxFrame {
		return nil, fmt.Errorf("fault proxy: a frame of %d bytes", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

func (l *link) reset() {
	reset(l.client)
	reset(l.broker)
}

// reset ends a connection so that the peer sees a reset and not an end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed connection
	}
	c.Close()
}
