//go:build integration

package chaos

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/failpoint"
)

// rows are the rows of the fault matrix that a failpoint stands for.
func rows(p failpoint.Point) string {
	return map[failpoint.Point]string{
		failpoint.BarriersOut: "1, 2", failpoint.FileUnpublished: "3", failpoint.StateStored: "4", failpoint.WritesAcknowledged: "5",
		failpoint.AllAcknowledged: "6", failpoint.ManifestWritten: "7", failpoint.WitnessWritten: "8",
		failpoint.TransactionCommitted: "9", failpoint.ManifestsRemoved: "11", failpoint.Fenced: "16", failpoint.Restored: "16",
	}[p]
}

// TestAtFailpoints lets the job kill itself at each failpoint, at the first pass and at a later one.
func TestAtFailpoints(t *testing.T) {
	b := newBed(t, number("SEED", 1))
	for range number("ROUNDS", 1) {
		for _, p := range failpoint.Points() {
			for _, after := range []int{0, b.later(p)} {
				b.killItself(p, after)
			}
		}
	}
	b.judge()
}

// later is a number of passes that a job survives: many of those that come with every checkpoint, none of a recovery's, which
// come once.
func (b *bed) later(p failpoint.Point) int {
	if p == failpoint.Fenced || p == failpoint.Restored {
		return 0
	}
	return 1 + b.random.IntN(12)
}

func (b *bed) killItself(p failpoint.Point, after int) {
	b.t.Helper()
	b.must(b.job.Kill())
	b.dies(p, after)
	b.must(b.job.Start())
	what := fmt.Sprintf("killed at %s (%s)", p, rows(p))
	took := b.awaitCommit(what)
	b.t.Logf("%s after %d passes: next commit after %.1fs", what, after, took.Seconds())
	b.faults.add(what, took)
}

// dies starts the job and waits until it has killed itself.
func (b *bed) dies(p failpoint.Point, after int) {
	b.t.Helper()
	b.must(b.job.Start("WEIR_FAILPOINT="+string(p), fmt.Sprintf("WEIR_FAILPOINT_AFTER=%d", after)))
	select {
	case err := <-b.job.Exited():
		ended := b.job.Ended(err)
		if !killed(err) {
			b.t.Fatalf("at %s: %v", p, ended)
		}
		b.faults.jobs++
	case <-time.After(recovery):
		b.stuck("the job has not passed %s %d times within %v", p, after+1, recovery)
	}
}

// killed says that a process ended by SIGKILL.
func killed(err error) bool {
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) {
		return false
	}
	w, ok := exit.Sys().(syscall.WaitStatus)
	return ok && w.Signaled() && w.Signal() == syscall.SIGKILL
}
