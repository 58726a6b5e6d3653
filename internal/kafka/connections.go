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

// String names the purpose, for errors and logs.
func (p Purpose) String() string {
	return [...]string{"control", "transaction", "fetch", "produce", "ledger"}[p]
}

type connKey struct {
	purpose Purpose
	addr    string
}

// connections are the open connections of a cluster.
type connections struct {
	dial    time.Duration
	tls     TLS
	configs [Ledger + 1]*sarama.Config
	mu      struct {
		sync.Mutex
		open   map[connKey]*Conn
		closed bool
	}
	closing sync.WaitGroup
}

// init checks everything of the options that can be checked without a broker.
func (cs *connections) init(o Options) error {
	if o.TLS.Enable {
		if _, err := o.TLS.config(""); err != nil {
			return err
		}
	}
	sasl := o.SASL.settings()
	for p := range cs.configs {
		cs.configs[p] = o.sarama(Purpose(p), sasl)
	}
	cs.dial, cs.tls = or(o.DialTimeout, defaultDialTimeout), o.TLS
	cs.mu.open = map[connKey]*Conn{}
	return nil
}

// Conn is one connection to a broker.
type Conn struct {
	*sarama.Broker
	key  connKey
	sock *socket
}

// Cut ends whatever waits on the connection, now. Any goroutine may call it, a callback of the connection too.
func (c *Conn) Cut() { c.sock.cut() }

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
	conn := &Conn{Broker: sarama.NewBroker(addr), key: key, sock: newSocket(cs.dial, cs.tls)}
	cfg := *cs.configs[p]
	cfg.Net.Proxy.Enable, cfg.Net.Proxy.Dialer = true, conn.sock
	if err := conn.Open(&cfg); err != nil {
		return nil, fmt.Errorf("connection to %s: %w", addr, err)
	}
	cs.mu.open[key] = conn
	return conn, nil
}

// Drop closes a connection that failed; the next Conn opens a new one. It does not wait.
func (c *Cluster) Drop(conn *Conn) {
	conn.Cut()
	cs := &c.conns
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.mu.open[conn.key] == conn { // otherwise somebody else has dropped it, or the cluster is being closed
		delete(cs.mu.open, conn.key)
		cs.release(conn)
	}
}

// release frees what sarama holds for a connection that is cut. sarama waits for its receiver, which may be in a callback
// that is about to take a lock of the caller: hence a goroutine. The lock is held, so none starts once close waits.
func (cs *connections) release(conn *Conn) {
	cs.closing.Go(func() { _ = conn.Close() }) // it is cut: what Close has to say is known
}

func (cs *connections) close() {
	cs.mu.Lock()
	cs.mu.closed = true
	for key, conn := range cs.mu.open {
		delete(cs.mu.open, key)
		conn.Cut()
		cs.release(conn)
	}
	cs.mu.Unlock()
	cs.closing.Wait()
}

// Call makes one request on the connection for a purpose. When ctx ends first the connection is cut, which ends the
// request; after an error of the connection it is dropped. The error names the broker.
func Call[T any](ctx context.Context, c *Cluster, p Purpose, addr string, request func(*sarama.Broker) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, context.Cause(ctx)
	}
	conn, err := c.Conn(p, addr)
	if err != nil {
		return none, &brokerError{addr, err}
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
		return none, &brokerError{addr, err}
	}
	return resp, nil
}
