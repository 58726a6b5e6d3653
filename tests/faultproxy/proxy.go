package faultproxy

import (
	"fmt"
	"maps"
	"net"
	"sync"
	"time"
)

// Direction is a way through the proxy.
type Direction int

// The directions.
const (
	ToBroker Direction = iota
	ToClient
)

// Proxy forwards connections to one broker. Its methods may be called from any goroutine.
//
// It runs one goroutine that accepts, and two for each connection, one a direction. Close waits for all.
type Proxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup
	closing  chan struct{}

	mu struct {
		sync.Mutex
		armed []*Armed
		hits  map[Kind]int
		links map[*link]struct{}
		// delay is what every frame of a direction waits; swallow says that a direction's frames vanish.
		delay   [2]time.Duration
		swallow [2]bool
		refuse  bool
		closed  bool
	}
}

// Listen starts a proxy at addr for the broker at target.
func Listen(addr, target string) (*Proxy, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("fault proxy: %w", err)
	}
	p := &Proxy{listener: l, target: target, closing: make(chan struct{})}
	p.mu.hits, p.mu.links = make(map[Kind]int), make(map[*link]struct{})
	p.running.Go(p.accept)
	return p, nil
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close resets all connections and waits until nothing of the proxy runs. Closing again does nothing.
func (p *Proxy) Close() {
	p.mu.Lock()
	again := p.mu.closed
	p.mu.closed = true
	p.mu.Unlock()
	if again {
		return
	}
	close(p.closing)
	p.listener.Close()
	p.Cut()
	p.running.Wait()
}

// Delay makes every frame of a direction wait, one after the other, on top of what the network takes. 0 ends it.
func (p *Proxy) Delay(way Direction, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.delay[way] = d
}

// Swallow makes the frames of a direction vanish while the connections stay: a route that fails one way. When it ends, the
// connections that have lost something are reset, as their peers would do in the end.
func (p *Proxy) Swallow(way Direction, on bool) {
	p.mu.Lock()
	p.mu.swallow[way] = on
	var torn []*link
	for l := range p.mu.links {
		if !on && l.torn {
			torn = append(torn, l)
		}
	}
	p.mu.Unlock()
	for _, l := range torn {
		l.reset()
	}
}

// Refuse resets every new connection at once, as if nothing listened.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.refuse = on
}

// Cut resets all connections and returns how many there were.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	links := maps.Clone(p.mu.links)
	p.mu.Unlock()
	for l := range links {
		l.reset()
	}
	return len(links)
}

// Hits counts what Inject has made happen, by kind.
func (p *Proxy) Hits() map[Kind]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.mu.hits)
}

// Unanswered names the requests that the broker has had for longer than d without an answer.
func (p *Proxy) Unanswered(d time.Duration) []string {
	p.mu.Lock()
	links := maps.Clone(p.mu.links)
	p.mu.Unlock()
	var all []string
	for l := range links {
		l.mu.Lock()
		for _, r := range l.pending {
			if waits := time.Since(r.since); waits > d {
				all = append(all, fmt.Sprintf("%s to %s, for %v", r.request.Name(), p.target, waits.Round(time.Millisecond)))
			}
		}
		l.mu.Unlock()
	}
	return all
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	broker, err := net.DialTimeout("tcp", p.target, 2*time.Second)
	if err != nil {
		reset(client)
		return
	}
	l := &link{proxy: p, client: client, broker: broker}
	if !p.add(l) {
		l.reset()
		return
	}
	defer p.remove(l)
	p.running.Go(func() {
		defer l.reset()
		_ = l.answers() // how a connection ended does not matter: both of its sides are reset
	})
	defer l.reset()
	_ = l.requests()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.refuse || p.mu.closed {
		return false
	}
	p.mu.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.links, l)
}

// pass waits as long as frames of this direction must, and says whether the frame goes on at all.
func (p *Proxy) pass(l *link, way Direction) bool {
	p.mu.Lock()
	delay, swallow := p.mu.delay[way], p.mu.swallow[way]
	l.torn = l.torn || swallow
	p.mu.Unlock()
	p.sleep(delay)
	return !swallow
}

// sleep returns early when the proxy closes.
func (p *Proxy) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.closing:
	}
}
