package barrier

import (
	"errors"
	"slices"

	"github.com/weirstream/weir/record"
)

// This file is a model of one instance: the real Coordinator, with a driver that carries its actions out one step at a
// time.

// mode is what a process is doing.
type mode uint8

const (
	recovering mode = iota
	running
	ended
	finished
)

// slotOp is the action under way for a transactional id.
type slotOp uint8

const (
	idle slotOp = iota
	toOpen
	toAbort
	toRelease
)

// commitStage is how far the commit under way has come.
type commitStage uint8

const (
	noCommit commitStage = iota
	toWitness
	toEndTxn // a request is in the network
)

// transactionSlot is the driver's view of a transactional id. last is the identity that it obtained last.
type transactionSlot struct {
	op   slotOp
	last ident
}

// manifest is what the store holds of one checkpoint. durable has a bit for each subtask whose state is there.
type manifest struct {
	checkpoint, attempt uint8
	by                  ident
	positions, counts   [maxSubtasks]uint8
	durable             uint8
}

// process is one instance of the job in one attempt.
type process struct {
	attempt     uint8
	mode        mode
	recovery    recovery
	coordinator *Coordinator
	slots       [maxSlots]transactionSlot
	// gathered holds the acknowledged parts of checkpoints, and prepares those whose manifest is being written.
	gathered []manifest
	prepares []uint8
	permit   Permit
	stage    commitStage
	subs     [maxSubtasks]subtask
	violated error
	stopping bool
}

func (p *process) clone() *process {
	c := *p
	c.recovery = p.recovery.clone()
	if p.coordinator != nil {
		c.coordinator = p.coordinator.clone()
		for i := range c.subs {
			if p.subs[i].aligner != nil {
				c.subs[i] = p.subs[i].clone()
			}
		}
	}
	return &c
}

func (c *Coordinator) clone() *Coordinator {
	d := *c
	d.slots, d.ready, d.flight = slices.Clone(c.slots), slices.Clone(c.ready), slices.Clone(c.flight)
	for i := range d.flight {
		d.flight[i].acked = slices.Clone(d.flight[i].acked)
	}
	return &d
}

// tell gives the coordinator an event and carries out what can be done at once.
func (p *process) tell(w *world, e Event) {
	if p.mode != running {
		return
	}
	for _, a := range w.mutate(p, p.coordinator.Step(e)) {
		p.do(w, a)
	}
}

func (p *process) fail(cause error) {
	if p.violated == nil && errors.Is(cause, ErrProtocol) {
		p.violated = cause
	}
}

func (p *process) do(w *world, a Action) {
	switch a := a.(type) {
	case OpenTransaction:
		p.slots[a.Slot].op = toOpen
	case ReleaseSlot:
		p.slots[a.Slot].op = toRelease
	case AbortSlot:
		p.slots[a.Slot].op = toAbort
	case Start:
		for i := range w.cfg.subtasks {
			p.subs[i].identity = identOf(a.Identity)
		}
	case Trigger:
		for i := range w.cfg.subtasks {
			p.subs[i].inbox = push(p.subs[i].inbox, a.Barrier)
		}
		p.gathered = push(p.gathered, manifest{checkpoint: uint8(a.Barrier.Checkpoint), attempt: p.attempt})
	case Prepare:
		p.setIdentity(uint8(a.Checkpoint), identOf(a.Identity))
		p.prepares = push(p.prepares, uint8(a.Checkpoint))
	case Commit:
		w.checkPermit(p, a.Permit)
		p.permit, p.stage = a.Permit, toWitness
	case EndAttempt:
		p.mode = ended
		p.fail(a.Cause)
		w.leave(p)
	case Finished:
		p.mode = finished
		w.checkFinished(p)
	}
}

func (p *process) setIdentity(n uint8, by ident) {
	p.gathered = slices.Clone(p.gathered)
	p.gathered[p.find(n)].by = by
}

func (p *process) find(n uint8) int {
	return slices.IndexFunc(p.gathered, func(m manifest) bool { return m.checkpoint == n })
}

// acknowledge sends the oldest snapshot of subtask i to the coordinator.
func (p *process) acknowledge(w *world, i int) {
	s := &p.subs[i]
	sn := s.snapshots[0]
	s.snapshots = s.snapshots[1:]
	p.gathered = slices.Clone(p.gathered)
	m := &p.gathered[p.find(sn.checkpoint)]
	m.positions[i], m.counts[i] = sn.position, sn.count
	if w.cfg.bug == bugLoseDelta && sn.count > 0 {
		m.counts[i]--
	}
	m.durable |= 1 << i
	if w.cfg.bug == bugAckBeforeDurable {
		m.durable &^= 1 << i // it becomes durable a moment later, which a crash may forestall
	}
	p.tell(w, Acknowledged{record.Attempt(p.attempt), record.CheckpointID(sn.checkpoint), i})
}

