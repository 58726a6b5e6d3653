package barrier

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirstream/weir/record"
)

// This file is the model's driver of the real Recovery. A roll forward is two requests: the witness, then EndTxn.

// recovery is a recovery under way. candidates are what it may roll forward, witnessed is set between the two requests of
// a roll forward, and fenced has a bit for each transactional id that is fenced. listed is how many manifests there were
// before any fence: only of those can it be said that they will never be committed.
type recovery struct {
	core       *Recovery
	candidates []manifest
	witnessed  bool
	fenced     uint8
	listed     uint8
	last       [maxSlots]ident
}

func (r recovery) clone() recovery {
	if r.core != nil {
		core := *r.core
		r.core = &core
	}
	return r
}

// blocked says whether the next step would only be told to ask again.
func (p *process) blocked(w *world) bool {
	r := &p.recovery
	if r.core == nil {
		return false
	}
	switch r.core.waiting.(type) {
	case FenceAll:
		s := w.kafka.txns[r.slot()].state
		return s == txnPrepareCommit || s == txnPrepareAbort
	case ReadLedger:
		return w.behind() && !w.overtaken()
	}
	return false
}

// rollingForward says whether an EndTxn of the recovery is in the network.
func (r *recovery) rollingForward() bool {
	return r.core != nil && r.witnessed
}

// behind says whether the ledger holds something unsettled.
func (w *world) behind() bool {
	_, _, behind := w.kafka.lastWitness()
	return behind && w.cfg.bug != bugNoFence
}

// overtaken says whether a transaction is open that was opened after the fence, by another process whose recovery ran
// at the same time. It may be dead by now, so the reader must not wait for it.
func (w *world) overtaken() bool {
	return slices.ContainsFunc(w.kafka.txns[:], func(t txn) bool { return t.state == txnOngoing })
}

// slot is the next transactional id to fence.
func (r *recovery) slot() (slot int) {
	for r.fenced&(1<<slot) != 0 {
		slot++
	}
	return slot
}

// recover takes recovery one request further; the answer to an EndTxn may be lost.
func (p *process) recover(w *world, lost bool) {
	r := &p.recovery
	if r.core == nil {
		r.choose(w)
		return
	}
	switch a := r.core.waiting.(type) {
	case RollForward:
		p.rollForward(w, a.Permit, lost)
	case FenceAll:
		p.fence(w)
	case ReadLedger:
		p.read(w)
	}
}

// choose lists the checkpoints of the newest attempt that may be prepared and not committed.
func (r *recovery) choose(w *world) {
	known, _, _ := w.kafka.lastWitness()
	r.listed = uint8(len(w.manifests))
	newest := uint8(0)
	for _, m := range w.manifests {
		newest = max(newest, m.attempt)
	}
	for _, m := range w.manifests {
		if m.attempt == newest {
			r.candidates = append(r.candidates, m)
		}
	}
	slices.SortFunc(r.candidates, func(a, b manifest) int { return cmp.Compare(a.checkpoint, b.checkpoint) })
	var candidates []Candidate
	for _, m := range r.candidates {
		candidates = append(candidates, Candidate{record.CheckpointID(m.checkpoint), m.by.record()})
	}
	r.core, _ = NewRecovery(record.CheckpointID(known), candidates)
}

// attemptOf returns the attempt of candidate n.
func (r *recovery) attemptOf(n uint8) uint8 {
	return r.candidates[slices.IndexFunc(r.candidates, func(m manifest) bool { return m.checkpoint == n })].attempt
}

func (p *process) rollForward(w *world, permit Permit, lost bool) {
	r := &p.recovery
	by, n := identOf(permit.Identity()), uint8(permit.Checkpoint())
	if !r.witnessed {
		if w.cfg.bug == bugRecoveryAddsPartitions {
			w.kafka.addPartitions(by)
		}
		if answer := w.witness(by, n, r.attemptOf(n)); answer == ok {
			r.witnessed = true
		} else if answer == fenced {
			r.core.Step(RolledForward{false})
		}
		return
	}
	answer := w.endTxn(by)
	if lost || answer == retry {
		return
	}
	r.witnessed = false
	if answer == ok {
		w.concludeCommitted(n, r.attemptOf(n))
	}
	r.core.Step(RolledForward{answer == ok})
}

