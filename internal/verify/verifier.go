package verify

import (
	"encoding/json"
	"slices"
	"sort"
)

// Branch is a kind of output topic.
type Branch uint8

const (
	// Passed holds the valid views as they are, by user.
	Passed Branch = iota
	// ByUser holds a Total for each valid view, keyed by user.
	ByUser
	// ByPage holds a Total for each valid view, keyed by page: the views of many users, and input partitions, meet there.
	ByPage
	// DeadLetters holds what is no view, as it is.
	DeadLetters
	// Ledger holds one record for each transaction.
	Ledger
	branches
)

// String names the branch as the verdict's examples do.
func (b Branch) String() string {
	return [...]string{"passed", "by user", "by page", "dead letters", "ledger"}[b]
}

// Txn identifies a transaction by its producer identity, which is never used twice.
type Txn struct {
	ProducerID int64
	Epoch      int16
}

// Verifier compares outputs with inputs, both fed to it as they are read. An output must not be fed before the input that
// it comes from. Views whose effects are all there are forgotten.
type Verifier struct {
	has    [branches]bool
	want   uint8 // a bit for each branch with an effect of every valid view
	users  map[string]*user
	pages  map[string]*running
	poison map[string]*letter
	ledger map[Txn]int64
	order  map[partition][]Txn
	// witnesses are those of the ledger, in its order; spans are which parts of the input have results in a transaction.
	witnesses []witness
	spans     map[Txn]map[int32]span
	txns      map[Txn]struct{}
	verdict   Verdict
}

type partition struct {
	branch    Branch
	partition int32
}

// user is what is known of the views of one user.
type user struct {
	// read is the newest sequence number in the input; pending holds the valid views that lack an effect, by number.
	read    int64
	pending []pending
	running running
}

// pending is a valid view with a bit for each effect seen.
type pending struct {
	seq, millis int64
	page        string
	at          place
	seen        uint8
	torn        bool
	txn         Txn
}

// letter is an input record that is no view.
type letter struct {
	at   place
	seen bool
}

// running is the fold for one key of ByUser or ByPage.
type running struct{ views, time int64 }

// NewVerifier returns a verifier of a job that writes the given branches.
func NewVerifier(of ...Branch) *Verifier {
	v := &Verifier{users: map[string]*user{}, pages: map[string]*running{}, poison: map[string]*letter{}, ledger: map[Txn]int64{},
		order: map[partition][]Txn{}, spans: map[Txn]map[int32]span{}, txns: map[Txn]struct{}{}}
	for _, b := range of {
		v.has[b] = true
		if b <= ByPage {
			v.want |= 1 << b
		}
	}
	return v
}

// Input takes the next record of a partition of the input topic.
func (v *Verifier) Input(at int32, offset int64, value []byte) {
	v.verdict.Input++
	view, ok := decodeView(value)
	if !ok {
		v.verdict.Poison++
		v.poison[string(value)] = &letter{at: place{at, offset}}
		return
	}
	u := v.users[view.User]
	if u == nil {
		u = &user{}
		v.users[view.User] = u
	}
	if view.Seq <= u.read {
		v.verdict.find(&v.verdict.Disordered, "the input itself has view %s after %d", view.ID, u.read)
		return
	}
	u.read = view.Seq
	if view.Valid() {
		v.verdict.Valid++
		u.pending = append(u.pending, pending{seq: view.Seq, millis: view.Millis, page: view.Page, at: place{at, offset}})
	}
}

// Output takes the next committed record of a branch. txn is the transaction that it belongs to, zero where there is none.
func (v *Verifier) Output(b Branch, at int32, txn Txn, key, value []byte) {
	v.note(partition{b, at}, txn)
	switch b {
	case Ledger:
		v.witnessed(txn, value)
	case Passed:
		v.passed(txn, value)
	case DeadLetters:
		v.deadLetter(txn, value)
	default:
		v.total(b, txn, string(key), value)
	}
}

// note remembers the order in which a partition shows the transactions.
func (v *Verifier) note(p partition, txn Txn) {
	if txn == (Txn{}) {
		return
	}
	if p.branch == Ledger {
		if _, again := v.ledger[txn]; !again {
			v.ledger[txn] = int64(len(v.ledger)) + 1
		}
		return
	}
	if seen := v.order[p]; len(seen) == 0 || seen[len(seen)-1] != txn {
		v.order[p] = append(seen, txn)
		v.txns[txn] = struct{}{}
	}
}

func (v *Verifier) passed(txn Txn, value []byte) {
	view, ok := decodeView(value)
	if !ok {
		v.verdict.find(&v.verdict.Wrong, "passed: %q is no view", value)
		return
	}
	v.effect(Passed, txn, view.User, view.Seq)
}

func (v *Verifier) deadLetter(txn Txn, value []byte) {
	l := v.poison[string(value)]
	switch {
	case l == nil:
		v.verdict.find(&v.verdict.Invented, "dead letters: %q was not in the input", value)
	case l.seen:
		v.verdict.find(&v.verdict.Duplicated, "dead letters: %q again", value)
	default:
		l.seen = true
		v.result(txn, l.at)
		v.verdict.Effects++
	}
}

