package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeJob is a job whose status a test sets.
type fakeJob struct{ status atomic.Pointer[Status] }

func (j *fakeJob) Status() Status { return *j.status.Load() }

func jobWith(s Status) *fakeJob {
	j := &fakeJob{}
	j.status.Store(&s)
	return j
}

// healthy is a job in order, with one of everything.
func healthy() Status {
	now := time.Now()
	return Status{
		Identity: Identity{Job: "page-views", Instance: "weir-0", Version: "v0.1.0"},
		State:    Running, Attempt: 2, Started: now.Add(-time.Hour), TransactionTimeoutSeconds: 300,
		Checkpoints: Checkpoints{
			Committed:   &Committed{ID: 41, Time: now.Add(-time.Second), Manifest: "checkpoint-41/manifest.json"},
			InProgress:  []InProgress{{ID: 42, Phase: "barrier", Since: now.Add(-100 * time.Millisecond), Acknowledged: []int{1}}},
			MaxInFlight: 2, IntervalSeconds: 1,
		},
		Transactions: []Transaction{{TransactionalID: "page-views-0", ProducerID: 7, Epoch: 3, Since: now.Add(-time.Second)}},
		Sources: []SourcePartition{
			{Source: "views", Topic: "in", Partition: 0, Position: 90, HighWatermark: 100, Records: 5, Bytes: 50},
			{Source: "views", Topic: "in", Partition: 1, Position: 100, HighWatermark: 103, Records: 6, Bytes: 60},
			{Source: "views", Topic: "in", Partition: 2, Position: 100, HighWatermark: -1},
		},
		Outputs:   []Output{{Output: "counts", Topic: "out", Records: 4, Bytes: 40}},
		Subtasks:  []Subtask{{Subtask: 0, RecordsIn: 5, Prefetch: Buffer{Bytes: 3, LimitBytes: 10}}, {Subtask: 1, RecordsIn: 6}},
		Channels:  []Channel{{Edge: "per_page", From: 0, To: 1, Buffer: Buffer{Bytes: 9, LimitBytes: 8, Full: true}}},
		States:    []OperatorState{{Operator: "per_page", Entries: 12, Bytes: 120, DirtyBytes: 7}},
		Incidents: Incidents{Retries: map[string]int64{"19": 3}, Restarts: map[Cause]int64{CauseKafka: 1}},
	}
}

// with returns a healthy job's status after a change.
func with(change func(*Status)) Status {
	s := healthy()
	change(&s)
	return s
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// serve answers for a job through the handler alone.
func serve(t *testing.T, j Job) string {
	t.Helper()
	return serveServer(t, &Server{opts: Options{Job: j, Metrics: NewMetrics(), ReadyWithin: time.Hour}})
}

func serveServer(t *testing.T, s *Server) string {
	t.Helper()
	h := httptest.NewServer(s.handler())
	t.Cleanup(h.Close)
	return h.URL
}

func TestHealthAndReadiness(t *testing.T) {
	committed := func(age time.Duration) *Committed { return &Committed{ID: 41, Time: time.Now().Add(-age)} }
	cases := []struct {
		name          string
		status        Status
		health, ready int
		says          string
	}{
		{"in order", healthy(), 200, 200, "ok"},
		{"starting", with(func(s *Status) { s.State = Starting }), 200, 503, "the job is starting"},
		{"restarting", with(func(s *Status) { s.State, s.Failures = Recovering, []Failure{{Error: "broker gone"}} }), 200, 503,
			"the job is recovering: broker gone"},
		{"draining", with(func(s *Status) { s.State = Draining }), 200, 503, "the job is draining"},
		{"nothing committed", with(func(s *Status) { s.Checkpoints = Checkpoints{} }), 200, 503, "no checkpoint is committed yet"},
		{"young commit", with(func(s *Status) { s.Checkpoints.Committed = committed(30 * time.Minute) }), 200, 200, "ok"},
		{"old commit", with(func(s *Status) { s.Checkpoints.Committed = committed(2 * time.Hour) }), 200, 503,
			"acknowledged by 1 of 2 subtasks"},
		{"waiting", with(func(s *Status) {
			s.Checkpoints.Committed, s.LastRetry = committed(2*time.Hour), &Retry{Time: time.Now(), Error: "topic out has no leader"}
		}), 200, 503, "tried again because of: topic out has no leader"},
		{"failed", with(func(s *Status) { s.State, s.Reason = Failed, "topic gone" }), 503, 503, "topic gone"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			url := serve(t, jobWith(c.status))
			if code, body := get(t, url+"/healthz"); code != c.health {
				t.Errorf("/healthz = %d %q, want %d", code, body, c.health)
			}
			if code, body := get(t, url+"/readyz"); code != c.ready || !strings.Contains(body, c.says) {
				t.Errorf("/readyz = %d %q, want %d with %q", code, body, c.ready, c.says)
			}
		})
	}
}

