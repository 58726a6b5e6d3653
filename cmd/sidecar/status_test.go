package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/admin"
)

func aStatus() admin.Status {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	return admin.Status{
		SchemaVersion: admin.SchemaVersion, Time: now,
		Identity: admin.Identity{Job: "page-views", Instance: "weir-0", Version: "v0.1.0", Guarantee: "exactly_once"},
		State:    admin.Running, Attempt: 2, Started: now.Add(-90 * time.Minute), TransactionTimeoutSeconds: 300,
		Checkpoints: admin.Checkpoints{
			Committed:   &admin.Committed{ID: 41, Time: now.Add(-800 * time.Millisecond)},
			InProgress:  []admin.InProgress{{ID: 42, Phase: "barrier", Since: now.Add(-20 * time.Millisecond), Acknowledged: []int{1}}},
			MaxInFlight: 3,
		},
		Transactions: []admin.Transaction{{TransactionalID: "page-views-0", Since: now.Add(-2 * time.Second)}},
		Sources: []admin.SourcePartition{
			{Source: "views", Topic: "in", Partition: 0, Lag: 5, Records: 1000, Bytes: 2048},
			{Source: "views", Topic: "in", Partition: 1, Lag: 2, Records: 500},
		},
		Outputs:  []admin.Output{{Output: "counts", Topic: "out", Records: 700, Bytes: 1 << 20}},
		Subtasks: make([]admin.Subtask, 2),
		States:   []admin.OperatorState{{Operator: "per_page", Entries: 10}, {Operator: "per_page", Entries: 11, Subtask: 1}},
		Channels: []admin.Channel{{Edge: "per_page", Buffer: admin.Buffer{Full: true, Bytes: 1024, LimitBytes: 1024}}, {Edge: "per_page"}},
		Incidents: admin.Incidents{
			Retries: map[string]int64{"19": 12, "7": 1}, Restarts: map[admin.Cause]int64{admin.CauseKafka: 1},
			LastRetry: &admin.Retry{Time: now.Add(-3 * time.Second), Error: "no leader"},
			Failures:  []admin.Failure{{Time: now.Add(-time.Minute), Attempt: 1, Cause: admin.CauseKafka, Error: "broker gone"}},
		},
	}
}

// answering returns the address of a job with this status.
func answering(t *testing.T, s admin.Status) string {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(s); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(h.Close)
	return h.URL
}