func (v *Verifier) total(b Branch, txn Txn, key string, value []byte) {
	var t Total
	if err := json.Unmarshal(value, &t); err != nil {
		v.verdict.find(&v.verdict.Wrong, "%v: %q of %s is no total", b, value, key)
		return
	}
	name, seq, ok := splitID(t.Last)
	if !ok {
		v.verdict.find(&v.verdict.Wrong, "%v: %s names view %q", b, key, t.Last)
		return
	}
	view := v.effect(b, txn, name, seq)
	if view == nil {
		return
	}
	r := v.running(b, name, key)
	owner := name
	if b == ByPage {
		owner = view.page
	}
	if owner != key {
		v.verdict.find(&v.verdict.Wrong, "%v: view %s of %s counts for %s", b, t.Last, owner, key)
	}
	r.views++
	r.time += view.millis
	if t.Views != r.views || t.Time != r.time {
		v.verdict.find(&v.verdict.Wrong, "%v: %s has %d views of %d ms after %s, want %d of %d", b, key, t.Views, t.Time, t.Last,
			r.views, r.time)
		r.views, r.time = t.Views, t.Time // one fault is counted once
	}
}

func (v *Verifier) running(b Branch, user, key string) *running {
	if b == ByUser {
		return &v.users[user].running
	}
	r := v.pages[key]
	if r == nil {
		r = &running{}
		v.pages[key] = r
	}
	return r
}

// effect notes that a view has had its effect in branch b. It returns nil where that is none, or not the first.
func (v *Verifier) effect(b Branch, txn Txn, name string, seq int64) *pending {
	u := v.users[name]
	if u == nil || seq > u.read {
		v.verdict.find(&v.verdict.Invented, "%v: view %s:%d was not in the input", b, name, seq)
		return nil
	}
	i := sort.Search(len(u.pending), func(i int) bool { return u.pending[i].seq >= seq })
	if i == len(u.pending) || u.pending[i].seq != seq || u.pending[i].seen&(1<<b) != 0 {
		v.verdict.find(&v.verdict.Duplicated, "%v: view %s:%d again", b, name, seq)
		return nil
	}
	if b != ByPage && i > 0 && u.pending[i-1].seen&(1<<b) == 0 {
		v.verdict.find(&v.verdict.Disordered, "%v: view %s:%d before %d", b, name, seq, u.pending[i-1].seq)
	}
	p := &u.pending[i]
	if p.seen != 0 && p.txn != txn && !p.torn {
		p.torn = true
		v.verdict.find(&v.verdict.Torn, "%v: view %s:%d is in %v and in %v", b, name, seq, p.txn, txn)
	}
	p.txn = txn
	p.seen |= 1 << b
	v.result(txn, p.at)
	v.verdict.Effects++
	found := *p
	u.forget(v.want)
	return &found
}

// forget drops the oldest views as far as all their effects are there.
func (u *user) forget(want uint8) {
	n := 0
	for n < len(u.pending) && u.pending[n].seen == want {
		n++
	}
	if n > 0 {
		u.pending = slices.Delete(u.pending, 0, n)
	}
}

// Outstanding is the number of effects that the input has and the output not yet.
func (v *Verifier) Outstanding() int64 {
	expected := v.expected()
	return expected - v.verdict.Effects
}

func (v *Verifier) expected() (n int64) {
	for b := Passed; b <= ByPage; b++ {
		if v.has[b] {
			n += v.verdict.Valid
		}
	}
	if v.has[DeadLetters] {
		n += v.verdict.Poison
	}
	return n
}

// Verdict judges what has been fed so far as if nothing more came.
func (v *Verifier) Verdict() Verdict {
	d := v.verdict
	d.Examples = slices.Clone(d.Examples)
	d.Expected = v.expected()
	for name, u := range v.users {
		for _, p := range u.pending {
			v.lost(&d, name, p)
		}
	}
	for value, l := range v.poison {
		if !l.seen && v.has[DeadLetters] {
			d.find(&d.Lost, "dead letters: %q is missing", value)
		}
	}
	v.judgeTransactions(&d)
	v.judgeWitnesses(&d)
	return d
}

func (v *Verifier) lost(d *Verdict, name string, p pending) {
	for b := Passed; b <= ByPage; b++ {
		if v.has[b] && p.seen&(1<<b) == 0 {
			d.find(&d.Lost, "%v: view %s:%d is missing", b, name, p.seq)
		}
	}
}

// judgeTransactions compares the order of transactions in each partition with that in the ledger.
func (v *Verifier) judgeTransactions(d *Verdict) {
	d.Transactions = int64(len(v.txns))
	if !v.has[Ledger] {
		return
	}
	for p, seen := range v.order {
		last := int64(0)
		for _, txn := range seen {
			at, there := v.ledger[txn]
			switch {
			case !there:
				d.find(&d.Unwitnessed, "%v has results in partition %d of %v and nothing in the ledger", txn, p.partition, p.branch)
			case at <= last:
				d.find(&d.Reordered, "partition %d of %v shows %v too late", p.partition, p.branch, txn)
			}
			last = max(last, at)
		}
	}
}
