package verify

import (
	"fmt"
	"strings"
	"time"
)

// Verdict counts what was found.
type Verdict struct {
	// Input is the number of records in the input topic; Valid of those that have effects, Poison of those that are no views.
	Input, Valid, Poison int64
	// Effects is the number of effects seen in all branches, each counted once. Valid times the number of branches, and the
	// poison where it has a topic, is what there must be.
	Effects, Expected int64
	// Lost effects never came. Duplicated ones came again, Disordered ones out of their key's order.
	Lost, Duplicated, Disordered int64
	// Invented effects belong to no input. Wrong ones have another content than the fold over the input.
	Invented, Wrong int64
	// Torn views have their effects in more than one transaction; Unwitnessed transactions have no record in the ledger, and
	// Reordered ones come in another order in some partition than in the ledger.
	Torn, Unwitnessed, Reordered int64
	// Contradicted counts witnesses that say something else than the results, or than the witness before.
	Contradicted int64
	// Transactions is the number of transactions seen.
	Transactions int64
	// LongestOpen is the longest time for which a partition's last stable offset stood still below its end.
	LongestOpen time.Duration
	// Examples describe the first few findings.
	Examples []string
}

// OK says whether every effect is there once, in order and right. A check without input proves nothing.
func (v Verdict) OK() bool {
	return v.Input > 0 && v.Lost+v.Duplicated+v.Disordered+v.Invented+v.Wrong+v.Torn+v.Unwitnessed+v.Reordered+v.Contradicted == 0 && v.Effects == v.Expected
}

// String is the verdict in one line: the counts that always matter, then those of the faults that there are.
func (v Verdict) String() string {
	var b strings.Builder
	word := "exactly once"
	if !v.OK() {
		word = "NOT exactly once"
	}
	fmt.Fprintf(&b, "%s: %d records in, %d effects seen of %d expected, %d lost, %d duplicated, %d out of order",
		word, v.Input, v.Effects, v.Expected, v.Lost, v.Duplicated, v.Disordered)
	for _, f := range []struct {
		n    int64
		what string
	}{
		{v.Invented, "from no input"}, {v.Wrong, "with a wrong value"}, {v.Torn, "views torn between transactions"},
		{v.Unwitnessed, "transactions without a witness"}, {v.Reordered, "transactions out of order"},
		{v.Contradicted, "witnesses that contradict the results"},
	} {
		if f.n > 0 {
			fmt.Fprintf(&b, ", %d %s", f.n, f.what)
		}
	}
	fmt.Fprintf(&b, "; %d transactions, the longest open for %v", v.Transactions, v.LongestOpen.Round(time.Millisecond))
	for _, e := range v.Examples {
		b.WriteString("\n  " + e)
	}
	return b.String()
}

// maxExamples bounds Verdict.Examples.
const maxExamples = 10

func (v *Verdict) find(count *int64, format string, args ...any) {
	*count++
	if len(v.Examples) < maxExamples {
		v.Examples = append(v.Examples, fmt.Sprintf(format, args...))
	}
}

// Totals returns, by key, the totals of ByUser or ByPage as of all that was fed: what the job's own state must hold, where nothing
// is outstanding.
func (c *Checker) Totals(b Branch) map[string]Total {
	totals := map[string]Total{}
	if b == ByPage {
		for page, r := range c.verifier.pages {
			totals[page] = Total{Views: r.views, Time: r.time}
		}
		return totals
	}
	for name, u := range c.verifier.users {
		if u.running.views > 0 {
			totals[name] = Total{Views: u.running.views, Time: u.running.time}
		}
	}
	return totals
}
