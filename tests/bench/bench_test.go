//go:build bench

// Package bench measures an instance against the bare wire loop on a real broker, in one run. Each figure is a line
// "bench NAME RATIO LIMIT ok|short"; the test fails where one is short.
package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/tests/kafkatest"
)

const (
	partitions = 8
	keys       = 1_000_000
)

// records is the size of a run; BENCH_RECORDS makes it another.
func records(t *testing.T) int {
	if v := os.Getenv("BENCH_RECORDS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 6_000_000
}

// rig is a broker with a filled topic, and the binaries.
type rig struct {
	t           *testing.T
	e           *kafkatest.Endpoint
	limit, weir string
	in          string
	n           int
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, e: kafkatest.Start(t, kafkatest.Nodes(1)).Endpoint, n: records(t)}
	r.limit = filepath.Join(t.TempDir(), "limit")
	r.do("go", "build", "-o", r.limit, "./limit")
	r.buildWeir()
	r.in = r.topic("in")
	r.do(r.limit, "load", "-brokers", r.e.Brokers()[0], "-topic", r.in, "-records", strconv.Itoa(r.n), "-keys", strconv.Itoa(keys))
	return r
}

// buildWeir builds weir as make build does, but with symbols, which no process loads.
func (r *rig) buildWeir() {
	r.t.Helper()
	r.weir = filepath.Join(r.t.TempDir(), "weir")
	r.do("env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-o", r.weir, "../../cmd/sidecar")
}

// topic makes a topic whose leaders answer.
func (r *rig) topic(name string) string {
	r.t.Helper()
	topic := r.e.CreateTopic(name, partitions)
	r.e.Settled(topic)
	return topic
}

func (r *rig) do(name string, args ...string) string {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), name, args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// bare runs the limit and returns its µs of CPU per record.
func (r *rig) bare(kind string) float64 {
	r.t.Helper()
	out := r.do("taskset", "-c", "0", r.limit, kind, "-brokers", r.e.Brokers()[0], "-topic", r.in, "-to", r.topic("bare"),
		"-records", strconv.Itoa(r.n))
	us, err := strconv.ParseFloat(out, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return us
}

const pipeline = `version: 1
job: %s
kafka: {brokers: ["%s"]}
checkpoint: {interval: %s, store: "file://%s/checkpoints"}
state: {dir: %s/state}
parallelism: 1
http: {listen: "127.0.0.1:%d"}
log: {level: warn}
sources: {in: {topic: %s}}
%s
sinks: {out: {from: %s, topic: %s, format: %s}}
`

const countOperator = `operators: {count: {from: in, key: key, aggregate: {count: count()}}}`

// figures are what a run of weir cost.
type figures struct {
	us, allocs float64
	commits    int64
}

// add takes a turn into the mean.
func (f *figures) add(turn figures) {
	f.us += turn.us / turns
	f.allocs += turn.allocs / turns
	f.commits += turn.commits
}

// job runs weir over the topic on one core and returns its cost per record between 20 % and 95 % of it.
func (r *rig) job(name, interval, operators, from, format string) figures {
	r.t.Helper()
	dir := r.t.TempDir()
	port := freePort(r.t)
	jobName := r.e.CreateTopic("job", 1)
	file := filepath.Join(dir, name+".yaml")
	text := fmt.Sprintf(pipeline, jobName, r.e.Brokers()[0], interval, dir, dir, port, r.in, operators, from, r.topic("out"), format)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), "taskset", "-c", "0", r.weir, "run", file)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.profile(name, cmd.Process.Pid)
	f := r.measure(cmd.Process.Pid, fmt.Sprintf("http://127.0.0.1:%d", port))
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		r.t.Fatalf("weir run: %v", err)
	}
	return f
}