// writeManifest makes the manifest of checkpoint n durable.
func (p *process) writeManifest(w *world, n uint8) {
	p.prepares = slices.DeleteFunc(slices.Clone(p.prepares), func(m uint8) bool { return m == n })
	if slices.ContainsFunc(w.manifests, func(m manifest) bool { return m.checkpoint == n && m.attempt == p.attempt }) {
		p.tell(w, Failed{errors.New("the manifest exists already")})
		return
	}
	w.manifests = push(w.manifests, p.gathered[p.find(n)])
	if w.cfg.bug != bugCommitBeforeDurable {
		p.tell(w, Prepared{record.CheckpointID(n)})
	}
}

// openSlot obtains the next identity of a slot and opens its transaction.
func (p *process) openSlot(w *world, slot int) {
	by, answer := w.kafka.initProducer(slot, p.slots[slot].last, w.cfg.subtasks)
	if answer == ok {
		answer = w.kafka.addPartitions(by)
	}
	switch answer {
	case ok:
		p.slots[slot] = transactionSlot{idle, by}
		p.tell(w, TransactionOpened{slot, by.record()})
	case fenced:
		p.tell(w, Failed{errors.New("deposed")})
	}
}

func (p *process) abortSlot(w *world, slot int) {
	switch answer, _ := w.kafka.endTxn(p.slots[slot].last, false, w.cfg.subtasks); answer {
	case ok:
		p.slots[slot].op = toRelease
	case fenced:
		p.tell(w, Failed{errors.New("deposed")})
	}
}

func (p *process) writeWitness(w *world) {
	switch w.witness(identOf(p.permit.Identity()), uint8(p.permit.Checkpoint()), p.attempt) {
	case ok:
		p.stage = toEndTxn
	case fenced:
		p.tell(w, CommitUnknown{p.permit.Checkpoint(), errors.New("fenced at the witness")})
	}
}

// endTxn delivers the EndTxn request; the answer may be lost.
func (p *process) endTxn(w *world, lost bool) {
	answer := w.endTxn(identOf(p.permit.Identity()))
	n := p.permit.Checkpoint()
	switch {
	case lost || answer == retry:
	case answer == ok || w.cfg.bug == bugInvalidStateIsSuccess:
		p.permit, p.stage = Permit{}, noCommit
		w.concludeCommitted(uint8(n), p.attempt)
		p.tell(w, Committed{n})
	default:
		p.tell(w, CommitUnknown{n, errors.New("fenced")})
	}
}

// writeHead delivers a queued write of subtask i, the oldest but for a bug; the answer may be lost.
func (p *process) writeQueued(w *world, i, at int, lost bool) {
	s := &p.subs[i]
	q := s.writes[at]
	switch answer := w.kafka.produce(i, q.by, q.seq, q.effect); {
	case answer == fenced:
		p.tell(w, Failed{errors.New("fenced writer")})
	case answer == ok && !lost:
		s.writes = slices.Delete(slices.Clone(s.writes), at, at+1)
	}
}

func (p *process) key(b []byte) []byte {
	b = append(b, p.attempt, byte(p.mode))
	if p.mode == recovering {
		return p.recovery.key(b)
	}
	if p.mode != running {
		return b
	}
	for _, s := range p.slots {
		b = append(b, byte(s.op), s.last.generation)
	}
	for _, m := range p.gathered {
		b = m.key(b)
	}
	b = append(b, byte(len(p.prepares)), byte(p.stage), byte(p.permit.Checkpoint()), flag(p.stopping))
	b = append(b, p.prepares...)
	for i := range p.subs {
		if p.subs[i].aligner != nil {
			b = p.subs[i].key(b)
		}
	}
	return p.coordinator.key(b)
}

func (m manifest) key(b []byte) []byte {
	b = append(b, m.checkpoint, m.attempt, m.by.slot, m.by.generation, m.durable)
	b = append(b, m.positions[:]...)
	return append(b, m.counts[:]...)
}

func (c *Coordinator) key(b []byte) []byte {
	b = append(b, flag(c.started), flag(c.due), flag(c.draining), flag(c.drained), byte(c.next), byte(c.current))
	for _, s := range c.slots {
		b = append(b, byte(s.state), identOf(s.identity).generation)
	}
	b = append(b, byte(len(c.ready)), byte(len(c.flight)))
	for _, r := range c.ready {
		b = append(b, byte(r))
	}
	for _, f := range c.flight {
		b = append(b, byte(f.slot), byte(f.phase))
		for _, a := range f.acked {
			b = append(b, flag(a))
		}
	}
	return b
}
