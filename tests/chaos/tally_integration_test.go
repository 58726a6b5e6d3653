//go:build integration

package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// tally counts faults by kind, with the times to the next commit.
type tally struct {
	took map[string][]time.Duration
	// jobs and brokers count the processes that were ended by SIGKILL.
	jobs, brokers int
}

func newTally() *tally { return &tally{took: make(map[string][]time.Duration)} }

func (t *tally) add(kind string, recovered time.Duration) {
	t.took[kind] = append(t.took[kind], recovered)
}

func (t *tally) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "times\tmedian to the next commit\tlongest\t  fault")
	all := 0
	for _, kind := range slices.Sorted(maps.Keys(t.took)) {
		took := slices.Sorted(slices.Values(t.took[kind]))
		all += len(took)
		fmt.Fprintf(w, "%d\t%.1fs\t%.1fs\t  %s\n", len(took), took[len(took)/2].Seconds(), took[len(took)-1].Seconds(), kind)
	}
	fmt.Fprintf(w, "%d\t\t\t  in all\n", all)
	w.Flush()
	fmt.Fprintf(&b, "ended by SIGKILL: the job %d times, brokers %d times\n", t.jobs, t.brokers)
	return b.String()
}
