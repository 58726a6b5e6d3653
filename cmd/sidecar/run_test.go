package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/internal/instance"
	"github.com/weirstream/weir/tests/kafkatest"
)

const countingPipeline = `version: 1
job: %[1]s
kafka: {brokers: [%[2]q], transaction_timeout: 5m}
checkpoint: {interval: 100ms, store: "file://%[3]s"}
state: {dir: %[4]q}
sources:
  in: {topic: %[1]s-in}
operators:
  count: {from: in, key: key, aggregate: {count: count()}}
sinks:
  counts: {from: count, topic: %[1]s-counts, format: int64}
  copies: {from: in, topic: %[1]s-copies}
parallelism: 2
http: {listen: "127.0.0.1:0"}
`

// rig runs weir as a process on a broker within the test.
type rig struct {
	t     *testing.T
	kafka *kafkatest.Endpoint
	// fake is the same where it is one.
	fake *kafkatest.FakeCluster
	// job is its name, and the beginning of its topics'.
	job string
	// input is the end of the name of the topic that is read.
	input string
	// dir has the pipeline file and, unless a test moves them, state and checkpoints.
	dir, store, state string
	instance          *instance.Instance
	log               string
	produced          int
	client            http.Client
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel() // each waits for its processes most of the time
	fake := kafkatest.Fake(t)
	r := newRigOn(t, fake.Endpoint)
	r.fake = fake
	return r
}

func newRigOn(t *testing.T, e *kafkatest.Endpoint) *rig {
	t.Helper()
	r := &rig{t: t, kafka: e, job: fmt.Sprintf("counting-%08x", rand.Uint32()), input: "in", dir: t.TempDir()}
	r.store, r.state = filepath.Join(r.dir, "checkpoints"), filepath.Join(r.dir, "state")
	for _, topic := range []string{"in", "counts", "copies"} {
		r.kafka.CreateExactTopic(r.job+"-"+topic, 2)
	}
	return r
}

// file writes the pipeline file and returns its name. replace are pairs of old and new text.
func (r *rig) file(replace ...string) string {
	r.t.Helper()
	text := fmt.Sprintf(countingPipeline, r.job, r.kafka.Brokers()[0], r.store, r.state)
	file := filepath.Join(r.dir, "pipeline.yaml")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(replace...).Replace(text)), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return file
}

// start starts weir with the arguments given.
func (r *rig) start(args ...string) {
	r.t.Helper()
	r.startUnder(nil, args...)
}

// startUnder has another command start it.
func (r *rig) startUnder(command []string, args ...string) {
	r.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	r.log = filepath.Join(r.t.TempDir(), "log")
	r.instance, err = instance.New(r.log, []string{asCommand + "=1"}, slices.Concat(command, []string{exe}, args)...)
	if err != nil {
		r.t.Fatal(err)
	}
	i := r.instance
	r.t.Cleanup(func() {
		if err := errors.Join(i.Kill(), i.Close()); err != nil {
			r.t.Error(err)
		}
		r.client.CloseIdleConnections()
	})
	if err := r.instance.Start(); err != nil {
		r.t.Fatal(err)
	}
}

