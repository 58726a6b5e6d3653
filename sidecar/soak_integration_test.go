//go:build integration

package sidecar_test

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/tests/kafkatest"
)

// usage is what must not grow with the number of checkpoints.
type usage struct{ goroutines, stored, local int }

func (b *bench) usage() usage {
	b.t.Helper()
	return usage{runtime.NumGoroutine(), b.files(b.settings.Checkpoint.Dir), b.files(b.settings.State.Dir)}
}

func (b *bench) files(dir string) (n int) {
	b.t.Helper()
	err := filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error {
		if err == nil { // what is collected meanwhile is no error
			n++
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// reach waits for a committed checkpoint. A thousand take some seconds.
func (b *bench) reach(n int64) {
	b.t.Helper()
	committed := func() int64 {
		if c := b.job.Status().Checkpoints.Committed; c != nil {
			return c.ID
		}
		return 0
	}
	for deadline := time.Now().Add(10 * time.Minute); committed() < n; {
		if time.Now().After(deadline) {
			b.t.Fatalf("checkpoint %d is not reached, the last one is %d", n, committed())
		}
		select {
		case err := <-b.done:
			b.t.Fatalf("the job ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestFault47ManyCheckpoints lets a job commit as fast as it can, nearly all transactions empty. CHECKPOINTS= is how many; make
// soak wants ten thousand.
func TestFault47ManyCheckpoints(t *testing.T) {
	many, err := strconv.ParseInt(cmp.Or(os.Getenv("CHECKPOINTS"), "500"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, kafkatest.Fake(t).Endpoint, statestore.Pebble)
	b.settings.Checkpoint.Interval = time.Millisecond
	b.produce(100)
	b.start()
	b.reach(200) // all that is ever open has been opened
	early, began := b.usage(), time.Now()
	b.produce(100)
	b.reach(200 + many)
	late := b.usage()
	t.Logf("at first %+v, after %d checkpoints in %v %+v", early, many, time.Since(began).Round(time.Second), late)
	const slack = 60 // goroutines and files come and go while a checkpoint is made, and files of some are collected at once
	if late.goroutines > early.goroutines+slack || late.stored > early.stored+slack || late.local > early.local+slack {
		t.Errorf("something grows: %+v, then %+v", early, late)
	}
	b.stop()
	b.check()
}
