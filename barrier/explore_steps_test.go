package barrier

import "github.com/weirstream/weir/record"

// enabled lists what can happen next.
func (w *world) enabled() []step {
	out := make([]step, 0, 24)
	for i, p := range w.processes {
		if p == nil {
			continue
		}
		switch p.mode {
		case recovering:
			out = w.recoverySteps(out, uint8(i), p)
		case running:
			out = w.processSteps(out, uint8(i), p)
		}
	}
	out = w.kafkaSteps(out)
	return w.faultSteps(out)
}

func (w *world) recoverySteps(out []step, at uint8, p *process) []step {
	if p.blocked(w) {
		return out
	}
	out = append(out, step{kind: stepRecover, process: at})
	if p.recovery.rollingForward() && w.spent.answers < w.cfg.faults.answers {
		out = append(out, step{kind: stepRecover, process: at, lost: true})
	}
	return out
}

func (w *world) processSteps(out []step, at uint8, p *process) []step {
	for i := range w.cfg.subtasks {
		out = w.subtaskSteps(out, at, p, i)
	}
	for i := range w.cfg.slots {
		if k, some := w.slotStep(p, i); some {
			out = append(out, step{kind: k, process: at, i: uint8(i)})
		}
	}
	for _, n := range p.prepares {
		out = append(out, step{kind: stepManifest, process: at, i: n})
	}
	switch p.stage {
	case toWitness:
		out = append(out, step{kind: stepWitness, process: at})
	case toEndTxn:
		out = append(out, step{kind: stepEndTxn, process: at})
		if w.spent.answers < w.cfg.faults.answers {
			out = append(out, step{kind: stepEndTxn, process: at, lost: true})
		}
	}
	c := p.coordinator
	if !p.stopping {
		out = append(out, step{kind: stepStop, process: at})
		if c.started && !c.due && c.next < record.CheckpointID(w.cfg.checkpoints) {
			out = append(out, step{kind: stepInterval, process: at})
		}
	}
	return out
}

// slotStep is what the driver does next for a transactional id, unless Kafka would only tell it to ask again.
func (w *world) slotStep(p *process, i int) (kind, bool) {
	t := w.kafka.txns[i]
	settling := t.state == txnPrepareCommit || t.state == txnPrepareAbort
	switch p.slots[i].op {
	case toOpen:
		return stepOpen, !settling
	case toAbort:
		return stepAbort, !settling
	case toRelease:
		return stepRelease, !settling
	}
	return 0, false
}

func (w *world) subtaskSteps(out []step, at uint8, p *process, i int) []step {
	s := &p.subs[i]
	me := step{process: at, i: uint8(i)}
	add := func(k kind, j int, lost bool) {
		me.kind, me.j, me.lost = k, uint8(j), lost
		out = append(out, me)
	}
	if s.identity.generation > 0 && s.position < w.cfg.records && !p.coordinator.drained &&
		(!w.cfg.paced || s.position < s.writing) {
		add(stepPoll, 0, false)
	}
	if len(s.inbox) > 0 {
		add(stepPass, 0, false)
	}
	for from := range w.cfg.subtasks {
		if len(s.in[from]) > 0 && !s.aligner.Held(from) {
			add(stepReceive, from, false)
		}
	}
	for j := range s.writes {
		if j > 0 && w.cfg.bug != bugWriteAhead {
			break
		}
		add(stepWrite, j, false)
		if w.spent.answers < w.cfg.faults.answers {
			add(stepWrite, j, true)
		}
	}
	if p.acknowledgeable(w.cfg, i) {
		add(stepAcknowledge, 0, false)
	}
	return out
}

// kafkaSteps are the markers.
func (w *world) kafkaSteps(out []step) []step {
	for i := range w.cfg.slots {
		for p := range maxSubtasks + 1 {
			if w.kafka.txns[i].markers&(1<<p) != 0 {
				out = append(out, step{kind: stepMark, i: uint8(i), j: uint8(p)})
			}
		}
	}
	return out
}

func (w *world) faultSteps(out []step) []step {
	for i, p := range w.processes {
		me := step{process: uint8(i)}
		if p == nil {
			if w.attempts < w.cfg.attempts && (w.alive() == 0 || w.spent.doubles < w.cfg.faults.doubles) && !w.done() {
				me.kind = stepRestart
				out = append(out, me)
			}
			continue
		}
		if (p.mode == recovering || p.mode == running) && w.spent.crashes < w.cfg.faults.crashes {
			me.kind = stepCrash
			out = append(out, me)
		}
		for j, e := range w.lateAcks {
			if p.mode == running && (e.Attempt != record.Attempt(p.attempt) || w.spent.duplicates < w.cfg.faults.duplicates) {
				out = append(out, step{kind: stepLateAcknowledgement, process: uint8(i), i: uint8(j)})
			}
		}
	}
	for i := range w.cfg.slots {
		if w.kafka.txns[i].state == txnOngoing && w.spent.timeouts < w.cfg.faults.timeouts {
			out = append(out, step{kind: stepTimeout, i: uint8(i)})
		}
	}
	for i := range w.lateEndTxns {
		out = append(out, step{kind: stepLateEndTxn, i: uint8(i)})
	}
	for i := range w.lateWrites {
		out = append(out, step{kind: stepLateWrite, i: uint8(i)})
	}
	if w.cfg.bug == bugAckBeforeDurable {
		for i, m := range w.manifests {
			for j := range w.cfg.subtasks {
				if p := w.owner(m.attempt); p >= 0 && m.durable&(1<<j) == 0 {
					out = append(out, step{kind: stepDurable, process: uint8(p), i: uint8(i), j: uint8(j)})
				}
			}
		}
	}
	return out
}

// owner returns the index of the process of an attempt, -1 where it is gone.
func (w *world) owner(attempt uint8) int {
	for i, p := range w.processes {
		if p != nil && p.attempt == attempt {
			return i
		}
	}
	return -1
}

// done says whether a process has drained the job.
func (w *world) done() bool {
	for _, p := range w.processes {
		if p != nil && p.mode == finished {
			return true
		}
	}
	return false
}

// stuck says whether a process can go nowhere although nothing is wrong with it.
func (w *world) stuck(steps []step) bool {
	for _, s := range steps {
		if s.kind < stepCrash {
			return false
		}
	}
	return w.alive() > 0
}