// profile has perf sample the process into BENCH_PERF/NAME.data until that ends, where BENCH_PERF names a folder.
func (r *rig) profile(name string, pid int) {
	dir := os.Getenv("BENCH_PERF")
	if dir == "" {
		return
	}
	cmd := exec.Command("perf", "record", "-F", "499", "-g", "-o", filepath.Join(dir, name+".data"), "-p", strconv.Itoa(pid))
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = cmd.Wait() }) // it ends with the process that it watches
}

// point is a reading of a running job.
type point struct {
	records int64
	cpu     float64
	mallocs float64
	commits int64
}

func (r *rig) measure(pid int, address string) figures {
	r.t.Helper()
	var from, to point
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		p, ok := read(pid, address)
		switch {
		case time.Now().After(deadline):
			r.t.Fatalf("only %d of %d records after 3 minutes", p.records, r.n)
		case !ok:
		case from.records == 0 && p.records >= int64(r.n)/5:
			from = p
			from.mallocs = mallocs(address)
		case p.records >= int64(r.n)*19/20:
			to = p
			to.mallocs = mallocs(address)
			d := float64(to.records - from.records)
			return figures{us: (to.cpu - from.cpu) * 1e6 / d, allocs: (to.mallocs - from.mallocs) / d, commits: to.commits - from.commits}
		}
	}
}

// ticks is the unit of /proc/PID/stat.
const ticks = 100

func read(pid int, address string) (p point, ok bool) {
	resp, err := http.Get(address + "/api/v1/job")
	if err != nil {
		return p, false
	}
	defer resp.Body.Close()
	var s admin.Status
	if json.NewDecoder(resp.Body).Decode(&s) != nil {
		return p, false
	}
	for _, st := range s.Subtasks {
		p.records += st.RecordsIn
	}
	if s.Checkpoints.Committed != nil {
		p.commits = s.Checkpoints.Committed.ID
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	p.cpu = (user + system) / ticks
	return p, true
}

// mallocs reads the count of allocations from the Go runtime's metrics.
func mallocs(address string) float64 {
	resp, err := http.Get(address + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	var n float64
	for l := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(l, "go_memstats_mallocs_total "); ok {
			n, _ = strconv.ParseFloat(strings.TrimSpace(v), 64)
		}
	}
	return n
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (r *rig) line(name string, ratio, limit float64) {
	r.t.Helper()
	verdict := "ok"
	if ratio > limit {
		verdict = "short"
		r.t.Fail()
	}
	fmt.Printf("bench %s %.3f %.3f %s\n", name, ratio, limit, verdict)
}

// turns is how often each job runs. They take turns, so that what the machine does meanwhile meets all of them alike.
const turns = 2

func TestBench(t *testing.T) {
	r := newRig(t)
	var bareCopy, bareCount float64
	var pass, count, quickPass, quick figures
	for range turns {
		bareCopy += r.bare("copy") / turns
		bareCount += r.bare("count") / turns
		pass.add(r.job("pass", "1s", "", "in", "raw"))
		quickPass.add(r.job("quickpass", "100ms", "", "in", "raw"))
		count.add(r.job("count", "1s", countOperator, "count", "int64"))
		quick.add(r.job("quick", "100ms", countOperator, "count", "int64"))
	}
	fmt.Printf("µs of CPU per record: bare copy %.3f, bare count %.3f, pass %.3f, count %.3f; at 100ms pass %.3f, count %.3f\n",
		bareCopy, bareCount, pass.us, count.us, quickPass.us, quick.us)
	fmt.Printf("commits while measured: pass %d, count %d; at 100ms pass %d, count %d\n", pass.commits, count.commits, quickPass.commits, quick.commits)
	r.line("pass-cpu", pass.us/bareCopy, 1.5)
	r.line("count-cpu", count.us/bareCount, 3)
	r.line("pass-allocs", pass.allocs, 0.05)
	r.line("count-allocs", count.allocs, 0.05)
	r.line("pass-100ms", quickPass.us/pass.us, 1.15)
	r.line("count-100ms", quick.us/count.us, 1.15)
}
