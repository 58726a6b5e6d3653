//go:build integration

package planted

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// build returns a weir with the bug of a tag, or without one.
func build(t *testing.T, tag string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "weir")
	out, err := exec.Command("go", "build", "-tags", tag, "-o", binary, "../../cmd/sidecar").CombinedOutput()
	if err != nil {
		t.Fatalf("building with %q: %v\n%s", tag, err, out)
	}
	return binary
}

func TestNothingIsFoundWithoutABug(t *testing.T) {
	j := newJob(t, build(t, ""))
	v, err := j.check(t.Context(), 12*time.Second, 40*time.Second)
	if err != nil || !v.OK() {
		t.Errorf("%v, error %v", v, err)
	}
	t.Logf("%d kills: %v", j.kills, v)
}

// TestPlantedBugsAreFound gives each bug a budget of runs; the check must be red in one of them.
func TestPlantedBugsAreFound(t *testing.T) {
	const budget = 4
	for _, bug := range []string{"commit_before_durable", "skip_alignment", "drop_buffered", "reuse_local_store", "ignore_fencing",
		"invalid_state_is_success", "lose_delta", "write_ahead"} {
		t.Run(bug, func(t *testing.T) {
			binary := build(t, "bug_"+bug)
			for run := range budget {
				j := newJob(t, binary)
				v, err := j.check(t.Context(), 8*time.Second, 15*time.Second)
				if err != nil || !v.OK() {
					t.Logf("found in run %d after %d kills: %v, error %v", run+1, j.kills, v, err)
					return
				}
			}
			t.Errorf("not found in %d runs", budget)
		})
	}
}
