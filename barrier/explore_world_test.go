package barrier

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/record"
)

// bug is a fault planted into the cores or the driver, to show that the exploration finds it.
type bug uint8

const (
	noBug bug = iota
	bugCommitBeforeDurable
	bugAckBeforeDurable
	bugAckBeforeWritten
	bugSkipAlignment
	bugDropBuffered
	bugReuseStore
	bugNoFence
	bugInvalidStateIsSuccess
	bugLoseDelta
	bugWriteAhead
	bugCommitOutOfOrder
	bugRecoveryAddsPartitions
	bugSkipCheckpoint
	bugLeaveOpen
	bugStartEarly
)

// faults are how often each kind of fault may happen on one path.
type faults struct{ crashes, answers, timeouts, duplicates, doubles uint8 }

// config is the size of a world.
type config struct {
	subtasks, slots, inFlight int
	// records is the number of input records of each source; checkpoints bounds the numbers of the checkpoints.
	records, checkpoints uint8
	// attempts bounds the restarts.
	attempts uint8
	// direct keeps records in their subtask; otherwise each record may go to any.
	direct bool
	// paced lets a subtask read one record for each checkpoint, so that there is always something to lose.
	paced bool
	// eager steps are taken as soon as they can be, instead of in every order.
	eager  []kind
	faults faults
	bug    bug
}

// kind is a kind of step.
type kind uint8

const (
	stepPoll kind = iota
	stepPass
	stepReceive
	stepWrite
	stepAcknowledge
	stepOpen
	stepRelease
	stepAbort
	stepManifest
	stepWitness
	stepEndTxn
	stepMark
	stepRecover
	stepInterval
	stepStop
	stepRestart
	stepCrash
	stepTimeout
	stepLateEndTxn
	stepLateWrite
	stepLateAcknowledgement
	stepDurable
)

var kindNames = [...]string{"poll", "pass", "receive", "write", "acknowledge", "open", "release", "abort", "manifest", "witness",
	"endTxn", "marker", "recover", "interval", "stop", "restart", "crash", "timeout", "late endTxn", "late write",
	"late acknowledgement", "durable"}

// step is one thing that can happen. lost says that its answer does not arrive.
type step struct {
	kind    kind
	process uint8
	i, j    uint8
	lost    bool
}

func (s step) String() string {
	text := fmt.Sprintf("%s process=%d i=%d j=%d", kindNames[s.kind], s.process, s.i, s.j)
	if s.lost {
		text += " (answer lost)"
	}
	return text
}

// decision is a transaction that Kafka has decided to commit.
type decision struct{ checkpoint, attempt uint8 }

// lateWrite is a request of a dead process that is still in the network.
type lateWrite struct {
	partition uint8
	write
}

// world is everything: Kafka, the checkpoint store, up to two processes at once, and what dead ones left in the network.
type world struct {
	cfg       *config
	kafka     brokers
	manifests []manifest
	processes [2]*process
	attempts  uint8
	spent     faults
	// local is what the last dead process had in its local store.
	local [maxSubtasks]uint8

	lateEndTxns []ident
	lateWrites  []lateWrite
	lateAcks    []Acknowledged

	decisions []decision
	absent    []decision
	violation error
}

func newWorld(cfg *config) *world {
	w := &world{cfg: cfg}
	w.restart(0)
	return w
}

func (w *world) clone() *world {
	c := *w
	for i, p := range w.processes {
		if p != nil {
			c.processes[i] = p.clone()
		}
	}
	return &c
}

func (w *world) newAligner() *Aligner {
	channels, mode := w.cfg.subtasks, Aligned
	if w.cfg.direct {
		channels = 1
	}
	if w.cfg.bug == bugSkipAlignment {
		mode = AtLeastOnce
	}
	return NewAligner(channels, mode)
}

func (w *world) restart(at int) {
	w.attempts++
	w.processes[at] = &process{attempt: w.attempts}
}

// alive counts the processes that are at work.
func (w *world) alive() (n int) {
	for _, p := range w.processes {
		if p != nil && (p.mode == recovering || p.mode == running) {
			n++
		}
	}
	return n
}

// leave puts what p has sent into the network, and takes p out of the world.
func (w *world) leave(p *process) {
	if p.mode == recovering && p.recovery.rollingForward() {
		w.lateEndTxns = push(w.lateEndTxns, identOf(p.recovery.core.candidates[0].Identity))
	}
	if p.stage == toEndTxn {
		w.lateEndTxns = push(w.lateEndTxns, identOf(p.permit.Identity()))
	}
	for i := range p.subs {
		s := &p.subs[i]
		w.local[i] = s.count
		if len(s.writes) > 0 {
			w.lateWrites = push(w.lateWrites, lateWrite{uint8(i), s.writes[0]})
		}
		if len(s.snapshots) > 0 && len(w.lateAcks) == 0 {
			w.lateAcks = push(w.lateAcks, Acknowledged{record.Attempt(p.attempt), record.CheckpointID(s.snapshots[0].checkpoint), i})
		}
	}
	for i, q := range w.processes {
		if q == p {
			w.processes[i] = nil
		}
	}
}

// apply takes one step, and then whatever is eager.
func (w *world) apply(s step) {
	w.take(s)
	for w.violation == nil {
		next, found := w.nextEager()
		if !found {
			return
		}
		w.take(next)
	}
}

func (w *world) nextEager() (step, bool) {
	if len(w.cfg.eager) == 0 {
		return step{}, false
	}
	for _, s := range w.enabled() {
		if !s.lost && slices.Contains(w.cfg.eager, s.kind) {
			return s, true
		}
	}
	return step{}, false
}

