package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/sidecar"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/tests/kafkatest"
)

// busy answers requests of a kind with an error until it is told to stop; it has refused at least one when it says so.
func busy(f *kafkatest.FakeCluster, key kmsg.Key, refusal func(kmsg.Request) kmsg.Response) (refused func() bool, stop func()) {
	var over atomic.Bool
	var count atomic.Int64
	f.ControlKey(key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if over.Load() {
			return nil, nil, false
		}
		f.KeepControl()
		count.Add(1)
		return refusal(req), nil, true
	})
	return func() bool { return count.Load() >= 20 }, func() { over.Store(true) }
}

// TestFault22BusyCoordinatorsAreWaitedFor: a coordinator that loads, or still writes markers, is asked again and again.
// That is no reason to begin another attempt.
func TestFault22BusyCoordinatorsAreWaitedFor(t *testing.T) {
	for name, refusal := range map[string]struct {
		key  kmsg.Key
		with func(kmsg.Request) kmsg.Response
	}{
		"InitProducerId": {kmsg.InitProducerID, func(req kmsg.Request) kmsg.Response {
			resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
			resp.ErrorCode = kerr.ConcurrentTransactions.Code
			return resp
		}},
		"EndTxn": {kmsg.EndTxn, func(req kmsg.Request) kmsg.Response {
			resp := req.ResponseKind().(*kmsg.EndTxnResponse)
			resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
			return resp
		}},
		"AddOffsetsToTxn": {kmsg.AddOffsetsToTxn, func(req kmsg.Request) kmsg.Response {
			resp := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
			resp.ErrorCode = kerr.ConcurrentTransactions.Code
			return resp
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := kafkatest.Fake(t)
			b := newBench(t, f.Endpoint, statestore.FS)
			b.produce(100)
			b.start()
			b.awaitCopies()
			attempt := b.job.Status().Attempt
			refused, stop := busy(f, refusal.key, refusal.with)
			b.produce(100)
			b.e.Until("refusals", func(context.Context) error {
				if !refused() {
					return errors.New("not yet")
				}
				return nil
			})
			stop()
			b.awaitCopies()
			if s := b.job.Status(); s.Attempt != attempt || len(s.Failures) > 0 {
				t.Errorf("attempt %d became %d: %+v", attempt, s.Attempt, s.Failures)
			}
			b.stop()
			b.check()
		})
	}
}

// TestFault31ADamagedCheckpointIsNotRestored damages what the last committed checkpoint consists of. Its results are
// visible, so there is nothing to go back to: the job must stop and name the file.
func TestFault31ADamagedCheckpointIsNotRestored(t *testing.T) {
	flip := func(text []byte) []byte { text[len(text)/2] ^= 0x20; return text }
	for name, c := range map[string]struct {
		part   string
		damage func([]byte) []byte
	}{
		"a manifest with a flipped bit": {"manifest", flip},
		"a manifest cut off":            {"manifest", func(text []byte) []byte { return text[:len(text)/2] }},
		"state with a flipped bit":      {".dump", flip},
		"state cut off":                 {".dump", func(text []byte) []byte { return text[:len(text)-1] }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, kafkatest.Fake(t).Endpoint, statestore.FS)
			b.produce(200)
			b.start()
			b.awaitCopies()
			b.stop()
			before := len(b.e.ReadAll(b.copies))
			b.damage(c.part, c.damage)
			b.start()
			err := <-b.done
			var lost *sidecar.LostCheckpointError
			if !errors.As(err, &lost) || !strings.Contains(err.Error(), "committed") {
				t.Fatalf("Run returned %v", err)
			}
			if after := len(b.e.ReadAll(b.copies)); after != before {
				t.Errorf("%d results were written from a damaged checkpoint", after-before)
			}
		})
	}
}

// damage changes all files of the checkpoint store whose path has the given part.
func (b *bench) damage(part string, change func([]byte) []byte) {
	b.t.Helper()
	damaged := 0
	err := filepath.WalkDir(b.settings.Checkpoint.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, part) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		damaged++
		return errors.Join(os.Remove(path), os.WriteFile(path, change(text), 0o600)) // the state store may have linked it
	})
	if err != nil || damaged == 0 {
		b.t.Fatal(fmt.Errorf("%d files damaged: %w", damaged, err))
	}
}