func (p *process) fence(w *world) {
	r := &p.recovery
	if w.cfg.bug == bugNoFence {
		r.core.Step(AllFenced{})
		return
	}
	slot := r.slot()
	by, answer := w.kafka.initProducer(slot, ident{}, w.cfg.subtasks)
	if answer != ok {
		return
	}
	r.last[slot] = by
	r.fenced |= 1 << slot
	if int(r.fenced) == 1<<w.cfg.slots-1 {
		r.core.Step(AllFenced{})
	}
}

// read reads the ledger and starts the attempt from the last committed checkpoint.
func (p *process) read(w *world) {
	n, attempt, _ := w.kafka.lastWitness()
	switch a := p.recovery.core.Step(LedgerRead{record.CheckpointID(n), w.behind()}).(type) {
	case FenceAll:
		p.recovery.fenced, p.recovery.listed = 0, uint8(len(w.manifests))
	case Restore:
		p.restore(w, n, attempt)
	default:
		w.violate("recovery ends with %+v", a)
	}
}

func (p *process) restore(w *world, n, attempt uint8) {
	for _, m := range w.manifests[:p.recovery.listed] {
		if m.checkpoint > n {
			w.concludeAbsent(m.checkpoint, m.attempt)
		}
	}
	base := manifest{durable: 1<<w.cfg.subtasks - 1}
	if n > 0 {
		at := slices.IndexFunc(w.manifests, func(m manifest) bool { return m.checkpoint == n && m.attempt == attempt })
		if at < 0 {
			w.violate("checkpoint %d of attempt %d is committed and has no manifest", n, attempt)
			return
		}
		w.concludeCommitted(n, attempt)
		base = w.manifests[at]
	}
	if int(base.durable) != 1<<w.cfg.subtasks-1 {
		w.violate("checkpoint %d is committed, its state is not all durable", n)
	}
	if w.cfg.bug == bugReuseStore {
		base.counts = w.local
	}
	p.begin(w, base)
}

func (p *process) begin(w *world, base manifest) {
	c, err := NewCoordinator(CoordinatorOptions{Attempt: record.Attempt(p.attempt), Subtasks: w.cfg.subtasks,
		Next: record.CheckpointID(base.checkpoint) + 1, Slots: w.cfg.slots, MaxInFlight: w.cfg.inFlight})
	if err != nil {
		w.violate("%v", err)
		return
	}
	p.coordinator, p.mode = c, running
	for i := range w.cfg.subtasks {
		p.subs[i] = subtask{position: base.positions[i], count: base.counts[i], aligner: w.newAligner(), writing: base.checkpoint + 1}
	}
	for i := range w.cfg.slots {
		p.slots[i].last = p.recovery.last[i]
	}
	p.recovery = recovery{}
	p.tell(w, Begin{})
}

func (r *recovery) key(b []byte) []byte {
	b = append(b, flag(r.core != nil), flag(r.witnessed), r.fenced, r.listed)
	if r.core != nil {
		b = append(b, byte(r.core.committed), byte(len(r.core.candidates)))
		for _, c := range r.core.candidates {
			by := identOf(c.Identity)
			b = append(b, byte(c.Checkpoint), by.slot, by.generation)
		}
		_, reading := r.core.waiting.(ReadLedger)
		_, fencing := r.core.waiting.(FenceAll)
		b = append(b, flag(reading), flag(fencing))
	}
	for _, l := range r.last {
		b = append(b, l.generation)
	}
	return b
}

func (m manifest) String() string {
	return fmt.Sprintf("manifest of %d by attempt %d", m.checkpoint, m.attempt)
}
