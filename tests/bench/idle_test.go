//go:build bench

package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/kafkatest"
)

const example = "../../examples/page-views/"

// TestIdle starts the example page-views on a broker that has records for it, until the first result is committed; and
// measures what the process holds when nothing comes any more.
func TestIdle(t *testing.T) {
	r := &rig{t: t, e: kafkatest.Start(t, kafkatest.Nodes(1)).Endpoint}
	r.buildWeir()
	r.e.CreateExactTopic("page-views", partitions)
	r.e.CreateExactTopic("page-view-counts", partitions)
	views, err := os.ReadFile(example + "views.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var records []kafkatest.Record
	for i, line := range bytes.Split(bytes.TrimSpace(views), []byte("\n")) {
		records = append(records, kafkatest.Record{Partition: int32(i % partitions), Value: line})
	}
	r.e.Produce("page-views", records...)
	var took []time.Duration
	var resident float64
	for n := range 6 {
		p := r.startExample(n)
		if n > 0 { // the first one also makes what the broker has for transactions
			took = append(took, p.first)
		}
		if n == 5 {
			resident = r.mostResident(p.Process.Pid)
		}
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Fatalf("weir run: %v", err)
		}
	}
	slices.Sort(took)
	fmt.Printf("first results were committed after %v\n", took)
	r.line("first-commit-s", took[len(took)/2].Seconds(), 1)
	r.line("idle-rss-mb", resident, 40)
}

// started is a process that has committed its first result, and how long that took from exec on.
type started struct {
	*exec.Cmd
	first time.Duration
}

// startExample runs the example as a new job.
func (r *rig) startExample(n int) started {
	r.t.Helper()
	before := r.stable("page-view-counts")
	cmd := exec.CommandContext(r.t.Context(), r.weir, "run", example+"pipeline.yaml")
	cmd.Env = append(os.Environ(), "WEIR_DATA="+r.t.TempDir(), "WEIR__KAFKA__BROKERS="+r.e.Brokers()[0],
		fmt.Sprintf("WEIR__JOB=page-views-%d", n), fmt.Sprintf("WEIR__HTTP__LISTEN=127.0.0.1:%d", freePort(r.t)), "WEIR__LOG__LEVEL=warn", "WEIR__CHECKPOINT__INTERVAL=1s")
	cmd.Stderr = os.Stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	for r.stable("page-view-counts") == before {
		if time.Since(begin) > time.Minute {
			r.t.Fatal("nothing is committed after a minute")
		}
	}
	return started{cmd, time.Since(begin).Round(time.Millisecond)}
}

// mostResident is the most megabytes that a process holds within 10 seconds.
func (r *rig) mostResident(pid int) (most float64) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		most = max(most, r.resident(pid))
	}
	return most
}

// stable is the sum of a topic's last stable offsets.
func (r *rig) stable(topic string) (sum int64) {
	for _, o := range r.e.Offsets(topic) {
		sum += o.LastStable
	}
	return sum
}

// resident is the resident memory of a process in megabytes.
func (r *rig) resident(pid int) float64 {
	r.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		r.t.Fatal(err)
	}
	for l := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(l, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 64)
			if err != nil {
				r.t.Fatal(err)
			}
			return kb * 1024 / 1e6
		}
	}
	r.t.Fatalf("no VmRSS of process %d", pid)
	return 0
}