// logged returns what the process has logged.
func (r *rig) logged() string {
	text, err := os.ReadFile(r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// address is where the process answers, once it has said so.
func (r *rig) address() (string, error) {
	_, rest, found := strings.Cut(r.logged(), "address=")
	if !found {
		return "", errors.New("it has not said its address yet")
	}
	address, _, _ := strings.Cut(rest, "\n")
	return address, nil
}

// await waits until the status is as it should be.
func (r *rig) await(what string, ok func(admin.Status) bool) {
	r.t.Helper()
	var last error
	defer func() {
		if r.t.Failed() {
			r.t.Logf("last: %v\n%s", last, r.logged())
		}
	}()
	r.kafka.Until(what, func(ctx context.Context) error {
		address, err := r.address()
		if err != nil {
			return err
		}
		s, err := admin.Fetch(ctx, &r.client, address)
		if err == nil && !ok(s) {
			err = fmt.Errorf("it is %s (%s), checkpoints %+v, store %+v", s.State, s.Reason, s.Checkpoints, s.Store)
			last = err
		}
		return err
	})
}

// produce writes n records.
func (r *rig) produce(n int) {
	r.t.Helper()
	var rs []kafkatest.Record
	for range n {
		rs = append(rs, kafkatest.Record{Partition: int32(r.produced % 2), Key: fmt.Appendf(nil, "k%d", r.produced%10), Value: fmt.Append(nil, r.produced)})
		r.produced++
	}
	r.kafka.Produce(r.job+"-"+r.input, rs...)
}

// awaitCopies waits until all that was produced is copied, and nothing twice.
func (r *rig) awaitCopies() {
	r.t.Helper()
	r.awaitValues(0, r.produced, func(int) {})
}

// awaitValues waits until each record from one number up to another is copied, none of them twice. done gets the number of all
// copies.
func (r *rig) awaitValues(from, to int, done func(all int)) {
	r.t.Helper()
	var seen map[string]int
	r.kafka.Until(fmt.Sprintf("committed copies of %d to %d", from, to), func(context.Context) error {
		seen = map[string]int{}
		copies := r.kafka.ReadCommitted(r.job + "-copies")
		for _, c := range copies {
			seen[string(c.Value)]++
		}
		for i := from; i < to; i++ {
			if seen[fmt.Sprint(i)] == 0 {
				return fmt.Errorf("%d is missing", i)
			}
		}
		done(len(copies))
		return nil
	})
	for i := from; i < to; i++ {
		if n := seen[fmt.Sprint(i)]; n > 1 {
			r.t.Errorf("record %d was copied %d times", i, n)
		}
	}
}

// ended waits for the process to end and returns its exit status.
func (r *rig) ended(within time.Duration) int {
	r.t.Helper()
	select {
	case err := <-r.instance.Exited():
		_ = r.instance.Ended(err)
		var exit *exec.ExitError
		if err == nil {
			return exitFine
		}
		if !errors.As(err, &exit) {
			r.t.Fatal(err)
		}
		return exit.ExitCode()
	case <-time.After(within):
		r.t.Fatalf("it did not end within %v:\n%s", within, r.logged())
		return -1
	}
}

// TestFault28AFullDiskHoldsCheckpointsBack fills the file system of the checkpoint store.
func TestFault28AFullDiskHoldsCheckpointsBack(t *testing.T) {
	r := newRig(t)
	r.store = t.TempDir()
	if err := syscall.Mount("tmpfs", r.store, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a file system of a given size needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(r.store, 0); err != nil {
			t.Error(err)
		}
	})
	r.produce(100)
	r.start("run", r.file("state: {", "state: {backend: fs, "))
	r.awaitCopies()
	filler, err := os.Create(filepath.Join(r.store, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	r.produce(100)
	r.await("checkpoints that wait for the store", func(s admin.Status) bool {
		if _, err := filler.Write(make([]byte, 8<<20)); !errors.Is(err, syscall.ENOSPC) { // again: collecting has made room
			t.Fatalf("filling the store: %v", err)
		}
		return s.Store.Retries > 3 && len(s.Checkpoints.InProgress) > 0 && strings.Contains(s.Store.Error, "no space left")
	})
	if err := errors.Join(os.Remove(filler.Name()), filler.Close()); err != nil {
		t.Fatal(err)
	}
	r.awaitCopies()
	r.await("a store that takes everything", func(s admin.Status) bool {
		return s.State == admin.Running && s.Store.Error == "" && len(s.Failures) == 0
	})
	if n := strings.Count(r.logged(), "no space left"); n != 1 {
		t.Errorf("%d lines of log tell of the full disk:\n%s", n, r.logged())
	}
	if err := r.instance.Stop(20 * time.Second); err != nil {
		t.Error(err)
	}
}
