//go:build integration

package consoles

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/instance"
	"github.com/weirstream/weir/tests/kafkatest"
)

// The topics and the job are those of examples/page-views.
const (
	job     = "page-views"
	in, out = "page-views", "page-view-counts"
	kills   = 5
	// sources is the number of partitions of the input, pages that of the keys.
	sources, pages = 4, 7
)

// run is the job of the example, with what it was fed.
type run struct {
	t       *testing.T
	kafka   *kafkatest.Cluster
	process *instance.Instance
	views   int
	// want are the valid views by page.
	want map[string]int
}

// TestConsolesAgree kills the job of an example several times, and then looks at its results as any user of Kafka would.
func TestConsolesAgree(t *testing.T) {
	k := kafkatest.Start(t, kafkatest.Private())
	k.CreateExactTopic(in, sources)
	k.CreateExactTopic(out, 3)
	r := &run{t: t, kafka: k, want: map[string]int{}}
	r.prepare()
	for range kills {
		r.feed(400)
		r.must(r.process.Start())
		r.awaitResults()
		r.feed(400)
		k.Until("results in an open transaction", func(context.Context) error {
			for _, o := range k.Offsets(out) {
				if o.High > o.LastStable {
					return nil
				}
			}
			return fmt.Errorf("readers see everything that is written")
		})
		r.must(r.process.Kill())
	}
	r.must(r.process.Start())
	r.awaitResults()
	r.must(r.process.Stop(kafkatest.Patience))
	written, valid := len(k.ReadAll(out)), r.valid()
	t.Logf("%d views in, %d of them valid, %d kills, %d results written, aborted ones included", r.views, valid, kills, written)
	if written == valid {
		t.Error("no result was aborted: the kills came at harmless moments")
	}
	r.consumerAgrees(valid)
	r.groupAgrees()
}

func (r *run) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// prepare writes the example's pipeline so that each valid view has a result of its own: then a view counted twice, or never,
// shows in the number of results as well.
func (r *run) prepare() {
	dir := r.t.TempDir()
	text, err := os.ReadFile("../../examples/page-views/pipeline.yaml")
	r.must(err)
	pipeline := strings.Replace(string(text), "emit: on_checkpoint", "emit: every_update", 1)
	if pipeline == string(text) {
		r.t.Fatal("the example has changed: it emits at every update already, or does not say")
	}
	file, binary := filepath.Join(dir, "pipeline.yaml"), filepath.Join(dir, "weir")
	r.must(os.WriteFile(file, []byte(pipeline), 0o600))
	if text, err := exec.Command("go", "build", "-o", binary, "../../cmd/sidecar").CombinedOutput(); err != nil {
		r.t.Fatalf("%v\n%s", err, text)
	}
	env := []string{"WEIR_DATA=" + dir, "WEIR__KAFKA__BROKERS=" + strings.Join(r.kafka.Brokers(), ","), "WEIR__HTTP__LISTEN=off",
		"WEIR__CHECKPOINT__INTERVAL=1s", "WEIR__PARALLELISM=2"}
	r.process, err = instance.New(filepath.Join(dir, "log"), env, binary, "run", file)
	r.must(err)
	r.t.Cleanup(func() {
		_ = r.process.Kill()
		if r.t.Failed() {
			r.t.Logf("%s", r.process.LastLines())
		}
		_ = r.process.Close()
	})
}

// feed writes views, every tenth of which is of no account.
func (r *run) feed(n int) {
	r.t.Helper()
	var records []kafkatest.Record
	for range n {
		page, status := fmt.Sprintf("/page/%d", r.views%pages), 200
		if r.views%10 == 9 {
			status = 500
		} else {
			r.want[page]++
		}
		value := fmt.Appendf(nil, `{"page":%q,"user":"u%d","status":%d,"latency_ms":%d}`, page, r.views%97, status, r.views%250)
		records = append(records, kafkatest.Record{Partition: int32(r.views % sources), Value: value})
		r.views++
	}
	r.kafka.Produce(in, records...)
}

// valid is the number of views that count.
func (r *run) valid() (n int) {
	for _, views := range r.want {
		n += views
	}
	return n
}

// awaitResults waits until each valid view has its result.
func (r *run) awaitResults() {
	r.t.Helper()
	want := r.valid()
	r.kafka.Until(fmt.Sprintf("%d results", want), func(context.Context) error {
		if n := len(r.kafka.ReadCommitted(out)); n != want {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
}

// consumerAgrees compares what the console consumer reads with what was fed: as many results as valid views, and for each page
// the counts 1, 2, … up to its views.
func (r *run) consumerAgrees(valid int) {
	text := r.kafka.Tool("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", r.kafka.Addr(1), "--topic", out,
		"--isolation-level", "read_committed", "--from-beginning", "--timeout-ms", "5000", "--formatter-property", "print.key=true")
	read, seen := 0, map[string]int{}
	for line := range strings.Lines(text) {
		page, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		var row struct{ Views int }
		if err := json.Unmarshal([]byte(value), &row); err != nil {
			r.t.Fatalf("the console consumer prints %q: %v", line, err)
		}
		read++
		if seen[page]++; row.Views != seen[page] {
			r.t.Fatalf("%s: %d views at its result number %d", page, row.Views, seen[page])
		}
	}
	r.t.Logf("the console consumer reads %d results; the last counts are %v", read, seen)
	if read != valid || fmt.Sprint(seen) != fmt.Sprint(r.want) {
		r.t.Errorf("want %d, and %v", valid, r.want)
	}
}

// groupAgrees checks what the consumer-groups tool shows: every partition of the source read to its end, by no member.
func (r *run) groupAgrees() {
	text := r.kafka.Tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", r.kafka.Addr(1),
		"--describe", "--group", job)
	r.t.Logf("kafka-consumer-groups --describe --group %s\n%s", job, text)
	ends, found := r.kafka.Offsets(in), 0
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 || f[0] != job {
			continue
		}
		var partition int32
		var at, end, lag int64
		if _, err := fmt.Sscan(strings.Join(f[2:6], " "), &partition, &at, &end, &lag); err != nil {
			r.t.Fatalf("%q: %v", line, err)
		}
		found++
		if f[1] != in || at != ends[partition].High || lag != 0 {
			r.t.Errorf("%q: want %s at %d, lag 0", strings.TrimSpace(line), in, ends[partition].High)
		}
	}
	if found != sources {
		r.t.Errorf("%d partitions are shown, want %d", found, sources)
	}
}
