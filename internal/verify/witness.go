package verify

import (
	"encoding/json"
	"slices"
)

// witness is what a ledger record says of its transaction, as far as it can be compared with the results.
type witness struct {
	txn        Txn
	checkpoint int64
	attempt    int64
	// until has, for each input partition, the offset before which the results are in the output.
	until map[int32]int64
}

// place is where a record lies in the input.
type place struct {
	partition int32
	offset    int64
}

// span is the part of an input partition that has results in a transaction.
type span struct{ first, last int64 }

// decodeWitness reads a ledger record as its format is documented; it does not use the job's own reader.
func decodeWitness(value []byte) (witness, error) {
	var form struct {
		Checkpoint, Attempt int64
		Transaction         struct {
			ProducerID int64 `json:"producer_id"`
			Epoch      int16 `json:"epoch"`
		}
		Positions []struct {
			Partition int32
			Offset    int64
		}
	}
	if err := json.Unmarshal(value, &form); err != nil {
		return witness{}, err
	}
	w := witness{Txn{form.Transaction.ProducerID, form.Transaction.Epoch}, form.Checkpoint, form.Attempt, map[int32]int64{}}
	for _, p := range form.Positions {
		w.until[p.Partition] = p.Offset
	}
	return w, nil
}

// witnessed takes a ledger record. One without a value only marks its transaction.
func (v *Verifier) witnessed(txn Txn, value []byte) {
	if len(value) == 0 {
		return
	}
	w, err := decodeWitness(value)
	switch {
	case err != nil:
		v.verdict.find(&v.verdict.Contradicted, "ledger: %q is no witness: %v", value, err)
		return
	case w.txn != txn:
		v.verdict.find(&v.verdict.Contradicted, "ledger: the witness in %v is one of %v", txn, w.txn)
	}
	w.txn = txn
	if n := len(v.witnesses); n > 0 && v.witnesses[n-1].txn == txn {
		return // written again by a recovery
	}
	v.witnesses = append(v.witnesses, w)
}

// result notes that a transaction has a result of an input record.
func (v *Verifier) result(txn Txn, of place) {
	spans := v.spans[txn]
	if spans == nil {
		spans = map[int32]span{}
		v.spans[txn] = spans
	}
	s, there := spans[of.partition]
	if !there {
		s = span{of.offset, of.offset}
	}
	spans[of.partition] = span{min(s.first, of.offset), max(s.last, of.offset)}
}

// judgeWitnesses compares what the ledger says with the results: checkpoints follow one another without a gap, attempts never
// go back, and the results of a transaction are those of the input between its positions and those of the one before. That is
// what makes offsets, state and output belong to one checkpoint.
func (v *Verifier) judgeWitnesses(d *Verdict) {
	for i, w := range v.witnesses {
		before := witness{checkpoint: w.checkpoint - 1, attempt: w.attempt}
		if i > 0 {
			before = v.witnesses[i-1]
		}
		if w.checkpoint != before.checkpoint+1 || w.attempt < before.attempt {
			d.find(&d.Contradicted, "ledger: checkpoint %d of attempt %d comes after %d of attempt %d", w.checkpoint, w.attempt,
				before.checkpoint, before.attempt)
		}
		for _, p := range partitionsOf(v.spans[w.txn]) {
			s := v.spans[w.txn][p]
			if s.first < before.until[p] || s.last >= w.until[p] {
				d.find(&d.Contradicted, "%v has results of input partition %d from %d to %d, its witness says from %d to below %d", w.txn, p,
					s.first, s.last, before.until[p], w.until[p])
			}
		}
	}
}

func partitionsOf(spans map[int32]span) (all []int32) {
	for p := range spans {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}
