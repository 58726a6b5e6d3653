package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// socket dials for one Conn and can cut what it dialled: sarama's own Close waits for a request under way. It does the
// handshake of TLS as well, which in sarama happens within the first request: so a broker that accepts and never answers
// costs the time of a dial, and a certificate that is not trusted comes back as such.
type socket struct {
	timeout time.Duration
	tls     TLS
	// ctx ends when the connection is cut, also while it is being dialled.
	ctx    context.Context
	cancel context.CancelFunc
	mu     struct {
		sync.Mutex
		conn net.Conn
	}
}

func newSocket(timeout time.Duration, t TLS) *socket {
	s := &socket{timeout: timeout, tls: t}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Dial implements proxy.Dialer. sarama calls it once, on a goroutine of its own.
func (s *socket) Dial(network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	secured := conn
	if s.tls.Enable {
		if secured, err = s.tls.handshake(ctx, conn, addr); err != nil {
			return nil, errors.Join(&handshakeError{err}, conn.Close())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	s.mu.conn = conn
	return secured, nil
}

// handshake returns the secured form of conn. Files are read each time, so a renewed certificate counts without a restart.
func (t TLS) handshake(ctx context.Context, conn net.Conn, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	cfg, err := t.config(host)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(conn, cfg)
	return secured, secured.HandshakeContext(ctx)
}

func (s *socket) cut() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.conn != nil {
		_ = s.mu.conn.Close() // its reader reports what matters
	}
}

// handshakeError is what went wrong in a TLS handshake.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }
