package task

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology"
)

// Subtask is one share of a job in one goroutine.
type Subtask struct {
	opts      Options
	chains    []*chain
	edges     []edge
	steps     []step
	positions map[record.SourcePartition]record.Position
	// sinks counts the chains that write to outputs; sunk those of them that have passed the barrier now on its way.
	sinks, sunk int
	open        []*checkpoint
	started     bool
	final       bool
	handoff     chan *checkpoint
	written     atomic.Int64
	writtenMore chan struct{}
	commands    struct {
		sync.Mutex
		begin    *record.Identity
		triggers []record.Barrier
	}
	stats Stats
}

// flushTurns is the number of busy turns after which a sink that is never idle sends its partial batches all the same.
const flushTurns = 64

// New builds the operators of a subtask.
func New(o Options) (*Subtask, error) {
	s := &Subtask{
		opts: o, positions: o.Positions,
		handoff:     make(chan *checkpoint, o.InFlight),
		writtenMore: make(chan struct{}, 1),
	}
	s.buildChains()
	if err := s.buildSteps(); err != nil {
		return nil, err
	}
	return s, nil
}

// Begin lets the subtask start reading, writing to the transaction given. Any goroutine may call it, once.
func (s *Subtask) Begin(first record.Identity) {
	s.commands.Lock()
	s.commands.begin = &first
	s.commands.Unlock()
	s.opts.Waker.Wake()
}

// Trigger injects a barrier at the sources. Any goroutine may call it, in the order of the checkpoints.
func (s *Subtask) Trigger(b record.Barrier) {
	s.commands.Lock()
	s.commands.triggers = append(s.commands.triggers, b)
	s.commands.Unlock()
	s.opts.Waker.Wake()
}

// Written tells that all writes of checkpoint n are acknowledged. Any goroutine may call it.
func (s *Subtask) Written(n record.CheckpointID) {
	s.written.Store(int64(n))
	select {
	case s.writtenMore <- struct{}{}:
	default:
	}
}

// Run processes until the final barrier has passed and its checkpoint is reported, ctx ends, or an error ends the
// attempt.
func (s *Subtask) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	saved := make(chan error, 1)
	go func() {
		err := s.snapshots(ctx)
		if err != nil {
			cancel()
		}
		saved <- err
	}()
	err := s.loop(ctx)
	close(s.handoff)
	if err != nil {
		cancel()
	}
	if saveErr := <-saved; saveErr != nil && (err == nil || ctx.Err() != nil) {
		err = saveErr
	}
	if err != nil {
		return fmt.Errorf("subtask %d: %w", s.opts.Index, err)
	}
	return nil
}

func (s *Subtask) loop(ctx context.Context) error {
	for turn := 1; !s.final || len(s.open) > 0; turn++ {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		worked, err := s.turn()
		if err != nil {
			return err
		}
		if worked && turn%flushTurns != 0 {
			continue
		}
		s.opts.Sink.Flush()
		if worked {
			continue
		}
		select {
		case <-s.opts.Waker:
		case <-ctx.Done():
		}
	}
	return nil
}

// turn does one round over commands and chains, the last chain first, and tells whether anything was done.
func (s *Subtask) turn() (worked bool, err error) {
	if err := s.tidy(); err != nil {
		return false, err
	}
	if worked, err = s.obey(); err != nil {
		return false, err
	}
	for i := len(s.chains) - 1; i > 0; i-- {
		did, err := s.drain(s.chains[i])
		if err != nil {
			return false, err
		}
		worked = worked || did
	}
	did, err := s.read()
	return worked || did, err
}

// obey carries out what the coordinator asked for.
func (s *Subtask) obey() (bool, error) {
	s.commands.Lock()
	begin, triggers := s.commands.begin, s.commands.triggers
	s.commands.begin, s.commands.triggers = nil, nil
	s.commands.Unlock()
	if begin != nil {
		s.opts.Sink.Begin(*begin)
		s.started = true
	}
	for _, b := range triggers {
		if b.Attempt != s.opts.Attempt {
			return false, fmt.Errorf("barrier of attempt %d in attempt %d", b.Attempt, s.opts.Attempt)
		}
		s.final = s.final || b.Final
		if err := s.pass(s.chains[0], b); err != nil {
			return false, err
		}
	}
	return begin != nil || len(triggers) > 0, nil
}

// read takes one batch from the source and runs it as far as it goes.
func (s *Subtask) read() (bool, error) {
	if !s.started || s.final || s.stateFull() || !s.ready(s.chains[0]) {
		return false, nil
	}
	b := s.opts.Source.Poll()
	if b == nil {
		return false, nil
	}
	s.advance(b)
	s.stats.RecordsIn.Add(int64(len(b.Records)))
	err := s.deliver(s.opts.Plan.Sources[b.At.Source].Out, b)
	s.opts.Source.Release(b)
	return true, err
}

// tidy lets the states do their maintenance.
func (s *Subtask) tidy() error {
	for i := range s.steps {
		if st := s.steps[i].state; st != nil {
			if err := st.Tidy(); err != nil {
				return fmt.Errorf("state of operator %s: %w", s.opts.Plan.Steps[i].Name, err)
			}
		}
	}
	return nil
}

// stateFull says that some operator waits for a barrier before it may change more.
func (s *Subtask) stateFull() bool {
	for i := range s.steps {
		if st := s.steps[i].state; st != nil && st.Full() {
			return true
		}
	}
	return false
}

// advance notes how far the partition of b is read.
func (s *Subtask) advance(b *record.Batch) {
	p, ok := s.positions[b.At]
	if !ok {
		p = s.opts.Source.Position(b.At)
	}
	p.Offset, p.LeaderEpoch = b.Next, b.LeaderEpoch
	s.positions[b.At] = p
}

// deliver passes b on to each target. It leaves b to the caller, whatever the targets did with its records.
func (s *Subtask) deliver(targets []topology.Target, b *record.Batch) error {
	for i, t := range targets {
		if len(b.Records) == 0 {
			return nil
		}
		each := b
		if i < len(targets)-1 {
			each = b.Clone()
		}
		if err := s.deliverTo(t, each); err != nil {
			return err
		}
	}
	return nil
}

func (s *Subtask) deliverTo(t topology.Target, b *record.Batch) error {
	switch t.Kind {
	case topology.ToStep:
		return s.process(t.Index, b)
	case topology.ToEdge:
		return s.route(t.Index, b)
	default:
		s.stats.RecordsOut.Add(int64(len(b.Records)))
		return s.opts.Sink.Write(t.Index, b.Records)
	}
}
