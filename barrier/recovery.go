package barrier

import (
	"fmt"

	"github.com/weirstream/weir/record"
)

// Candidate is a checkpoint whose manifest is durable and which may be committed or not.
type Candidate struct {
	Checkpoint record.CheckpointID
	Identity   record.Identity
}

// Recovery decides, before an attempt begins, which checkpoint the job goes on from. Its driver carries out one action at
// a time and answers with the event named there.
//
// The order is what makes the verdict right. Whatever is prepared is committed first, since a fence aborts what is open.
// Then every transactional id is fenced, which returns when all markers are written. Only then the ledger is read: a
// witness is visible there by now, or never will be. Nothing else tells whether a checkpoint is committed.
type Recovery struct {
	candidates []Candidate
	// committed is the newest checkpoint known to be committed.
	committed record.CheckpointID
	waiting   RecoveryAction
}

// RecoveryAction is what a Recovery asks for next.
type RecoveryAction interface{ recoveryAction() }

// RollForward asks for the witness of a prepared checkpoint to be written, as it was, and for EndTxn(commit) until there is
// an answer. Neither partitions nor offsets may be added: if the transaction is over, that would open another under the
// same identity. The answer is RolledForward.
type RollForward struct{ Permit Permit }

// FenceAll asks for an unconditional InitProducerId of every transactional id until it succeeds. The answer is AllFenced.
type FenceAll struct{}

// ReadLedger asks for a read_committed read of the ledger up to its high watermark of after the fence. The answer is
// LedgerRead.
type ReadLedger struct{}

// Restore ends a recovery: the job goes on from the checkpoint, 0 for the beginning.
type Restore struct{ Checkpoint record.CheckpointID }

// Refuse ends a recovery that only an operator can resolve.
type Refuse struct{ Cause error }

func (RollForward) recoveryAction() {}
func (FenceAll) recoveryAction()    {}
func (ReadLedger) recoveryAction()  {}
func (Restore) recoveryAction()     {}
func (Refuse) recoveryAction()      {}

// RecoveryEvent answers a RecoveryAction.
type RecoveryEvent interface{ recoveryEvent() }

// RolledForward says whether EndTxn answered success; any other definite answer tells nothing.
type RolledForward struct{ Committed bool }

// AllFenced says that nothing of before can be committed any more.
type AllFenced struct{}

// LedgerRead gives the last witness, 0 where there is none. HeldBack says that the read did not get to the end within a
// bounded time: another recovery has fenced after this one, opened a transaction, and may be dead.
type LedgerRead struct {
	Last     record.CheckpointID
	HeldBack bool
}

func (RolledForward) recoveryEvent() {}
func (AllFenced) recoveryEvent()     {}
func (LedgerRead) recoveryEvent()    {}

// NewRecovery returns a recovery and its first action. known is the last witness that is visible now, which may be behind;
// candidates are the newest attempt's checkpoints with a durable manifest, in order. Candidates that are known to be
// committed, or that follow one without a manifest, are left alone.
func NewRecovery(known record.CheckpointID, candidates []Candidate) (*Recovery, RecoveryAction) {
	r := &Recovery{committed: known}
	for _, c := range candidates {
		if c.Checkpoint == known+1+record.CheckpointID(len(r.candidates)) {
			r.candidates = append(r.candidates, c)
		}
	}
	return r, r.forward()
}

// forward goes on with the next candidate, and after the last one with the fence.
func (r *Recovery) forward() RecoveryAction {
	if len(r.candidates) == 0 {
		return r.wait(FenceAll{})
	}
	return r.wait(RollForward{Permit{r.candidates[0].Checkpoint, r.candidates[0].Identity}})
}

func (r *Recovery) wait(a RecoveryAction) RecoveryAction {
	r.waiting = a
	return a
}

// Step takes the answer to the last action and returns the next.
func (r *Recovery) Step(e RecoveryEvent) RecoveryAction {
	switch e := e.(type) {
	case RolledForward:
		if a, ok := r.waiting.(RollForward); ok {
			return r.rolled(a.Permit, e.Committed)
		}
	case AllFenced:
		if _, ok := r.waiting.(FenceAll); ok {
			return r.wait(ReadLedger{})
		}
	case LedgerRead:
		if _, ok := r.waiting.(ReadLedger); ok {
			return r.read(e)
		}
	}
	return r.wait(Refuse{fmt.Errorf("%w: %T answers %T in a recovery", ErrProtocol, e, r.waiting)})
}

func (r *Recovery) rolled(p Permit, committed bool) RecoveryAction {
	if !committed {
		r.candidates = nil // the next one builds on it
		return r.forward()
	}
	r.committed = p.Checkpoint()
	r.candidates = r.candidates[1:]
	return r.forward()
}

func (r *Recovery) read(e LedgerRead) RecoveryAction {
	switch {
	case e.HeldBack:
		return r.wait(FenceAll{})
	case e.Last < r.committed:
		return r.wait(Refuse{fmt.Errorf("checkpoint %d was committed, the last witness in the ledger is %d: the ledger has lost records",
			r.committed, e.Last)})
	}
	return r.wait(Restore{e.Last})
}
