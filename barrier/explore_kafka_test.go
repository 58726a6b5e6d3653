package barrier

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/record"
)

// This file is a model of Kafka's transactions: transactional ids with their identities, fencing, the two steps of a
// commit (decision, then a marker in each partition), the log of each output partition and of the ledger.

const (
	maxSubtasks = 3
	maxSlots    = 3
	// epochs is the number of epochs of a producer id, small so that ids roll over.
	epochs = 2
)

// ident is an identity of the model: generation counts the identities of one transactional id from 1.
type ident struct{ slot, generation uint8 }

var transactionalIDs = [maxSlots]string{"t0", "t1", "t2"}

func (i ident) record() record.Identity {
	if i.generation == 0 {
		return record.Identity{}
	}
	return record.Identity{TransactionalID: transactionalIDs[i.slot],
		ProducerID: int64(i.slot)*1000 + int64(i.generation/epochs), Epoch: int16(i.generation % epochs)}
}

func identOf(r record.Identity) ident {
	if r.IsZero() {
		return ident{}
	}
	slot := slices.Index(transactionalIDs[:], r.TransactionalID)
	return ident{uint8(slot), uint8(int(r.ProducerID-int64(slot)*1000)*epochs + int(r.Epoch))}
}

func (i ident) String() string { return fmt.Sprintf("t%d/%d", i.slot, i.generation) }

// txnState is the state of a transactional id at its coordinator.
type txnState uint8

const (
	txnEmpty txnState = iota
	txnOngoing
	txnPrepareCommit
	txnPrepareAbort
	txnComplete
)

// txn is one transactional id. markers has a bit for each partition that still lacks its marker.
type txn struct {
	current ident
	state   txnState
	markers uint8
	// committed says whether the last transaction was.
	committed bool
}

// code is the class of an answer.
type code uint8

const (
	ok code = iota
	retry
	fenced // 90, 49, 48, 47: no answer about a commit
)

// entry is a batch of one record in a log.
type entry struct {
	by  ident
	seq uint8
	effect
	committed bool
}

// effect is what an input record did: it made the count of its key group n. In the ledger it is a witness: checkpoint n
// of attempt source.
type effect struct{ source, record, n uint8 }

// brokers is the state of Kafka. The last log is the ledger. Slices are never written in place.
type brokers struct {
	txns [maxSlots]txn
	logs [maxSubtasks + 1][]entry
}

const ledger = maxSubtasks

func (k *brokers) partitions(subtasks int) uint8 { return uint8(1<<subtasks-1) | 1<<ledger }

// initProducer is InitProducerId, unconditional where last is zero.
func (k *brokers) initProducer(slot int, last ident, subtasks int) (ident, code) {
	t := &k.txns[slot]
	if last.generation > 0 && last != t.current {
		return ident{}, fenced
	}
	switch t.state {
	case txnPrepareCommit, txnPrepareAbort:
		return ident{}, retry
	case txnOngoing:
		k.abort(slot, subtasks)
		return ident{}, retry
	}
	t.state, t.current = txnEmpty, ident{uint8(slot), t.current.generation + 1}
	return t.current, ok
}

// abort fences the current identity and ends its transaction, as InitProducerId and the transaction timeout do.
func (k *brokers) abort(slot, subtasks int) {
	t := &k.txns[slot]
	k.discard(t.current)
	t.current.generation++
	t.state, t.markers, t.committed = txnPrepareAbort, k.partitions(subtasks), false
}

// discard forgets what an aborted transaction wrote: nobody will ever see it.
func (k *brokers) discard(by ident) {
	for p, log := range k.logs {
		if slices.ContainsFunc(log, func(e entry) bool { return e.by == by }) {
			k.logs[p] = slices.DeleteFunc(slices.Clone(log), func(e entry) bool { return e.by == by })
		}
	}
}

// addPartitions opens the transaction of by, with every output partition and the ledger. With an identity whose
// transaction is complete it answers success, too, and opens a second transaction.
func (k *brokers) addPartitions(by ident) code {
	t := &k.txns[by.slot]
	switch {
	case t.current != by:
		return fenced
	case t.state == txnPrepareCommit || t.state == txnPrepareAbort:
		return retry
	}
	t.state = txnOngoing
	return ok
}

// endTxn is EndTxn of by. A commit is decided once it answers ok for the first time.
func (k *brokers) endTxn(by ident, commit bool, subtasks int) (answer code, decided bool) {
	t := &k.txns[by.slot]
	switch {
	case t.current != by:
		return fenced, false
	case t.state == txnPrepareCommit || t.state == txnPrepareAbort:
		return retry, false
	case t.state == txnComplete && t.committed == commit:
		return ok, false
	case t.state != txnOngoing:
		return fenced, false
	}
	t.markers, t.committed = k.partitions(subtasks), commit
	if !commit {
		t.state = txnPrepareAbort
		k.discard(by)
		return ok, false
	}
	t.state = txnPrepareCommit
	for p := range k.logs {
		k.settle(p, by)
	}
	return ok, true
}

// settle marks what by wrote to partition p as committed.
func (k *brokers) settle(p int, by ident) {
	log := slices.Clone(k.logs[p])
	for i := range log {
		if log[i].by == by {
			log[i].committed = true
		}
	}
	k.logs[p] = log
}

// produce appends one record. Until the marker is in the partition a write joins even a transaction that is decided.
func (k *brokers) produce(p int, by ident, seq uint8, e effect) code {
	t := &k.txns[by.slot]
	preparing := t.state == txnPrepareCommit || t.state == txnPrepareAbort
	switch {
	case t.current != by:
		return fenced
	case t.state != txnOngoing && !(preparing && t.markers&(1<<p) != 0):
		return fenced
	}
	next := uint8(0)
	for _, have := range k.logs[p] {
		if have.by == by {
			next++
		}
	}
	switch {
	case seq < next:
		return ok // a repetition
	case seq > next:
		return retry // out of order behind a batch that failed
	case t.state == txnPrepareAbort:
		return ok // accepted and aborted by the marker
	}
	k.logs[p] = append(slices.Clip(k.logs[p]), entry{by, seq, e, t.state == txnPrepareCommit})
	return ok
}

// mark writes the marker of slot's transaction into partition p.
func (k *brokers) mark(slot, p int) {
	t := &k.txns[slot]
	if t.markers &^= 1 << p; t.markers == 0 {
		t.state = txnComplete
	}
}

// unsettled says whether an entry of partition p belongs to a transaction whose marker is not there.
func (k *brokers) unsettled(p int, e entry) bool {
	t := k.txns[e.by.slot]
	return t.current == e.by && (t.state == txnOngoing || t.markers&(1<<p) != 0)
}

// lastWitness is a read_committed read of the ledger up to its last stable offset: the newest checkpoint and its attempt.
// behind tells that something after that offset is not settled yet.
func (k *brokers) lastWitness() (n, attempt uint8, behind bool) {
	for _, e := range k.logs[ledger] {
		if k.unsettled(ledger, e) {
			return n, attempt, true
		}
		if e.committed {
			n, attempt = e.n, e.source
		}
	}
	return n, attempt, false
}

func (k *brokers) key(b []byte) []byte {
	for _, t := range k.txns {
		b = append(b, t.current.generation, byte(t.state), t.markers, flag(t.committed))
	}
	for _, log := range k.logs {
		b = append(b, byte(len(log)))
		for _, e := range log {
			b = append(b, e.by.slot, e.by.generation, e.seq, e.source, e.record, e.n, flag(e.committed))
		}
	}
	return b
}

func flag(v bool) byte {
	if v {
		return 1
	}
	return 0
}
