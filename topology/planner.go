package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/step"
)

// NewPlan lays the graph of a new job out over the given number of subtasks. partitions must have the count of each of the
// graph's topics.
func NewPlan(graph *Graph, partitions Partitions, subtasks int) (*Plan, error) {
	return NewPlanWithGroups(graph, partitions, subtasks, 0)
}

// NewPlanWithGroups is NewPlan for a job that goes on from a checkpoint: its state is kept by the key groups that it
// started with, whatever the partition counts have become since. With 0 groups the number is chosen.
func NewPlanWithGroups(graph *Graph, partitions Partitions, subtasks, groups int) (*Plan, error) {
	if subtasks < 1 {
		return nil, errors.New("a plan needs at least one subtask")
	}
	l, err := layoutOf(graph, partitions, subtasks, groups)
	if err != nil {
		return nil, err
	}
	p := planner{
		graph: graph, partitions: partitions, layout: l, streams: map[string]*stream{}, edges: map[edgeKey]*stream{},
		plan: &Plan{Job: graph.Job, Groups: l.groups, Subtasks: subtasks, Chains: []Chain{{Name: "sources"}}},
	}
	p.sources()
	for i := range graph.Operators {
		p.operator(&graph.Operators[i])
	}
	for i := range graph.Sinks {
		p.sink(&graph.Sinks[i])
	}
	p.deadLetters()
	return p.plan, nil
}

func layoutOf(graph *Graph, partitions Partitions, subtasks, groups int) (layout, error) {
	inputs, outputs := graph.Topics()
	var missing []string
	count := func(topics []string) (counts []int) {
		for _, t := range topics {
			if partitions[t] < 1 {
				missing = append(missing, t)
				continue
			}
			counts = append(counts, partitions[t])
		}
		return counts
	}
	in, out := count(inputs), count(outputs)
	if len(missing) > 0 {
		return layout{}, fmt.Errorf("the number of partitions is not known of topic %s", strings.Join(missing, ", "))
	}
	if groups == 0 {
		return newLayout(in, out, subtasks)
	}
	for _, t := range outputs {
		if groups%partitions[t] != 0 {
			return layout{}, fmt.Errorf("the output topic %s has %d partitions now, and the job's %d key groups cannot be spread "+
				"over them as Kafka's clients would; give it a count that divides %d, or write to a new topic", t, partitions[t],
				groups, groups)
		}
	}
	return spread(groups, in, out, subtasks), nil
}

// planner builds one plan.
type planner struct {
	graph      *Graph
	partitions Partitions
	layout     layout
	plan       *Plan
	streams    map[string]*stream
	// edges are those that lead to a chain of their own, for reuse by a second consumer of the same records.
	edges map[edgeKey]*stream
	// rejects are the steps whose records a policy may send to a dead-letter topic.
	rejects []rejecting
}

type edgeKey struct {
	from  origin
	route int
}

// origin is what hands records on.
type origin struct {
	kind  originKind
	index int
}

type originKind uint8

const (
	fromSource originKind = iota
	fromStep
	fromEdge
)

// stream is the records that several origins of one chain hand on.
type stream struct {
	origins []origin
	chain   int
	shape   format.Shape
	// route is the partition count of the route by which each record lies with the owner of its key group, mainRoute, or
	// unrouted.
	route int
	// policies are what on_error says for the records of each source.
	policies map[int32]ErrorPolicy
}

const (
	unrouted  = -1
	mainRoute = 0
)

// routeTo is the route that brings records to the owners of the partitions of topic.
func (p *planner) routeTo(topic string) int {
	if n := p.partitions[topic]; !p.layout.follows(n) {
		return n
	}
	return mainRoute
}

func (p *planner) route(route int) []int32 {
	switch route {
	case unrouted:
		return nil
	case mainRoute:
		return p.layout.main()
	}
	return p.layout.own(route)
}

// connect makes t a target of every origin of s.
func (p *planner) connect(s *stream, t Target) {
	for _, o := range s.origins {
		var out *[]Target
		switch o.kind {
		case fromSource:
			out = &p.plan.Sources[o.index].Out
		case fromStep:
			out = &p.plan.Steps[o.index].Out
		case fromEdge:
			out = &p.plan.Edges[o.index].Out
		}
		if !slices.Contains(*out, t) {
			*out = append(*out, t)
		}
	}
}

func (p *planner) sources() {
	for i, s := range p.graph.Sources {
		p.plan.Sources = append(p.plan.Sources, Source{
			Name: s.Name, Topic: s.Topic, Start: s.Start, Owner: p.layout.readers(p.partitions[s.Topic]),
		})
		p.streams[s.Name] = &stream{
			origins: []origin{{fromSource, i}}, route: unrouted, shape: s.Shape,
			policies: map[int32]ErrorPolicy{int32(i): s.OnError},
		}
	}
}

