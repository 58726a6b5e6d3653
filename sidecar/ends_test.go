package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/sidecar"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/task"
	"github.com/weirstream/weir/tests/kafkatest"
	"github.com/weirstream/weir/topology"
)

// TestFault37ARecordThatCannotBeProcessedEndsTheJob: where on_error is fail no restart mends it, so the job ends, and names
// the record and the cure. What it has written since the last checkpoint is aborted, so that nobody waits for it.
func TestFault37ARecordThatCannotBeProcessedEndsTheJob(t *testing.T) {
	b := newBench(t, kafkatest.Fake(t).Endpoint, statestore.FS)
	graph, faults := topology.Compile(topology.Spec{
		Job:       b.settings.Job,
		Sources:   []topology.SourceSpec{{Name: "src", Topic: b.in, Format: "json"}},
		Operators: []topology.OperatorSpec{{Name: "ones", From: []string{"src"}, Filter: "x == 1"}},
		Sinks:     []topology.SinkSpec{{Name: "copies", Topic: b.copies, From: []string{"ones"}}},
	})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	b.settings.Graph, b.settings.Checkpoint.Interval = graph, time.Hour // after the first checkpoint
	b.start()
	b.e.Until("the first checkpoint", func(context.Context) error {
		if b.job.Status().Checkpoints.Committed == nil {
			return errors.New("not yet")
		}
		return nil
	})
	b.e.Produce(b.in, kafkatest.Record{Value: []byte(`{"x":1}`)})
	b.e.Until("an uncommitted result", func(context.Context) error {
		if len(b.e.ReadAll(b.copies)) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	b.e.Produce(b.in, kafkatest.Record{Value: []byte("no json")})
	err := <-b.done
	var bad *task.RecordError
	if !errors.As(err, &bad) || bad.Source != "src" || bad.Offset != 1 || !bad.OperatorDecides() || !strings.Contains(err.Error(), "sources.src.on_error") {
		t.Errorf("Run returned %v", err)
	}
	if got := b.e.ReadCommitted(b.copies); len(got) != 0 { // waits until nothing is open
		t.Errorf("%d results are committed", len(got))
	}
}

// TestAStopBetweenAttemptsLeavesNothingOpen stops a job that waits for its next attempt.
func TestAStopBetweenAttemptsLeavesNothingOpen(t *testing.T) {
	b := newBench(t, kafkatest.Fake(t).Endpoint, statestore.FS)
	b.settings.TransactionTimeout, b.settings.Restart.Min, b.settings.Restart.Max = 2*time.Second, time.Hour, time.Hour
	b.produce(100)
	b.start()
	b.awaitCopies()
	folder := filepath.Join(b.settings.Checkpoint.Dir, b.settings.Job)
	if err := errors.Join(os.Rename(folder, folder+".aside"), os.WriteFile(folder, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	b.produce(100)
	b.e.Until("the end of the attempt", func(context.Context) error {
		if n := len(b.job.Status().Failures); n == 0 {
			return fmt.Errorf("%d failures", n)
		}
		return nil
	})
	b.job.Stop()
	var stop *sidecar.StopError
	if err := <-b.done; !errors.As(err, &stop) {
		t.Errorf("Run returned %v", err)
	}
	if got := len(b.e.ReadCommitted(b.copies)); got != 100 { // waits until nothing is open
		t.Errorf("%d results are committed, want 100", got)
	}
}
