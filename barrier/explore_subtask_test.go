package barrier

import (
	"slices"

	"github.com/weirstream/weir/record"
)

// This file is a model of a subtask: chain 0 reads one source and routes records to all subtasks, chain 1 aligns, counts
// and writes to the one output partition that the subtask owns.

// message is a record, or a barrier where barrier.Checkpoint is set.
type message struct {
	effect
	barrier record.Barrier
}

// write is a batch of one record on its way to Kafka.
type write struct {
	checkpoint uint8
	by         ident
	seq        uint8
	effect
}

// snapshot is what a subtask will acknowledge.
type snapshot struct {
	checkpoint      uint8
	position, count uint8
	// passed is set once the barrier is through chain 1, too.
	passed bool
}

// subtask is never written in place where it holds slices: they are shared between worlds.
type subtask struct {
	position, count uint8
	identity        ident
	seq             uint8
	inbox           []record.Barrier
	in              [maxSubtasks][]message
	aligner         *Aligner
	writes          []write
	snapshots       []snapshot
	// writing is the checkpoint that results belong to now.
	writing uint8
}

func (s *subtask) clone() subtask {
	c := *s
	a := *s.aligner
	a.last = slices.Clone(a.last)
	c.aligner = &a
	return c
}

func push[T any](s []T, v T) []T { return append(slices.Clip(s), v) }

// poll reads the next record of subtask i's source into a channel.
func (p *process) poll(cfg *config, i int) {
	s := &p.subs[i]
	to := i
	if !cfg.direct {
		to = (i + int(s.position)) % cfg.subtasks
	}
	p.send(cfg, i, to, message{effect: effect{source: uint8(i), record: s.position}})
	s.position++
}

// pass lets the oldest trigger through chain 0 of subtask i.
func (p *process) pass(cfg *config, i int) {
	s := &p.subs[i]
	b := s.inbox[0]
	s.inbox = s.inbox[1:]
	s.snapshots = push(s.snapshots, snapshot{checkpoint: uint8(b.Checkpoint), position: s.position})
	for to := range cfg.subtasks {
		if !cfg.direct || to == i {
			p.send(cfg, i, to, message{barrier: b})
		}
	}
}

func (p *process) send(cfg *config, from, to int, m message) {
	s := &p.subs[to]
	if cfg.direct { // the co-partitioned path stays in one goroutine
		p.handle(cfg, to, from, m)
		return
	}
	s.in[from] = push(s.in[from], m)
}

// receive takes the next message of a channel.
func (p *process) receive(cfg *config, i, from int) {
	s := &p.subs[i]
	m := s.in[from][0]
	s.in[from] = s.in[from][1:]
	p.handle(cfg, i, from, m)
}

func (p *process) handle(cfg *config, i, from int, m message) {
	s := &p.subs[i]
	if m.barrier.Checkpoint == 0 {
		s.count++
		m.effect.n = s.count
		s.writes = push(s.writes, write{s.writing, s.identity, s.seq, m.effect})
		s.seq++
		return
	}
	if cfg.direct {
		from = 0
	}
	done, err := s.aligner.Arrive(from, m.barrier)
	if err != nil {
		p.fail(err)
		return
	}
	if cfg.bug == bugDropBuffered && !done && len(s.in[from]) > 0 && s.in[from][0].barrier.Checkpoint == 0 {
		s.in[from] = s.in[from][1:]
	}
	if !done {
		return
	}
	s.snapshots = slices.Clone(s.snapshots)
	for j := range s.snapshots {
		if s.snapshots[j].checkpoint == uint8(m.barrier.Checkpoint) {
			s.snapshots[j].count, s.snapshots[j].passed = s.count, true
		}
	}
	s.identity, s.seq, s.writing = identOf(m.barrier.Next), 0, uint8(m.barrier.Checkpoint)+1
}

// acknowledgeable says whether the oldest snapshot of subtask i is complete.
func (p *process) acknowledgeable(cfg *config, i int) bool {
	s := &p.subs[i]
	if len(s.snapshots) == 0 || !s.snapshots[0].passed {
		return false
	}
	return cfg.bug == bugAckBeforeWritten || len(s.writes) == 0 || s.writes[0].checkpoint > s.snapshots[0].checkpoint
}

func (s *subtask) key(b []byte) []byte {
	b = append(b, s.position, s.count, s.identity.slot, s.identity.generation, s.seq, s.writing)
	b = append(b, byte(len(s.inbox)))
	for _, m := range s.inbox {
		b = append(b, byte(m.Checkpoint))
	}
	for _, ch := range s.in {
		b = append(b, byte(len(ch)))
		for _, m := range ch {
			b = append(b, m.source, m.record, byte(m.barrier.Checkpoint))
		}
	}
	for i := range s.aligner.last {
		b = append(b, byte(s.aligner.last[i]))
	}
	b = append(b, byte(s.aligner.passed), byte(s.aligner.newest.Checkpoint), byte(s.aligner.end), byte(len(s.writes)))
	for _, w := range s.writes {
		b = append(b, w.checkpoint, w.by.slot, w.by.generation, w.seq, w.source, w.record, w.n)
	}
	b = append(b, byte(len(s.snapshots)))
	for _, sn := range s.snapshots {
		b = append(b, sn.checkpoint, sn.position, sn.count, flag(sn.passed))
	}
	return b
}