// append adds a step behind s and returns the stream of its results.
func (p *planner) append(s *stream, st Step) *stream {
	st.Chain = s.chain
	i := len(p.plan.Steps)
	p.plan.Steps = append(p.plan.Steps, st)
	p.connect(s, Target{ToStep, i})
	next := *s
	next.origins = []origin{{fromStep, i}}
	p.rejects = append(p.rejects, rejecting{step: i, shape: s.shape, policies: s.policies})
	return &next
}

func (p *planner) operator(o *OperatorNode) {
	in := p.inputs(o)
	if o.Key != nil {
		for i := range in {
			in[i] = p.rekey(o.Name, o.Key, in[i])
		}
	}
	route := unrouted
	if o.Keyed {
		route = mainRoute
	}
	all := p.gather(o.Name, in, route)
	all.shape = o.In
	out := p.append(all, Step{Name: o.Name, Does: o.Does, New: o.New, Keyed: o.Keyed, Layout: o.Layout})
	out.shape = o.Out
	p.streams[o.Name] = out
}

// inputs are the streams that an operator reads, those of one chain as one.
func (p *planner) inputs(o *OperatorNode) []*stream {
	var inputs []*stream
	for _, from := range o.From {
		s := *p.streams[from]
		s.shape = o.In
		if o.OnError != nil {
			s.policies = override(s.policies, *o.OnError)
		}
		i := slices.IndexFunc(inputs, func(other *stream) bool { return other.chain == s.chain })
		if i < 0 {
			inputs = append(inputs, &s)
			continue
		}
		inputs[i] = union([]*stream{inputs[i], &s}, s.chain)
	}
	return inputs
}

func override(policies map[int32]ErrorPolicy, by ErrorPolicy) map[int32]ErrorPolicy {
	all := map[int32]ErrorPolicy{}
	for source := range policies {
		all[source] = by
	}
	return all
}

func (p *planner) rekey(name string, k *KeyChange, in *stream) *stream {
	s := p.append(in, Step{Name: name + ".key", Does: "key " + k.String(), New: k.build})
	s.route = unrouted
	return s
}

// gather brings streams together in one chain, by the given route where that is one. A stream that lies right already
// stays where it is.
func (p *planner) gather(name string, inputs []*stream, route int) *stream {
	if len(inputs) == 1 {
		if route == unrouted {
			route = inputs[0].route
		}
		return p.move(name, inputs[0], route)
	}
	chain := p.chain(name)
	var moved []*stream
	for _, s := range inputs {
		by := route
		if s.route == route {
			by = unrouted
		}
		moved = append(moved, p.edge(name, s, by, chain))
	}
	return union(moved, chain)
}

// union is several streams of one chain as one.
func union(inputs []*stream, chain int) *stream {
	all := &stream{chain: chain, shape: inputs[0].shape, route: inputs[0].route, policies: map[int32]ErrorPolicy{}}
	for _, s := range inputs {
		all.origins = append(all.origins, s.origins...)
		for source, policy := range s.policies {
			all.policies[source] = stricter(all.policies, source, policy)
		}
		if s.route != all.route {
			all.route = unrouted
		}
	}
	return all
}

// stricter settles what holds where records of one source arrive on two ways with different policies: what loses less.
func stricter(policies map[int32]ErrorPolicy, source int32, other ErrorPolicy) ErrorPolicy {
	rank := []int{Fail: 0, DeadLetter: 1, Drop: 2}
	if known, ok := policies[source]; ok && rank[known.Policy] <= rank[other.Policy] {
		return known
	}
	return other
}

// move sends a stream by a route to a chain of its own, which a second consumer of the same records shares.
func (p *planner) move(name string, s *stream, route int) *stream {
	if s.route == route {
		return s
	}
	if len(s.origins) == 1 {
		key := edgeKey{s.origins[0], route}
		if shared := p.edges[key]; shared != nil {
			again := *shared
			again.shape, again.policies = s.shape, s.policies
			return &again
		}
	}
	moved := p.edge(name, s, route, p.chain(name))
	if len(s.origins) == 1 {
		p.edges[edgeKey{s.origins[0], route}] = moved
	}
	return moved
}

func (p *planner) chain(name string) int {
	p.plan.Chains = append(p.plan.Chains, Chain{Name: name})
	return len(p.plan.Chains) - 1
}

// edge leads s into chain to, by a route or, unrouted, within the subtask.
func (p *planner) edge(name string, s *stream, route, to int) *stream {
	e := len(p.plan.Edges)
	p.plan.Edges = append(p.plan.Edges, Edge{
		Name: p.plan.Chains[s.chain].Name + " to " + name, From: s.chain, To: to, Route: p.route(route),
	})
	p.plan.Chains[to].Inputs = append(p.plan.Chains[to].Inputs, e)
	p.connect(s, Target{ToEdge, e})
	next := *s
	next.origins, next.chain = []origin{{fromEdge, e}}, to
	if route != unrouted {
		next.route = route
	}
	return &next
}

