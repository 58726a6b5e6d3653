package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/kafkatest"
)

const moveOn = "weir: to go on all the same: weir "

// decides waits for the process to end with status 3 and a text, and returns the arguments of the command that it prints.
func (r *rig) decides(text string) []string {
	r.t.Helper()
	status := r.ended(30 * time.Second)
	log := strings.TrimSpace(r.logged())
	_, command, printed := strings.Cut(log[strings.LastIndex(log, "\n")+1:], moveOn)
	if status != exitDecide || !strings.Contains(log, text) || !printed {
		r.t.Fatalf("status %d, want 3, %q and a command\n%s", status, text, log)
	}
	return strings.Fields(command)
}

// goesOn runs the command that was printed, and waits until new input is copied. It returns how many of all copies there are.
func (r *rig) goesOn(command []string) int {
	r.t.Helper()
	r.start(command...)
	r.running()
	before := r.produced
	r.produce(10)
	copies := r.copied(before, r.produced)
	if err := r.instance.Stop(20 * time.Second); err != nil {
		r.t.Error(err)
	}
	return copies
}

// copied waits until each record from one number up to another is copied once, and returns how many copies there are of all.
func (r *rig) copied(from, to int) int {
	r.t.Helper()
	n := 0
	r.awaitValues(from, to, func(all int) { n = all })
	return n
}

func (r *rig) recreate(topic string) {
	r.t.Helper()
	r.kafka.DeleteTopic(r.job + "-" + topic)
	r.kafka.CreateExactTopic(r.job+"-"+topic, 2)
}

// ranOnce is a rig whose job has copied 100 records, and was stopped.
func ranOnce(t *testing.T) (*rig, string) {
	t.Helper()
	r := newRig(t)
	file := r.file()
	r.produce(100)
	r.start("run", file)
	r.awaitCopies()
	if err := r.instance.Stop(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	return r, file
}

// TestThePrintedCommandMovesOn runs into each loss that only an operator may accept, and then the very command that the job
// prints.
func TestThePrintedCommandMovesOn(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(*rig) (text string)
		// copies is how many there must be in the end: 100 of before, 10 new ones, and what the loss makes of them.
		copies int
	}{
		"input recreated": {func(r *rig) string { r.recreate("in"); return "was deleted and created again" }, 110},
		"input removed up to the end": {func(r *rig) string {
			r.produce(50)
			for p := range int32(2) {
				if err := r.fake.DeleteRecords(r.job+"-in", p, 60); err != nil {
					r.t.Fatal(err)
				}
			}
			return "records 50 to 59 are gone"
		}, 100 + 30 + 10},
		"input renamed": {func(r *rig) string {
			r.kafka.CreateExactTopic(r.job+"-other", 2)
			r.kafka.Produce(r.job+"-other", kafkatest.Record{Key: []byte("k"), Value: []byte("other")})
			r.file(r.job+"-in", r.job+"-other")
			r.input = "other"
			return "but the pipeline names topic " + r.job + "-other"
		}, 111},
		"operator renamed": {func(r *rig) string {
			r.file("  count: {", "  counted: {", "{from: count,", "{from: counted,")
			return "the checkpoint holds state of count, which the pipeline does not have"
		}, 110},
		"aggregate changed": {func(r *rig) string {
			r.file("count: count()", "count: count_distinct(key)")
			return "the state of operator count was written as"
		}, 110},
		"output recreated": {func(r *rig) string { r.recreate("copies"); return "the results of before are gone" }, 10},
		"ledger recreated": {func(r *rig) string {
			r.kafka.DeleteTopic(r.job + "-weir-ledger")
			return "nothing tells any more which checkpoints are committed"
		}, 110},
		"checkpoints lost": {func(r *rig) string {
			if err := os.RemoveAll(filepath.Join(r.store, r.job)); err != nil {
				r.t.Fatal(err)
			}
			return "cannot be restored"
		}, 210},
	} {
		t.Run(name, func(t *testing.T) {
			r, file := ranOnce(t)
			text := c.lose(r)
			r.start("run", file)
			command := r.decides(text)
			if n := r.goesOn(command); n != c.copies {
				t.Errorf("%d copies in the end, want %d", n, c.copies)
			}
			r.start("run", file) // what was accepted stays so
			if name == "checkpoints lost" {
				r.decides(text)
				return
			}
			r.running()
			if err := r.instance.Stop(20 * time.Second); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFault34AnOutputRecreatedUnderTheJob must be noticed before the next commit: what the old topic has acknowledged is gone.
func TestFault34AnOutputRecreatedUnderTheJob(t *testing.T) { outputRecreated(newRig(t)) }

func outputRecreated(r *rig) {
	r.produce(100)
	r.start("run", r.file())
	r.awaitCopies()
	r.recreate("copies")
	command := r.decides("output topic " + r.job + "-copies was deleted and created again")
	r.kafka.Settled(r.job + "-counts") // no transaction is left open, in which readers would wait for the operator
	r.goesOn(command)
}

func TestAcceptLossNamesWhatThereIs(t *testing.T) {
	status, _, errOut := weir(t, "run", starterFile(t), "--accept-loss", "viws")
	if status != exitUsage || !strings.Contains(errOut, "views") || !strings.Contains(errOut, "operators.NAME") {
		t.Errorf("status %d, %s", status, errOut)
	}
}

// TestAnOutputWithMorePartitions goes on with a warning where the key groups can be spread over them, and stops otherwise.
func TestAnOutputWithMorePartitions(t *testing.T) {
	r, file := ranOnce(t)
	r.kafka.AddPartitions(r.job+"-copies", 4)
	r.start("run", file)
	r.running()
	if err := r.instance.Stop(20 * time.Second); err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.logged(), "an output topic has got partitions") {
		t.Errorf("no warning in\n%s", r.logged())
	}
	r.kafka.AddPartitions(r.job+"-copies", 5)
	r.start("run", file)
	if status := r.ended(20 * time.Second); status != exitDecide || !strings.Contains(r.logged(), "has 5 partitions now") {
		t.Errorf("status %d\n%s", status, r.logged())
	}
}

func TestAnewCounts(t *testing.T) {
	for job, want := range map[string]string{"page-views": "--job=page-views-2", "page-views-2": "--job=page-views-3", "a-b-9": "--job=a-b-10"} {
		if got := anew(job); got != want {
			t.Errorf("after %s comes %s, want %s", job, got, want)
		}
	}
}