func TestStatusComesBackThroughTheClient(t *testing.T) {
	url := serve(t, jobWith(healthy()))
	s, err := Fetch(t.Context(), http.DefaultClient, strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if s.SchemaVersion != SchemaVersion || s.Job != "page-views" || s.Checkpoints.Committed.ID != 41 {
		t.Errorf("read back %+v", s)
	}
	if s.Sources[0].Lag != 10 || s.Sources[2].Lag != 0 {
		t.Errorf("lag %d and, without a known end, %d; want 10 and 0", s.Sources[0].Lag, s.Sources[2].Lag)
	}
	if age := s.Checkpoints.Committed.AgeSeconds; age < 1 || age > 60 {
		t.Errorf("age %v s, want about 1", age)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestStatusHasNoNullLists(t *testing.T) {
	_, body := get(t, serve(t, jobWith(Status{State: Starting}))+"/api/v1/job")
	var doc map[string]any
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"transactions", "sources", "outputs", "subtasks", "channels", "states", "failures", "retries", "restarts"} {
		if v, ok := doc[name]; !ok || v == nil {
			t.Errorf("%s is %v in a job without any", name, v)
		}
	}
}

func TestClientRefusesWhatItDoesNotKnow(t *testing.T) {
	answers := map[string]struct {
		code int
		body string
		want string
	}{
		"newer":       {200, `{"schema_version": 2}`, "schema version 2"},
		"not JSON":    {200, `<html>`, "no status of a job"},
		"not found":   {404, `nothing`, "404"},
		"other error": {500, ``, "500"},
	}
	for name, a := range answers {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(a.code)
			io.WriteString(w, a.body) //nolint:errcheck // the client's test fails then
		}))
		if _, err := Fetch(t.Context(), h.Client(), h.URL); err == nil || !strings.Contains(err.Error(), a.want) {
			t.Errorf("%s: %v, want one that says %q", name, err, a.want)
		}
		h.Close()
	}
	if _, err := Fetch(t.Context(), http.DefaultClient, "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "is it running") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestServerOnAFreePortUntilItsContextEnds(t *testing.T) {
	s, err := Listen(t.Context(), Options{Listen: "127.0.0.1:0", Job: jobWith(healthy()), Metrics: NewMetrics()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), Options{Listen: s.Addr(), Job: s.opts.Job, Metrics: NewMetrics()}); err == nil ||
		!strings.Contains(err.Error(), "http.listen") {
		t.Errorf("second server on %s: %v", s.Addr(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/api/v1/job"} {
		if code, body := get(t, "http://"+s.Addr()+path); code != 200 {
			t.Errorf("%s = %d %s", path, code, body)
		}
	}
	if code, _ := get(t, "http://"+s.Addr()+"/nothing"); code != 404 {
		t.Errorf("/nothing = %d, want 404", code)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v after a stop", err)
	}
	if _, err := net.DialTimeout("tcp", s.Addr(), time.Second); err == nil {
		t.Error("the server still takes connections after its end")
	}
}

// slowJob answers only when it may.
type slowJob struct{ asked, may chan struct{} }

func (j slowJob) Status() Status {
	j.asked <- struct{}{}
	<-j.may
	return healthy()
}

func TestServerAnswersWhatIsOnItsWayBeforeItEnds(t *testing.T) {
	j := slowJob{make(chan struct{}), make(chan struct{})}
	s, err := Listen(t.Context(), Options{Listen: "127.0.0.1:0", Job: j, Metrics: NewMetrics()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, answered := make(chan error, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	go func() {
		_, err := Fetch(context.WithoutCancel(ctx), client, s.Addr())
		answered <- err
	}()
	<-j.asked
	cancel()
	for err == nil { // until the server is about to end
		var c net.Conn
		if c, err = net.DialTimeout("tcp", s.Addr(), time.Second); err == nil {
			err = c.Close()
		}
	}
	close(j.may)
	if err := errors.Join(<-answered, <-ended); err != nil {
		t.Error(err)
	}
}
