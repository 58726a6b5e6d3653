package task

import (
	"github.com/weirstream/weir/exchange"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology"
)

// edge is this subtask's end of an edge of the plan, seen from the sending chain.
type edge struct {
	to    *chain
	local *exchange.Channel
	// input is the index of the local channel among the inputs of to.
	input   int
	targets []topology.Target
	route   []int32
	// out has a channel for each subtask, and filling the batch that is being made for it; both are nil for this one.
	out     []*exchange.Channel
	filling []*record.Batch
}

func (s *Subtask) buildEdge(e int) {
	pe := s.opts.Plan.Edges[e]
	me, to := s.opts.Index, s.chains[pe.To]
	d := edge{
		to: to, local: s.opts.Mesh.Channel(e, me, me), targets: pe.Out, route: pe.Route,
		out: make([]*exchange.Channel, s.opts.Plan.Subtasks), filling: make([]*record.Batch, s.opts.Plan.Subtasks),
	}
	for other := range s.opts.Plan.Subtasks {
		if ch := s.opts.Mesh.Channel(e, other, me); ch != nil {
			if other == me {
				d.input = len(to.inputs)
			}
			to.inputs = append(to.inputs, input{channel: ch, targets: pe.Out})
		}
		if ch := s.opts.Mesh.Channel(e, me, other); ch != nil {
			s.chains[pe.From].out = append(s.chains[pe.From].out, ch)
			if other != me {
				d.out[other] = ch
			}
		}
	}
	s.edges[e] = d
}

// route sends the records of b to the subtasks that own their key groups; its own share runs on at once.
func (s *Subtask) route(e int, b *record.Batch) error {
	d := &s.edges[e]
	if d.route != nil {
		s.split(d, b)
	}
	if len(b.Records) == 0 {
		return nil
	}
	if d.local.Empty() && !d.to.aligner.Held(d.input) && s.ready(d.to) {
		return s.deliver(d.targets, b)
	}
	d.local.Send(exchange.Message{Batch: s.copyOf(b)})
	return nil
}

// split leaves the records of this subtask in b and sends the others away.
func (s *Subtask) split(d *edge, b *record.Batch) {
	kept, groups, me := 0, s.opts.Plan.Groups, int32(s.opts.Index)
	for i := range b.Records {
		r := &b.Records[i]
		to := d.route[topology.EnsureGroup(r, groups)]
		if to != me {
			s.fill(d, to, r)
			continue
		}
		if kept != i {
			b.Records[kept] = *r
		}
		kept++
	}
	if kept == len(b.Records) {
		return
	}
	b.Records = b.Records[:kept]
	for to, f := range d.filling {
		if f != nil {
			d.filling[to] = nil
			d.out[to].Send(exchange.Message{Batch: f})
		}
	}
}

func (s *Subtask) fill(d *edge, to int32, r *record.Record) {
	f := d.filling[to]
	if f == nil {
		f = s.opts.Mesh.Take()
		d.filling[to] = f
	}
	f.Records = append(f.Records, *r)
	f.Bytes += recordBytes(r)
}

// copyOf returns a batch of its own for the queue; b goes back to where it came from.
func (s *Subtask) copyOf(b *record.Batch) *record.Batch {
	f := s.opts.Mesh.Take()
	f.Records = append(f.Records[:0], b.Records...)
	for i := range b.Records {
		f.Bytes += recordBytes(&b.Records[i])
	}
	return f
}

// recordOverhead is about the size of record.Record.
const recordOverhead = 112

func recordBytes(r *record.Record) int { return len(r.Key) + len(r.Value) + recordOverhead }