// squeezed makes runs of blanks one blank, so that tests do not depend on the width of columns.
func squeezed(text string) string {
	var lines []string
	for l := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(l), " "))
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestStatusForAPerson(t *testing.T) {
	status, got, errOut := weir(t, "status", "--address", answering(t, aStatus()))
	if status != exitFine {
		t.Fatalf("status %d: %s", status, errOut)
	}
	for _, want := range []string{
		"job page-views, exactly_once, instance weir-0, weir v0.1.0",
		"state running, attempt 2, up 1h30m0s",
		"checkpoint 41 committed 800ms ago, 1 of at most 3 in progress",
		"42 in barrier for 20ms, acknowledged by 1 of 2 subtasks",
		"transactions 1 open, the oldest for 2s of at most 5m0s",
		"retries 19 × 12, 7 × 1; 3s ago: no leader",
		"restarts kafka × 1",
		"failure 1m0s ago, attempt 1, kafka: broker gone",
		"SOURCE TOPIC PARTITIONS RECORDS BYTES LAG",
		"views in 2 1,500 2.0 KiB 7",
		"OUTPUT TOPIC RECORDS BYTES",
		"counts out 700 1.0 MiB",
		"per_page 21 0 B 0 B 0 B",
		"per_page 2 1 1.0 KiB 1.0 KiB",
	} {
		if !strings.Contains(squeezed(got), "\n"+want+"\n") && !strings.HasPrefix(squeezed(got), want+"\n") {
			t.Errorf("missing %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Error("escapes although the output is no terminal")
	}
}

func TestStatusOfAJobThatStarts(t *testing.T) {
	s := admin.Status{SchemaVersion: admin.SchemaVersion, State: admin.Starting, Reason: "waiting for brokers"}
	status, got, errOut := weir(t, "status", "--address", answering(t, s))
	if status != exitFine || !strings.Contains(got, "(waiting for brokers)") || !strings.Contains(got, "none committed yet") {
		t.Errorf("status %d:\n%s%s", status, got, errOut)
	}
}

func TestStatusForAProgram(t *testing.T) {
	status, got, errOut := weir(t, "status", "--output", "json", "--address", answering(t, aStatus()))
	if status != exitFine {
		t.Fatalf("status %d: %s", status, errOut)
	}
	var s admin.Status
	if err := json.Unmarshal([]byte(got), &s); err != nil || s.Checkpoints.Committed.ID != 41 {
		t.Errorf("%v:\n%s", err, got)
	}
}

func TestStatusColoursTheStateOnATerminal(t *testing.T) {
	var b strings.Builder
	if err := writeStatus(&b, screen{color: true}, aStatus(), nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\x1b[32mrunning\x1b[0m") {
		t.Errorf("no green state in:\n%s", b.String())
	}
}

func TestStatusRates(t *testing.T) {
	before, now := aStatus(), aStatus()
	now.Time = before.Time.Add(2 * time.Second)
	now.Sources[0].Records += 5000
	now.Outputs[0].Records = 3 // counts from 0 again after a restart
	var b strings.Builder
	if err := writeStatus(&b, screen{}, now, &before); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nviews in 2 6,500 2.0 KiB 7 2,500\n", "\ncounts out 3 1.0 MiB 0\n"} {
		if !strings.Contains(squeezed(b.String()), want) {
			t.Errorf("missing %q in:\n%s", want, b.String())
		}
	}
}

// watched is written to by a command that shows pictures, and ends it after some.
type watched struct {
	text     bytes.Buffer // not embedded: its WriteString would get past Write
	pictures int
	end      context.CancelFunc
}

func (w *watched) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("page-views")) || bytes.Contains(p, []byte("no answer")) {
		if w.pictures--; w.pictures == 0 {
			w.end()
		}
	}
	return w.text.Write(p)
}

func TestStatusWatchesAJobThatGoesAwayAndComesBack(t *testing.T) {
	asked := 0
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 2 {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		if err := json.NewEncoder(w).Encode(aStatus()); err != nil {
			t.Error(err)
		}
	}))
	defer h.Close()
	ctx, cancel := context.WithCancel(t.Context())
	out := &watched{pictures: 3, end: cancel}
	root := newRoot()
	root.SetArgs([]string{"status", "--watch", "--interval", "100ms", "--address", h.URL})
	root.SetOut(out)
	if err := root.ExecuteContext(ctx); err != nil {
		t.Fatal(err)
	}
	if text := out.text.String(); strings.Count(text, "job           page-views") != 2 || strings.Count(text, "no answer") != 1 {
		t.Errorf("want two pictures and a failure between them:\n%s", text)
	}
}

func TestStatusRefusesNonsense(t *testing.T) {
	for _, args := range []string{"--output xml", "--interval 1ms", "extra", "--nothing"} {
		if status, _, errOut := weir(t, append([]string{"status"}, strings.Fields(args)...)...); status != exitUsage || errOut == "" {
			t.Errorf("weir status %s: status %d, %s", args, status, errOut)
		}
	}
	status, _, errOut := weir(t, "status", "--address", "127.0.0.1:1")
	if status != exitFailed || !strings.Contains(errOut, "is it running") {
		t.Errorf("nobody there: status %d, %s", status, errOut)
	}
}

func TestStatusOfAStartNamesNoAttempt(t *testing.T) {
	s := aStatus()
	s.State, s.Attempt, s.Reason = admin.Recovering, 0, ""
	if _, got, _ := weir(t, "status", "--address", answering(t, s)); !strings.Contains(squeezed(got), "state recovering, up 1h30m0s") {
		t.Errorf("an attempt without a number:\n%s", got)
	}
}
