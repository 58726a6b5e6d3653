package barrier

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirstream/weir/record"
)

// This file is the model's recovery: roll what is prepared forward, fence every transactional id, read the ledger.

type recoveryStage uint8

const (
	recoverChoose recoveryStage = iota
	recoverWitness
	recoverEndTxn
	recoverFence
	recoverRead
)

// recovery is a recovery under way. candidates are manifests that may not be committed yet, at is the one in hand, and
// fenced has a bit for each transactional id that is fenced. listed is how many manifests there were before any fence:
// only of those can it be said that they will never be committed.
type recovery struct {
	stage      recoveryStage
	candidates []manifest
	at         uint8
	fenced     uint8
	listed     uint8
	last       [maxSlots]ident
}

// blocked says whether the next step would only be told to ask again.
func (p *process) blocked(w *world) bool {
	r := &p.recovery
	switch r.stage {
	case recoverFence:
		s := w.kafka.txns[r.slot()].state
		return s == txnPrepareCommit || s == txnPrepareAbort
	case recoverRead:
		return w.behind() && !w.overtaken()
	}
	return false
}

// behind says whether the ledger holds something unsettled.
func (w *world) behind() bool {
	_, _, behind := w.kafka.lastWitness()
	return behind && w.cfg.bug != bugNoFence
}

// overtaken says whether a transaction is open that was opened after the fence, by another process whose recovery ran
// at the same time. It may be dead by now, so the reader must not wait for it: it fences again.
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

// step takes recovery one request further; the answer to an EndTxn may be lost.
func (p *process) recover(w *world, lost bool) {
	r := &p.recovery
	switch r.stage {
	case recoverChoose:
		r.choose(w)
	case recoverWitness:
		c := r.candidates[r.at]
		if w.cfg.bug == bugRecoveryAddsPartitions {
			w.kafka.addPartitions(c.by)
		}
		if answer := w.witness(c.by, c.checkpoint, c.attempt); answer == ok {
			r.stage = recoverEndTxn
		} else if answer == fenced {
			r.stage = recoverFence
		}
	case recoverEndTxn:
		p.rollForward(w, lost)
	case recoverFence:
		p.fence(w)
	case recoverRead:
		if w.behind() {
			*r = recovery{}
			return
		}
		p.conclude(w)
	}
	if r.stage == recoverFence && w.cfg.bug == bugNoFence {
		r.stage = recoverRead
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
		if m.attempt == newest && m.checkpoint > known {
			r.candidates = append(r.candidates, m)
		}
	}
	slices.SortFunc(r.candidates, func(a, b manifest) int { return cmp.Compare(a.checkpoint, b.checkpoint) })
	r.stage = recoverFence
	if len(r.candidates) > 0 && r.candidates[0].checkpoint == known+1 {
		r.stage = recoverWitness
	}
}

func (p *process) rollForward(w *world, lost bool) {
	r := &p.recovery
	c := r.candidates[r.at]
	switch answer := w.endTxn(c.by); {
	case lost || answer == retry:
		return
	case answer == fenced:
		r.stage = recoverFence
		return
	}
	w.concludeCommitted(c.checkpoint, c.attempt)
	r.stage = recoverFence
	if r.at++; int(r.at) < len(r.candidates) && r.candidates[r.at].checkpoint == c.checkpoint+1 {
		r.stage = recoverWitness
	}
}

func (p *process) fence(w *world) {
	r := &p.recovery
	slot := r.slot()
	by, answer := w.kafka.initProducer(slot, ident{}, w.cfg.subtasks)
	if answer != ok {
		return
	}
	r.last[slot] = by
	r.fenced |= 1 << slot
	if int(r.fenced) == 1<<w.cfg.slots-1 {
		r.stage = recoverRead
	}
}

// conclude reads the ledger and starts the attempt from the last committed checkpoint.
func (p *process) conclude(w *world) {
	n, attempt, _ := w.kafka.lastWitness()
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
	b = append(b, byte(r.stage), r.at, r.fenced, r.listed, byte(len(r.candidates)))
	for _, c := range r.candidates {
		b = append(b, c.checkpoint, c.attempt)
	}
	for _, l := range r.last {
		b = append(b, l.generation)
	}
	return b
}

func (m manifest) String() string {
	return fmt.Sprintf("manifest of %d by attempt %d", m.checkpoint, m.attempt)
}
