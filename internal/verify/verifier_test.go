package verify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/quick"
)

// effectOf is one output record of the simulated job.
type effectOf struct {
	branch     Branch
	txn        Txn
	key, value []byte
}

// simulate runs a correct job over n generated records, committing every size of them.
func simulate(w Workload, n, size int) (inputs [][]byte, outputs []effectOf) {
	g := NewGenerator(w)
	users, pages := map[string]*Total{}, map[string]*Total{}
	add := func(m map[string]*Total, key string, v View) []byte {
		t := m[key]
		if t == nil {
			t = &Total{}
			m[key] = t
		}
		t.Views, t.Time, t.Last = t.Views+1, t.Time+v.Millis, v.ID
		b, _ := json.Marshal(t)
		return b
	}
	for i := range n {
		txn := Txn{ProducerID: int64(i/size%2) + 1, Epoch: int16(i / size / 2)}
		if i%size == 0 {
			outputs = append(outputs, effectOf{Ledger, txn, nil, witnessFor(txn, i/size+1, min(i+size, n))})
		}
		key, value := g.Next()
		inputs = append(inputs, value)
		v, ok := decodeView(value)
		switch {
		case !ok:
			outputs = append(outputs, effectOf{DeadLetters, txn, key, value})
		case v.Valid():
			outputs = append(outputs, effectOf{Passed, txn, key, value}, effectOf{ByUser, txn, key, add(users, v.User, v)},
				effectOf{ByPage, txn, []byte(v.Page), add(pages, v.Page, v)})
		}
	}
	return inputs, outputs
}

// witnessFor is the ledger record of a checkpoint after so many input records.
func witnessFor(txn Txn, checkpoint, records int) []byte {
	return fmt.Appendf(nil, `{"checkpoint":%d,"attempt":1,"transaction":{"producer_id":%d,"epoch":%d},"positions":[{"partition":0,"offset":%d}]}`,
		checkpoint, txn.ProducerID, txn.Epoch, records)
}

func verdictOf(inputs [][]byte, outputs []effectOf) Verdict {
	v := NewVerifier(Passed, ByUser, ByPage, DeadLetters, Ledger)
	for i, value := range inputs {
		v.Input(0, int64(i), value)
	}
	for _, o := range outputs {
		v.Output(o.branch, 0, o.txn, o.key, o.value)
	}
	return v.Verdict()
}

var busy = Workload{Seed: 7, Users: 20, Pages: 4, Hot: 0.3, Invalid: 0.1, Poison: 0.05}

func TestCleanRunIsExactlyOnce(t *testing.T) {
	if err := quick.Check(func(seed uint64) bool {
		w := busy
		w.Seed = seed
		v := verdictOf(simulate(w, 500, 40))
		if !v.OK() {
			t.Log(v)
		}
		return v.OK() && v.Input == 500 && v.Effects > 1000 && v.Transactions == 13
	}, &quick.Config{MaxCount: 20}); err != nil {
		t.Error(err)
	}
}

