package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// Purpose is what a connection is for. A synchronous request of sarama holds its connection for the round trip, so what
// must not wait for each other does not share one.
type Purpose uint8

// The purposes.
const (
	// Control is for metadata, coordinator look-ups, ListOffsets and administration.
	Control Purpose = iota
	// Transaction is for requests to transaction and group coordinators.
	Transaction
	// Fetch is for fetch loops.
	Fetch
	// Produce is for the sink's writers.
	Produce
	// Ledger is for the witness record and for reading it back.
	Ledger
)

func (p Purpose) String() string {
	return [...]string{"control", "transaction", "fetch", "produce", "ledger"}[p]
}

type connKey struct {
	purpose Purpose
	addr    string
}

// connections are the open connections of a cluster.
type connections struct {
	opts Options
	mu   struct {
		sync.Mutex
		open   map[connKey]*Conn
		closed bool
	}
	closing sync.WaitGroup
}

func (cs *connections) init(o Options) {
	cs.opts = o
	cs.mu.open = map[connKey]*Conn{}
}

// Conn is one connection to a broker.
type Conn struct {
	*sarama.Broker
	key  connKey
	sock socket
}

// socket dials for one Conn and can cut what it dialled: sarama's own Close waits for a request under way.
type socket struct {
	timeout time.Duration
	mu      struct {
		sync.Mutex
		conn net.Conn
		cut  bool
	}
}

// Dial implements proxy.Dialer.
func (s *socket) Dial(network, addr string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, addr, s.timeout)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.cut {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	s.mu.conn = conn
	return conn, nil
}

// Cut ends whatever waits on the connection, now. Any goroutine may call it, a callback of the connection too.
func (c *Conn) Cut() {
	c.sock.mu.Lock()
	defer c.sock.mu.Unlock()
	c.sock.mu.cut = true
	if c.sock.mu.conn != nil {
		_ = c.sock.mu.conn.Close() // its reader reports what matters
	}
}

// Conn returns the connection to a broker for one purpose, opening it where there is none. It does not wait for the
// connection to be established; the first request does.
func (c *Cluster) Conn(p Purpose, addr string) (*Conn, error) {
	cs, key := &c.conns, connKey{p, addr}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.mu.closed {
		return nil, net.ErrClosed
	}
	if conn := cs.mu.open[key]; conn != nil {
		return conn, nil
	}
	conn := &Conn{Broker: sarama.NewBroker(addr), key: key}
	conn.sock.timeout = cs.opts.DialTimeout
	cfg, err := cs.opts.sarama(p)
	if err != nil {
		return nil, err
	}
	cfg.Net.Proxy.Enable, cfg.Net.Proxy.Dialer = true, &conn.sock
	if err := conn.Open(cfg); err != nil {
		return nil, fmt.Errorf("connection to %s: %w", addr, err)
	}
	cs.mu.open[key] = conn
	return conn, nil
}

// Drop closes a connection that failed; the next Conn opens a new one. It does not wait.
func (c *Cluster) Drop(conn *Conn) {
	cs := &c.conns
	cs.mu.Lock()
	if cs.mu.open[conn.key] == conn {
		delete(cs.mu.open, conn.key)
	}
	cs.mu.Unlock()
	conn.Cut()
	cs.closing.Go(func() { _ = conn.Close() }) // it is already cut; this frees what sarama holds
}

func (cs *connections) close() {
	cs.mu.Lock()
	cs.mu.closed = true
	open := cs.mu.open
	cs.mu.open = nil
	cs.mu.Unlock()
	for _, conn := range open {
		conn.Cut()
		cs.closing.Go(func() { _ = conn.Close() })
	}
	cs.closing.Wait()
}

// Call makes one request on the connection for a purpose. When ctx ends first the connection is cut, which ends the
// request; after an error of the connection it is dropped.
func Call[T any](ctx context.Context, c *Cluster, p Purpose, addr string, request func(*sarama.Broker) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, context.Cause(ctx)
	}
	conn, err := c.Conn(p, addr)
	if err != nil {
		return none, err
	}
	stop := context.AfterFunc(ctx, conn.Cut)
	resp, err := request(conn.Broker)
	if !stop() && err == nil {
		c.Drop(conn) // cut after the answer: the connection is of no use to the next
	}
	if err != nil {
		c.Drop(conn)
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		return none, err
	}
	return resp, nil
}
