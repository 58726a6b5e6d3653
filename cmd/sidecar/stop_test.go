package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/admin"
)

// endTxnFails lets the connection break at each EndTxn that picks says, while the switch that is returned is on.
func endTxnFails(r *rig, picks func(*kmsg.EndTxnRequest) bool) *atomic.Bool {
	on := new(atomic.Bool)
	r.fake.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.fake.KeepControl()
		if on.Load() && picks(req.(*kmsg.EndTxnRequest)) {
			return nil, errors.New("no answer"), true
		}
		return nil, nil, false
	})
	return on
}

func anyEnd(*kmsg.EndTxnRequest) bool    { return true }
func commits(e *kmsg.EndTxnRequest) bool { return e.Commit }
func stuck(s admin.Status) bool          { return inPhase(s, "commit") && s.LastRetry != nil }
func inPhase(s admin.Status, p string) bool {
	return len(s.Checkpoints.InProgress) > 0 && s.Checkpoints.InProgress[0].Phase == p
}

func TestAStopIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(*kmsg.EndTxnRequest) bool
		open  string
	}{
		"aborts what is open":       {commits, "its open transactions are aborted"},
		"cannot even abort in time": {anyEnd, "could not be aborted"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			fails := endTxnFails(r, c.fails)
			file := r.file()
			r.produce(100)
			r.start("run", file, "--shutdown-timeout", "2s")
			r.awaitCopies()
			fails.Store(true)
			r.produce(100)
			r.await("a commit that is stuck", stuck)
			begin := time.Now()
			if err := r.instance.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			status := r.ended(20 * time.Second)
			if took := time.Since(begin); status != exitFailed || took > 5*time.Second {
				t.Errorf("status %d after %v", status, took)
			}
			log := r.logged()
			for _, want := range []string{"in phase commit", "nothing is lost: the next start goes on from checkpoint ", "shutdown_timeout (2s)", c.open} {
				if !strings.Contains(log, want) {
					t.Errorf("%q is missing in\n%s", want, log)
				}
			}
			fails.Store(false)
			if name == "aborts what is open" {
				r.kafka.Settled(r.job + "-copies") // without another start
			}
			r.start("run", file)
			r.awaitCopies()
			if err := r.instance.Stop(20 * time.Second); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	r := newRig(t)
	fails := endTxnFails(r, anyEnd)
	r.produce(100)
	r.start("run", r.file())
	r.awaitCopies()
	fails.Store(true)
	r.await("a commit that is stuck", stuck)
	if err := r.instance.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.await("the stop under way", func(s admin.Status) bool { return s.State == admin.Draining })
	begin := time.Now()
	if err := r.instance.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	status := r.ended(20 * time.Second)
	if took := time.Since(begin); status != exitFailed || took > 3*time.Second || !strings.Contains(r.logged(), "second signal") {
		t.Errorf("status %d after %v\n%s", status, took, r.logged())
	}
}

// TestHTTPAnswersBeforeKafka starts against an address that takes connections and never answers.
func TestHTTPAnswersBeforeKafka(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	r := newRig(t)
	r.start("run", r.file(r.kafka.Brokers()[0], silent.Addr().String()))
	r.await("a status while connecting", func(s admin.Status) bool {
		return s.State == admin.Starting && strings.Contains(s.Reason, "connecting to Kafka at "+silent.Addr().String())
	})
	address, err := r.address()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/healthz": {http.StatusOK, "ok"},
		"/readyz":  {http.StatusServiceUnavailable, "connecting to Kafka"},
	} {
		resp, err := r.client.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want.code || !strings.Contains(string(text), want.text) {
			t.Errorf("%s: %d %s (%v)", path, resp.StatusCode, text, err)
		}
	}
	if err := r.instance.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := r.ended(3 * time.Second); status != exitFailed || !strings.Contains(r.logged(), "before the job was connected") {
		t.Errorf("status %d\n%s", status, r.logged())
	}
}
