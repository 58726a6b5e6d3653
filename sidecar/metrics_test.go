package sidecar_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/tests/kafkatest"
)

// TestEveryPhaseOfACheckpointIsMeasured scrapes a job that has committed.
func TestEveryPhaseOfACheckpointIsMeasured(t *testing.T) {
	b := newBench(t, kafkatest.Fake(t).Endpoint, statestore.FS)
	b.produce(100)
	b.start()
	b.awaitCopies()
	server, err := admin.Listen(t.Context(), admin.Options{Listen: "127.0.0.1:0", Job: b.job, Metrics: b.job.Metrics(), ReadyWithin: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	b.stop()
	resp, err := http.Get("http://" + server.Addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	phases := regexp.MustCompile(`weir_checkpoint_phase_duration_seconds_count\{phase="(\w+)"\} (\d+)`).FindAllStringSubmatch(string(text), -1)
	if len(phases) == 0 {
		t.Fatalf("no phases in\n%s", text)
	}
	for _, p := range phases {
		if p[2] == "0" {
			t.Errorf("phase %s was never measured", p[1])
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
