package task

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/weirstream/weir/barrier"
	"github.com/weirstream/weir/exchange"
	"github.com/weirstream/weir/internal/planted"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology"
)

// chain is the runtime of one chain: where its records come from and what must have room before it may run.
type chain struct {
	inputs  []input
	aligner *barrier.Aligner
	steps   []int
	out     []*exchange.Channel
	sinks   bool
	// first is when the barrier that is being aligned arrived first, zero where none is.
	first time.Time
	// waiting is set between this chain's barrier and that of the last chain with a sink.
	waiting bool
}

// input is one channel that ends in a chain.
type input struct {
	channel *exchange.Channel
	targets []topology.Target
}

// step is the runtime of one operator.
type step struct {
	operator topology.Operator
	state    State
	// owed holds what the operator emits at a barrier.
	owed record.Batch
}

func (s *Subtask) buildChains() {
	p := s.opts.Plan
	s.chains = make([]*chain, len(p.Chains))
	for i := range p.Chains {
		s.chains[i] = &chain{}
	}
	s.edges = make([]edge, len(p.Edges))
	for e := range p.Edges {
		s.buildEdge(e)
	}
	for _, c := range s.chains {
		if len(c.inputs) > 0 {
			c.aligner = barrier.NewAligner(len(c.inputs), barrier.Aligned)
		}
	}
	for i, st := range p.Steps {
		s.chains[st.Chain].steps = append(s.chains[st.Chain].steps, i)
	}
	s.markSinks()
}

// markSinks finds the chains that write to outputs.
func (s *Subtask) markSinks() {
	p := s.opts.Plan
	mark := func(chain int, out []topology.Target) {
		for _, t := range out {
			s.chains[chain].sinks = s.chains[chain].sinks || t.Kind == topology.ToOutput
		}
	}
	for _, src := range p.Sources {
		mark(0, src.Out)
	}
	for _, st := range p.Steps {
		mark(st.Chain, st.Out)
	}
	for _, e := range p.Edges {
		mark(e.To, e.Out)
	}
	for _, c := range s.chains {
		if c.sinks {
			s.sinks++
		}
	}
}

func (s *Subtask) buildSteps() error {
	s.steps = make([]step, len(s.opts.Plan.Steps))
	for i, st := range s.opts.Plan.Steps {
		if err := s.buildStep(i, st); err != nil {
			return fmt.Errorf("operator %s: %w", st.Name, err)
		}
	}
	return nil
}

func (s *Subtask) buildStep(i int, st topology.Step) (err error) {
	if st.Keyed {
		if s.steps[i].state, err = s.opts.State(i); err != nil {
			return err
		}
	}
	s.steps[i].operator, err = st.New(topology.OperatorContext{
		Groups: s.opts.Plan.Groups,
		State: func(name string) (topology.Table, error) {
			if s.steps[i].state == nil {
				return nil, errors.New("the plan gives this operator no state")
			}
			return s.steps[i].state.Table(name)
		},
		Reject:     func(r *record.Record, cause error) error { return s.reject(i, r, cause) },
		SourceName: func(source int32) string { return s.opts.Plan.Sources[source].Name },
		TopicName:  func(source int32) string { return s.opts.Plan.Sources[source].Topic },
	})
	return err
}

// reject deals with a record that step i cannot process, by the policy of the source that it comes from.
func (s *Subtask) reject(i int, r *record.Record, cause error) error {
	st := &s.opts.Plan.Steps[i]
	rejection := st.Rejection(r.Source)
	switch rejection.Policy {
	case topology.Drop:
		s.stats.Dropped.Add(1)
		return nil
	case topology.DeadLetter:
		s.stats.DeadLetters.Add(1)
		dead := record.Batch{Records: []record.Record{s.opts.Plan.DeadLetter(st.Name, r, cause)}}
		return s.deliver(rejection.To, &dead)
	}
	if r.Source < 0 {
		return &RecordError{Operator: st.Name, Cause: cause}
	}
	src := &s.opts.Plan.Sources[r.Source]
	return &RecordError{Operator: st.Name, Source: src.Name, Topic: src.Topic, Partition: r.Partition, Offset: r.Offset, Cause: cause}
}

// process runs one operator and what follows it.
func (s *Subtask) process(i int, b *record.Batch) error {
	if err := s.call(i, func(op topology.Operator) error { return op.Process(b) }); err != nil {
		return err
	}
	return s.deliver(s.opts.Plan.Steps[i].Out, b)
}

// call names the operator in its errors, a panic among them.
func (s *Subtask) call(i int, f func(topology.Operator) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w %s: panic: %v\n%s", ErrOperator, s.opts.Plan.Steps[i].Name, p, debug.Stack())
		}
	}()
	if err = f(s.steps[i].operator); err != nil {
		err = fmt.Errorf("%w %s: %w", ErrOperator, s.opts.Plan.Steps[i].Name, err)
	}
	return err
}

// ready says whether the results of c have somewhere to go.
func (s *Subtask) ready(c *chain) bool {
	if c.waiting || c.sinks && s.opts.Sink.Full() {
		return false
	}
	for _, ch := range c.out {
		if ch.Full() {
			return false
		}
	}
	return true
}

// drain takes one message from each input of c that may deliver.
func (s *Subtask) drain(c *chain) (worked bool, err error) {
	for i := range c.inputs {
		if c.aligner.Held(i) {
			continue
		}
		if !s.ready(c) {
			return worked, nil
		}
		m, ok := c.inputs[i].channel.Receive()
		if !ok {
			continue
		}
		worked = true
		if err := s.receive(c, i, m); err != nil {
			return worked, err
		}
	}
	return worked, nil
}

func (s *Subtask) receive(c *chain, input int, m exchange.Message) error {
	if m.Batch != nil {
		if planted.Is(planted.DropBuffered) && planted.Now() {
			m.Batch.Records = m.Batch.Records[1:]
		}
		err := s.deliver(c.inputs[input].targets, m.Batch)
		s.opts.Mesh.Recycle(m.Batch)
		return err
	}
	if c.first.IsZero() {
		c.first = time.Now()
	}
	aligned, err := c.aligner.Arrive(input, m.Barrier)
	if err != nil || !aligned {
		return err
	}
	cp := s.checkpointOf(m.Barrier)
	cp.aligned = max(cp.aligned, time.Since(c.first))
	c.first = time.Time{}
	return s.pass(c, m.Barrier)
}