func (w *world) take(s step) {
	switch s.kind {
	case stepMark:
		w.kafka.mark(int(s.i), int(s.j))
	case stepRestart:
		if w.alive() > 0 {
			w.spent.doubles++
		}
		w.restart(int(s.process))
	case stepTimeout:
		w.spent.timeouts++
		w.kafka.abort(int(s.i), w.cfg.subtasks)
	case stepLateEndTxn:
		by := w.lateEndTxns[s.i]
		w.lateEndTxns = slices.Delete(slices.Clone(w.lateEndTxns), int(s.i), int(s.i)+1)
		w.endTxn(by)
	case stepLateWrite:
		l := w.lateWrites[s.i]
		w.lateWrites = slices.Delete(slices.Clone(w.lateWrites), int(s.i), int(s.i)+1)
		w.kafka.produce(int(l.partition), l.by, l.seq, l.effect)
	default:
		w.takeIn(w.processes[s.process], s)
	}
	w.checkVisible()
}

// takeIn takes a step of process p.
func (w *world) takeIn(p *process, s step) {
	i := int(s.i)
	if s.lost {
		w.spent.answers++
	}
	switch s.kind {
	case stepPoll:
		p.poll(w.cfg, i)
	case stepPass:
		p.pass(w.cfg, i)
	case stepReceive:
		p.receive(w.cfg, i, int(s.j))
	case stepWrite:
		p.writeQueued(w, i, int(s.j), s.lost)
	case stepAcknowledge:
		p.acknowledge(w, i)
	case stepOpen:
		p.openSlot(w, i)
	case stepRelease:
		p.slots[i].op = idle
		p.tell(w, SlotReleased{i})
	case stepAbort:
		p.abortSlot(w, i)
	case stepManifest:
		p.writeManifest(w, s.i)
	case stepWitness:
		p.writeWitness(w)
	case stepEndTxn:
		p.endTxn(w, s.lost)
	case stepRecover:
		p.recover(w, s.lost)
	case stepInterval:
		p.tell(w, IntervalElapsed{})
	case stepStop:
		p.stopping = true
		p.tell(w, Stop{})
	case stepCrash:
		w.spent.crashes++
		w.leave(p)
	case stepLateAcknowledgement:
		w.lateAck(p, s)
	case stepDurable:
		w.makeDurable(s)
	}
	if p.violated != nil {
		w.violate("%v", p.violated)
	}
}

func (w *world) lateAck(p *process, s step) {
	e := w.lateAcks[s.i]
	if e.Attempt == record.Attempt(p.attempt) {
		w.spent.duplicates++
	} else {
		w.lateAcks = slices.Delete(slices.Clone(w.lateAcks), int(s.i), int(s.i)+1)
	}
	p.tell(w, e)
}

// makeDurable completes what bugAckBeforeDurable acknowledged too early.
func (w *world) makeDurable(s step) {
	w.manifests = slices.Clone(w.manifests)
	w.manifests[s.i].durable |= 1 << s.j
}

// mutate turns a correct coordinator into a faulty one.
func (w *world) mutate(p *process, actions []Action) []Action {
	switch w.cfg.bug {
	case bugCommitBeforeDurable:
		for _, a := range actions {
			if prepare, isPrepare := a.(Prepare); isPrepare {
				p.setIdentity(uint8(prepare.Checkpoint), identOf(prepare.Identity))
				return append(actions, p.coordinator.Step(Prepared{prepare.Checkpoint})...)
			}
		}
	case bugCommitOutOfOrder:
		for i := range p.coordinator.flight {
			if f := &p.coordinator.flight[i]; i > 0 && f.phase == prepared {
				f.phase = committing
				return append(actions, Commit{Permit{f.checkpoint, p.coordinator.identity(f.slot)}})
			}
		}
	case bugStartEarly:
		if c := p.coordinator; !c.started && len(c.ready) > 0 {
			c.current, c.ready = c.ready[0], c.ready[1:]
			c.start(c.identity(c.current))
			return append(actions, Start{c.identity(c.current)})
		}
	case bugLeaveOpen:
		return slices.DeleteFunc(actions, func(a Action) bool {
			abort, isAbort := a.(AbortSlot)
			if isAbort {
				p.coordinator.slots[abort.Slot].state = free
			}
			return isAbort
		})
	case bugSkipCheckpoint:
		if len(actions) > 0 {
			if end, isEnd := actions[0].(EndAttempt); isEnd && p.stage != noCommit {
				_ = end
				p.coordinator.over = false
				n := p.permit.Checkpoint()
				p.permit, p.stage = Permit{}, noCommit
				return p.coordinator.Step(Committed{n})
			}
		}
	}
	return actions
}

func (w *world) key(b []byte) []byte {
	b = w.kafka.key(b)
	b = append(b, byte(len(w.manifests)), w.attempts, w.spent.crashes, w.spent.answers, w.spent.timeouts, w.spent.duplicates, w.spent.doubles)
	for _, m := range w.manifests {
		b = m.key(b)
	}
	for _, p := range w.processes {
		if p == nil {
			b = append(b, 255)
			continue
		}
		b = p.key(b)
	}
	b = append(b, w.local[:]...)
	b = append(b, byte(len(w.lateEndTxns)), byte(len(w.lateWrites)), byte(len(w.lateAcks)), byte(len(w.absent)))
	for _, l := range w.lateEndTxns {
		b = append(b, l.slot, l.generation)
	}
	for _, l := range w.lateWrites {
		b = append(b, l.partition, l.by.slot, l.by.generation, l.seq, l.source, l.record, l.n)
	}
	for _, l := range w.lateAcks {
		b = append(b, byte(l.Attempt), byte(l.Checkpoint), byte(l.Subtask))
	}
	for _, a := range w.absent {
		b = append(b, a.checkpoint, a.attempt)
	}
	return b
}