// sink leads each stream of a sink to the owners of the output's partitions, and encodes it there.
func (p *planner) sink(k *SinkNode) {
	output := p.output(k.Name, k.Topic, false)
	for i, from := range k.From {
		name := k.Name
		if len(k.From) > 1 {
			name += "." + from
		}
		s := p.streams[from]
		in := k.Inputs[i]
		if in.Key != nil {
			s = p.rekey(name, in.Key, s)
		}
		s = p.move("sink "+name, s, p.routeTo(k.Topic))
		if in.Encode {
			s = p.append(s, encodeStep(name+".encode", in.Shape, k.Format))
		}
		p.connect(s, Target{ToOutput, output})
	}
}

func encodeStep(name string, from format.Shape, to format.Format) Step {
	does := "write " + from.Format.String() + " as " + to.String()
	return Step{Name: name, Does: does, New: func(ctx OperatorContext) (Operator, error) {
		encoder, err := format.NewEncoder(from, to)
		if err != nil {
			return nil, err
		}
		return step.NewEach(encoder, ctx.Reject), nil
	}}
}

// output returns the index of the output that writes to topic: there is one for each topic, so that a partition has one
// writer.
func (p *planner) output(name, topic string, deadLetter bool) int {
	i := slices.IndexFunc(p.plan.Outputs, func(o Output) bool { return o.Topic == topic })
	if i < 0 {
		i = len(p.plan.Outputs)
		p.plan.Outputs = append(p.plan.Outputs, Output{
			Name: name, Topic: topic, Partitions: int32(p.partitions[topic]), DeadLetter: deadLetter,
		})
	}
	return i
}

// rejecting is a step with the policies for the records that it cannot process.
type rejecting struct {
	step     int
	shape    format.Shape
	policies map[int32]ErrorPolicy
}

// deadLetters fills in what becomes of rejected records. They all meet in one last chain, by the routes of their topics.
func (p *planner) deadLetters() {
	rejects := p.rejects
	chain := -1
	edges := map[[2]string]*stream{}
	for _, r := range rejects {
		list := make([]Rejection, len(p.plan.Sources))
		for source, policy := range r.policies {
			list[source].Policy = policy.Policy
			if policy.Policy != DeadLetter {
				continue
			}
			if chain < 0 {
				chain = p.chain("dead letters")
			}
			list[source].To = []Target{p.deadLetter(r, policy.Topic, chain, edges)}
		}
		p.plan.Steps[r.step].Rejections = list
	}
}

// deadLetter returns where the rejected records of a step go on their way to topic.
func (p *planner) deadLetter(r rejecting, topic string, chain int, edges map[[2]string]*stream) Target {
	from := p.plan.Steps[r.step].Chain
	key := [2]string{fmt.Sprint(from), topic}
	s := edges[key]
	if s == nil {
		s = p.edge(topic, &stream{chain: from, route: unrouted}, p.routeTo(topic), chain)
		p.connect(s, Target{ToOutput, p.output(topic, topic, true)})
		edges[key] = s
	}
	edge := Target{ToEdge, s.origins[0].index}
	if r.shape.Format != format.Row {
		return edge
	}
	// A row is readable to nobody outside: it goes as JSON.
	p.plan.Steps = append(p.plan.Steps, Step{
		Name: p.plan.Steps[r.step].Name + ".reject", Does: "write row as json", Chain: from, Out: []Target{edge},
		New: func(ctx OperatorContext) (Operator, error) {
			return step.NewEach(format.NewRejectEncoder(r.shape), ctx.Reject), nil
		},
	})
	return Target{ToStep, len(p.plan.Steps) - 1}
}

// DeadLetter returns r as it goes to a dead-letter topic: the record as the operator called name got it, with headers that
// say where it came from and why it is there. The bytes are copied.
func (p *Plan) DeadLetter(name string, r *record.Record, cause error) record.Record {
	dead := *r
	dead.Key, dead.Value = slices.Clone(r.Key), slices.Clone(r.Value)
	dead.Headers = nil
	for _, h := range r.Headers {
		dead.Headers = append(dead.Headers, record.Header{Key: slices.Clone(h.Key), Value: slices.Clone(h.Value)})
	}
	source := p.Sources[r.Source]
	for _, h := range [][2]string{
		{"weir.error", cause.Error()}, {"weir.operator", name}, {"weir.source", source.Name}, {"weir.topic", source.Topic},
		{"weir.partition", fmt.Sprint(r.Partition)}, {"weir.offset", fmt.Sprint(r.Offset)},
	} {
		dead.Headers = append(dead.Headers, record.Header{Key: []byte(h[0]), Value: []byte(h[1])})
	}
	return dead
}
