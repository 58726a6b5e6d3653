package admin

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

func TestMetricsShowTheStatus(t *testing.T) {
	m := NewMetrics()
	m.Phase(PhaseTotal, 20*time.Millisecond)
	m.Phase("nonsense", time.Second)
	s := &Server{opts: Options{Job: jobWith(healthy()), Metrics: m}}
	body := scrape(t, s)
	for _, line := range []string{
		`weir_info{version="v0.1.0",weir_instance="weir-0",weir_job="page-views"} 1`,
		`weir_job_state{state="running"} 1`,
		`weir_job_state{state="failed"} 0`,
		`weir_job_attempt 2`,
		`weir_restarts_total{cause="kafka"} 1`,
		`weir_kafka_retries_total{code="19"} 3`,
		`weir_checkpoint_committed_id 41`,
		`weir_checkpoints_in_progress 1`,
		`weir_checkpoints_in_progress_limit 2`,
		`weir_transactions_open 1`,
		`weir_source_records_total{source="views",topic="in"} 11`,
		`weir_source_bytes_total{source="views",topic="in"} 110`,
		`weir_source_partitions{source="views",topic="in"} 3`,
		`weir_source_lag_records{source="views",topic="in"} 13`,
		`weir_source_lag_max_records{source="views",topic="in"} 10`,
		`weir_output_records_total{output="counts",topic="out"} 4`,
		`weir_subtasks 2`,
		`weir_prefetch_bytes 3`,
		`weir_channel_bytes{edge="per_page"} 9`,
		`weir_channel_limit_bytes{edge="per_page"} 8`,
		`weir_channel_full{edge="per_page"} 1`,
		`weir_state_entries{operator="per_page"} 12`,
		`weir_state_dirty_bytes{operator="per_page"} 7`,
		`weir_checkpoint_phase_duration_seconds_count{phase="total"} 1`,
		`weir_checkpoint_phase_duration_seconds_bucket{phase="total",le="0.025"} 1`,
		`weir_checkpoint_phase_duration_seconds_bucket{phase="total",le="0.01"} 0`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	for _, absent := range []string{"nonsense", "NaN"} {
		if strings.Contains(body, absent) {
			t.Errorf("%q is in the metrics", absent)
		}
	}
	if !strings.Contains(body, "\ngo_goroutines ") || !strings.Contains(body, "\nprocess_start_time_seconds ") {
		t.Error("the metrics of the runtime and the process are missing")
	}
}

func TestMetricsBeforeTheFirstCommit(t *testing.T) {
	body := scrape(t, &Server{opts: Options{Job: jobWith(Status{State: Starting}), Metrics: NewMetrics()}})
	for _, name := range []string{"weir_checkpoint_age_seconds", "weir_checkpoint_committed_id", "weir_transaction_oldest_seconds"} {
		if strings.Contains(body, "\n"+name) {
			t.Errorf("%s has a value before there is one", name)
		}
	}
}

func scrape(t *testing.T, s *Server) string {
	t.Helper()
	code, body := get(t, serveServer(t, s)+"/metrics")
	if code != 200 {
		t.Fatalf("/metrics = %d %s", code, body)
	}
	return body
}

func TestMetricNamesFollowPrometheus(t *testing.T) {
	families := gather(t, registered(jobWith(healthy())))
	m := prometheus.NewRegistry()
	m.MustRegister(newPhases())
	problems, err := promlint.NewWithMetricFamilies(append(families, gather(t, m)...)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func gather(t *testing.T, g prometheus.Gatherer) []*dto.MetricFamily {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// The number of series must follow the pipeline file, not partitions, subtasks or data.
func TestCardinalityIsBounded(t *testing.T) {
	count := func(s Status) int {
		n := 0
		for _, f := range gather(t, registered(jobWith(s))) {
			n += len(f.GetMetric())
		}
		return n
	}
	small := count(healthy())
	large := count(with(func(s *Status) {
		for i := range 1000 {
			s.Sources = append(s.Sources, SourcePartition{Source: "views", Topic: "in", Partition: int32(i)})
			s.Subtasks = append(s.Subtasks, Subtask{Subtask: i})
			s.Channels = append(s.Channels, Channel{Edge: "per_page", From: i})
			s.States = append(s.States, OperatorState{Operator: "per_page", Subtask: i})
			s.Retries[fmt.Sprint(i)] = 1
		}
	}))
	if large > small+codesKept {
		t.Errorf("%d series with a thousand of each, %d with few", large, small)
	}
}

func registered(j Job) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newCollector(j))
	return r
}

func TestMetricsReferenceIsCurrent(t *testing.T) {
	const path = "../docs/metrics.md"
	want := reference()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale; write it anew with: go test ./admin -run %s -update", path, t.Name())
	}
}

// reference is the text of docs/metrics.md.
func reference() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Metrics

Weir serves these at `+"`/metrics`"+` of its HTTP address, in Prometheus' text format, next to the usual `+"`go_`"+` and
`+"`process_`"+` metrics. Durations are in seconds, sizes in bytes. Labels take their values from the pipeline file or from
short lists, so the number of series does not grow with partitions, subtasks or data; figures of single partitions and
subtasks are in `+"`/api/v1/job`"+`. Counters begin at 0 with the process, some again with a restart of the job:
use `+"`rate`"+` or `+"`increase`"+`. What to watch is in [operations.md](operations.md).

This page is generated from package admin: `+"`go test ./admin -run TestMetricsReferenceIsCurrent -update`"+`.

| metric | type | labels | meaning |
|---|---|---|---|
`)
	for _, s := range table() {
		kind := "gauge"
		if s.counter {
			kind = "counter"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.name, kind, strings.Join(s.labels, ", "), s.help)
	}
	fmt.Fprintf(&b, "| `%s` | histogram | phase | %s |\n\n## Values of the labels\n\n", phaseMetric, phaseHelp)
	fmt.Fprintf(&b, "| label | values |\n|---|---|\n| phase | %s |\n| state | %s |\n| cause | %s |\n",
		names(phases()), names(states()), names(causes()))
	return b.Bytes()
}

func names[S ~string](list []S) string {
	var all []string
	for _, s := range list {
		all = append(all, "`"+string(s)+"`")
	}
	return strings.Join(all, ", ")
}
