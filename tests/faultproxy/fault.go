package faultproxy

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kind is what happens to a request.
type Kind string

// The kinds of fault.
const (
	// LoseRequest resets the connection before the broker has seen anything of the request.
	LoseRequest Kind = "request lost"
	// HalfRequest gives the broker half of the request, then resets both sides.
	HalfRequest Kind = "half a request"
	// LoseAnswer lets the broker carry the request out and resets the client's side in place of the answer.
	LoseAnswer Kind = "answer lost"
	// HalfAnswer does the same after half of the answer.
	HalfAnswer Kind = "half an answer"
	// Late resets the client's side at once, and gives the request to the broker after Fault.Delay, when the client may long
	// have tried again elsewhere.
	Late Kind = "request late"
	// Slow keeps the request, and all behind it on its connection, for Fault.Delay.
	Slow Kind = "request slow"
)

// Fault is something to happen to requests.
type Fault struct {
	Kind Kind
	// Requests are the kinds of request that it happens to; none means all.
	Requests []kmsg.Key
	// After lets that many matching requests pass first.
	After int
	// Count ends the fault after so many hits; 0 means never.
	Count int
	// Delay is for Late and Slow.
	Delay time.Duration
}

// Armed is a fault in force.
type Armed struct {
	fault Fault
	proxy *Proxy
	seen  int
	hits  int
	hit   chan struct{}
}

// Hits is how often the fault has happened.
func (a *Armed) Hits() int {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	return a.hits
}

// Done is closed once the fault has happened Count times; never for a Count of 0.
func (a *Armed) Done() <-chan struct{} { return a.hit }

// Disarm ends the fault.
func (a *Armed) Disarm() {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	a.proxy.mu.armed = slices.DeleteFunc(a.proxy.mu.armed, func(b *Armed) bool { return a == b })
}

// Inject puts a fault into force. Where several match a request, the oldest happens.
func (p *Proxy) Inject(f Fault) *Armed {
	a := &Armed{fault: f, proxy: p, hit: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.armed = append(p.mu.armed, a)
	return a
}

// match returns the fault that happens to a request of this kind.
func (p *Proxy) match(request kmsg.Key) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range p.mu.armed {
		if len(a.fault.Requests) > 0 && !slices.Contains(a.fault.Requests, request) {
			continue
		}
		if a.seen++; a.seen <= a.fault.After {
			continue
		}
		a.hits++
		p.mu.hits[a.fault.Kind]++
		if a.hits == a.fault.Count {
			close(a.hit)
			p.mu.armed = slices.Delete(p.mu.armed, i, i+1)
		}
		return a.fault
	}
	return Fault{}
}
