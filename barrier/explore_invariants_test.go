package barrier

import (
	"fmt"
	"slices"
)

// This file is what must hold in every state.

func (w *world) violate(format string, args ...any) {
	if w.violation == nil {
		w.violation = fmt.Errorf(format, args...)
	}
}

// last is the newest checkpoint that is committed.
func (w *world) last() decision {
	if len(w.decisions) == 0 {
		return decision{}
	}
	return w.decisions[len(w.decisions)-1]
}

func (w *world) manifestOf(d decision) (manifest, bool) {
	if d.checkpoint == 0 {
		return manifest{}, true
	}
	i := slices.IndexFunc(w.manifests, func(m manifest) bool { return m.checkpoint == d.checkpoint && m.attempt == d.attempt })
	if i < 0 {
		return manifest{}, false
	}
	return w.manifests[i], true
}

// witness writes the witness of a checkpoint: never before the checkpoint before it is committed.
func (w *world) witness(by ident, n, attempt uint8) code {
	before := len(w.kafka.logs[ledger])
	answer := w.kafka.produce(ledger, by, 0, effect{source: attempt, n: n})
	if len(w.kafka.logs[ledger]) > before && w.last().checkpoint != n-1 {
		w.violate("witness of %d is written while %d is the last committed checkpoint", n, w.last().checkpoint)
	}
	return answer
}

// endTxn delivers an EndTxn(commit) and judges it where it decides.
func (w *world) endTxn(by ident) code {
	answer, decided := w.kafka.endTxn(by, true, w.cfg.subtasks)
	if decided {
		w.checkDecision(by)
	}
	return answer
}

func (w *world) checkDecision(by ident) {
	var witnesses []decision
	for _, e := range w.kafka.logs[ledger] {
		if e.by == by {
			witnesses = append(witnesses, decision{e.n, e.source})
		}
	}
	if len(witnesses) != 1 {
		w.violate("%v is committed with %d witnesses", by, len(witnesses))
		return
	}
	d := witnesses[0]
	if d.checkpoint != w.last().checkpoint+1 {
		w.violate("checkpoint %d is committed after %d", d.checkpoint, w.last().checkpoint)
	}
	if slices.Contains(w.absent, d) {
		w.violate("checkpoint %d of attempt %d is committed after the verdict that it never would be", d.checkpoint, d.attempt)
	}
	if m, there := w.manifestOf(d); !there {
		w.violate("checkpoint %d is committed before its manifest is durable", d.checkpoint)
	} else if m.by != by {
		w.violate("checkpoint %d is committed in %v, its manifest says %v", d.checkpoint, by, m.by)
	}
	w.decisions = push(w.decisions, d)
}

func (w *world) checkPermit(p *process, permit Permit) {
	d := decision{uint8(permit.Checkpoint()), p.attempt}
	if _, there := w.manifestOf(d); !there {
		w.violate("a permit for checkpoint %d, which is not durable", d.checkpoint)
	}
	if w.last().checkpoint < d.checkpoint-1 { // a deposed leader may be behind, never ahead
		w.violate("a permit for checkpoint %d while %d is the last committed", d.checkpoint, w.last().checkpoint)
	}
}

// concludeCommitted and concludeAbsent take a verdict that somebody acts upon.
func (w *world) concludeCommitted(n, attempt uint8) {
	if !slices.Contains(w.decisions, decision{n, attempt}) {
		w.violate("checkpoint %d of attempt %d is taken for committed and is not", n, attempt)
	}
}

func (w *world) concludeAbsent(n, attempt uint8) {
	d := decision{n, attempt}
	if slices.Contains(w.decisions, d) {
		w.violate("checkpoint %d of attempt %d is taken for absent and is committed", n, attempt)
	}
	if !slices.Contains(w.absent, d) {
		w.absent = push(w.absent, d)
	}
}

// checkVisible compares what readers see, now or once the markers are there, with what the last committed checkpoint
// covers: every input record once, in order, with the right count, and none beyond.
func (w *world) checkVisible() {
	m, there := w.manifestOf(w.last())
	if !there || w.violation != nil {
		return
	}
	var seen [maxSubtasks]uint8
	var order [maxSubtasks][maxSubtasks]int8
	for p := range w.cfg.subtasks {
		count := uint8(0)
		for _, e := range w.kafka.logs[p] {
			if !e.committed {
				continue
			}
			if count++; e.n != count {
				w.violate("partition %d: count %d at place %d", p, e.n, count)
			}
			if order[p][e.source] > int8(e.record) || seen[e.source]&(1<<e.record) != 0 {
				w.violate("partition %d: record %d of source %d again or out of order", p, e.record, e.source)
			}
			order[p][e.source] = int8(e.record)
			seen[e.source] |= 1 << e.record
		}
		if count != m.counts[p] {
			w.violate("checkpoint %d has state %d in subtask %d, its output says %d", m.checkpoint, m.counts[p], p, count)
		}
	}
	for i := range w.cfg.subtasks {
		if seen[i] != 1<<m.positions[i]-1 {
			w.violate("checkpoint %d covers %d records of source %d, visible are %b", m.checkpoint, m.positions[i], i, seen[i])
		}
	}
}

// checkFinished judges a clean end: everything that was read is committed, and nothing stays open.
func (w *world) checkFinished(p *process) {
	if c := p.coordinator; c.next > c.opts.Next {
		last := decision{uint8(c.next) - 1, p.attempt}
		m, _ := w.manifestOf(last)
		if !slices.Contains(w.decisions, last) {
			w.violate("attempt %d drained and did not commit", p.attempt)
		}
		for i := range w.cfg.subtasks {
			if m.positions[i] != p.subs[i].position {
				w.violate("drained with records of source %d that are not committed", i)
			}
		}
	}
	for i, t := range w.kafka.txns[:w.cfg.slots] {
		if t.current == p.slots[i].last && t.state != txnComplete && t.state != txnEmpty {
			w.violate("%v stays open after a clean end", t.current)
		}
	}
}
