package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/admin"
)

// elsewhere writes a pipeline file of the same job with a state folder of its own, as on another machine.
func (r *rig) elsewhere(name string) string {
	r.t.Helper()
	state := r.state
	r.state = filepath.Join(r.dir, "state-"+name)
	file := r.file("parallelism: 2", "parallelism: 2\ninstance: "+name)
	other := filepath.Join(r.dir, name+".yaml")
	if err := os.Rename(file, other); err != nil {
		r.t.Fatal(err)
	}
	r.state = state
	return other
}

// running waits until the instance started last commits.
func (r *rig) running() {
	r.t.Helper()
	r.await("a commit of this instance", func(s admin.Status) bool {
		return s.State == admin.Running && s.Checkpoints.Committed != nil && s.Checkpoints.Committed.Time.After(s.AttemptStarted)
	})
}

func TestFault25ASecondInstanceOnTheMachineRefuses(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	file := r.file("127.0.0.1:0", l.Addr().String()) // of two reasons to refuse, a port that is taken is the lesser
	r.start("run", file)
	r.running()
	first := r.instance
	r.start("run", file)
	if status := r.ended(10 * time.Second); status != exitDecide || !strings.Contains(r.logged(), "on this machine") {
		t.Errorf("the second ended with %d\n%s", status, r.logged())
	}
	if err := first.Stop(20 * time.Second); err != nil {
		t.Errorf("the first: %v", err)
	}
}

// TestFault43ASecondInstanceRefuses starts the same job where no lock can tell of the first.
func TestFault43ASecondInstanceRefuses(t *testing.T) { secondInstance(t, newRig(t)) }

func secondInstance(t *testing.T, r *rig) {
	r.produce(100)
	r.start("run", r.elsewhere("first"))
	r.running()
	first, log := r.instance, r.log
	second := r.elsewhere("second")
	r.start("run", second)
	want := "weir: to go on all the same: weir run " + second + " --take-over\n"
	if status := r.ended(20 * time.Second); status != exitDecide || !strings.Contains(r.logged(), "instance first") ||
		!strings.HasSuffix(r.logged(), want) {
		t.Errorf("the second ended with %d, want a last line %q\n%s", status, want, r.logged())
	}

	r.start("run", second, "--take-over")
	r.running()
	tookOver, secondLog := r.instance, r.log
	r.instance, r.log = first, log
	if status := r.ended(20 * time.Second); status != exitDecide || !strings.Contains(r.logged(), "it has taken over from this one") {
		t.Errorf("the first ended with %d\n%s", status, r.logged())
	}
	if strings.Contains(r.logged(), "another one follows") {
		t.Errorf("the first began another attempt:\n%s", r.logged())
	}
	r.instance, r.log = tookOver, secondLog
	r.produce(100)
	r.awaitCopies()
	if err := tookOver.Stop(20 * time.Second); err != nil {
		t.Error(err)
	}
}

// TestInstancesThatStartTogetherComeToOne starts two at the same moment on a job without a checkpoint: neither can see the
// other at work, so they fence each other, and one must be left.
func TestInstancesThatStartTogetherComeToOne(t *testing.T) { togetherToOne(t, newRig(t)) }

func togetherToOne(t *testing.T, r *rig) {
	r.produce(100)
	one, two := r.elsewhere("one"), r.elsewhere("two")
	r.start("run", one)
	a, aLog := r.instance, r.log
	r.start("run", two)
	b := r.instance
	winner, loser := a, b
	select {
	case err := <-b.Exited():
		_ = b.Ended(err)
	case err := <-a.Exited():
		_ = a.Ended(err)
		winner, loser = b, a
	case <-time.After(time.Minute):
		t.Fatalf("both go on:\n%s\n%s", a.LastLines(), b.LastLines())
	}
	if text := string(loser.LastLines()); !strings.Contains(text, "another instance of job "+r.job+" is running") {
		t.Errorf("the one that ended says:\n%s", text)
	}
	if winner == a {
		r.instance, r.log = a, aLog
	}
	r.running()
	r.produce(100)
	r.awaitCopies()
	if err := winner.Stop(20 * time.Second); err != nil {
		t.Error(err)
	}
}

// TestAKilledInstanceIsNotTakenForAnother measures the start after SIGKILL: it must not wait to see whether somebody is at
// work.
func TestAKilledInstanceIsNotTakenForAnother(t *testing.T) {
	r := newRig(t)
	file := r.file("interval: 100ms", "interval: 3s") // another instance would be watched for 6 s
	r.start("run", file)
	r.running()
	if err := r.instance.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := r.instance.Kill(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	r.start("run", file)
	r.await("processing", func(s admin.Status) bool { return s.State == admin.Running })
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the start took %v\n%s", took, r.logged())
	}
}