// TestFaultsAreFound plants a fault at one output record of a clean run.
func TestFaultsAreFound(t *testing.T) {
	const at = 600
	nextOf := func(out []effectOf, b Branch, from int) int {
		return from + slices.IndexFunc(out[from:], func(o effectOf) bool { return o.branch == b })
	}
	faults := []struct {
		name  string
		plant func(out []effectOf) []effectOf
		count func(v Verdict) int64
	}{
		{"lost", func(out []effectOf) []effectOf { i := nextOf(out, Passed, at); return slices.Delete(out, i, i+1) },
			func(v Verdict) int64 { return v.Lost }},
		{"lost at the end", func(out []effectOf) []effectOf { return out[:len(out)-1] },
			func(v Verdict) int64 { return v.Lost }},
		{"lost dead letter", func(out []effectOf) []effectOf { i := nextOf(out, DeadLetters, at); return slices.Delete(out, i, i+1) },
			func(v Verdict) int64 { return v.Lost }},
		{"duplicated view", func(out []effectOf) []effectOf { i := nextOf(out, Passed, at); return slices.Insert(out, i, out[i]) },
			func(v Verdict) int64 { return v.Duplicated }},
		{"duplicated after a while", func(out []effectOf) []effectOf { i := nextOf(out, ByUser, at); return append(out, out[i]) },
			func(v Verdict) int64 { return v.Duplicated }},
		{"duplicated dead letter", func(out []effectOf) []effectOf { i := nextOf(out, DeadLetters, at); return append(out, out[i]) },
			func(v Verdict) int64 { return v.Duplicated }},
		{"out of order", func(out []effectOf) []effectOf { return swapSameUser(out, at) },
			func(v Verdict) int64 { return v.Disordered }},
		{"wrong total", func(out []effectOf) []effectOf {
			i := nextOf(out, ByPage, at)
			out[i].value = []byte(strings.Replace(string(out[i].value), `"time":`, `"time":1`, 1))
			return out
		}, func(v Verdict) int64 { return v.Wrong }},
		{"wrong key", func(out []effectOf) []effectOf { out[nextOf(out, ByUser, at)].key = []byte("user-0x"); return out },
			func(v Verdict) int64 { return v.Wrong }},
		{"damaged view", func(out []effectOf) []effectOf {
			i := nextOf(out, Passed, at)
			out[i].value = []byte(strings.Replace(string(out[i].value), "/page/", "/pagf/", 1))
			return out
		}, func(v Verdict) int64 { return v.Wrong }},
		{"invented", func(out []effectOf) []effectOf {
			v := NewView("user-1", 1<<40, "/page/1", 200, 5)
			return append(out, effectOf{Passed, out[0].txn, []byte(v.User), v.Encode()})
		}, func(v Verdict) int64 { return v.Invented }},
		{"torn", func(out []effectOf) []effectOf { out[nextOf(out, ByPage, at)].txn = Txn{99, 1}; return out },
			func(v Verdict) int64 { return v.Torn }},
		{"not in the ledger", func(out []effectOf) []effectOf { i := nextOf(out, Ledger, at); return slices.Delete(out, i, i+1) },
			func(v Verdict) int64 { return v.Unwitnessed }},
		{"transactions out of order", func(out []effectOf) []effectOf {
			i := nextOf(out, Ledger, at)
			j := nextOf(out, Ledger, i+1)
			out[i].txn, out[j].txn = out[j].txn, out[i].txn
			return out
		}, func(v Verdict) int64 { return v.Reordered }},
		{"a witness of another checkpoint", func(out []effectOf) []effectOf {
			i := nextOf(out, Ledger, at)
			out[i].value = []byte(strings.Replace(string(out[i].value), `"checkpoint":`, `"checkpoint":1`, 1))
			return out
		}, func(v Verdict) int64 { return v.Contradicted }},
		{"a witness with earlier positions", func(out []effectOf) []effectOf {
			i := nextOf(out, Ledger, at)
			out[i].value = []byte(strings.Replace(string(out[i].value), `"offset":`, `"offset":-`, 1))
			return out
		}, func(v Verdict) int64 { return v.Contradicted }},
		{"a witness of another transaction", func(out []effectOf) []effectOf {
			i := nextOf(out, Ledger, at)
			out[i].value = []byte(strings.Replace(string(out[i].value), `"epoch":`, `"epoch":9`, 1))
			return out
		}, func(v Verdict) int64 { return v.Contradicted }},
		{"a witness that cannot be read", func(out []effectOf) []effectOf {
			out[nextOf(out, Ledger, at)].value = []byte("{")
			return out
		}, func(v Verdict) int64 { return v.Contradicted }},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			inputs, outputs := simulate(busy, 500, 40)
			v := verdictOf(inputs, f.plant(outputs))
			if v.OK() || f.count(v) == 0 {
				t.Errorf("not found: %v", v)
			}
		})
	}
}

// swapSameUser exchanges a passed view with the next one of the same user.
func swapSameUser(out []effectOf, from int) []effectOf {
	for i := from; i < len(out); i++ {
		for j := i + 1; out[i].branch == Passed && j < len(out); j++ {
			if out[j].branch == Passed && out[i].txn == out[j].txn && string(out[i].key) == string(out[j].key) {
				out[i], out[j] = out[j], out[i]
				return out
			}
		}
	}
	return out
}

func TestVerifierForgetsWhatIsSettled(t *testing.T) {
	v := NewVerifier(Passed)
	for i := range int64(1000) {
		view := NewView("u", i+1, "/", 200, 1)
		v.Input(0, i, view.Encode())
		v.Output(Passed, 0, Txn{}, nil, view.Encode())
	}
	if n := len(v.users["u"].pending); n != 0 || v.Outstanding() != 0 {
		t.Errorf("%d views remembered, %d outstanding", n, v.Outstanding())
	}
}

func TestVerdictIsReadable(t *testing.T) {
	inputs, outputs := simulate(busy, 500, 40)
	for _, want := range []string{"exactly once: 500 records in", "0 lost", "13 transactions"} {
		if got := verdictOf(inputs, outputs).String(); !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if got := fmt.Sprint(verdictOf(inputs, outputs[:100])); !strings.Contains(got, "NOT exactly once") {
		t.Errorf("%q", got)
	}
}
