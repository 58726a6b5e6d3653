package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/internal/instance"
	"github.com/weirstream/weir/tests/kafkatest"
)

// txnBed is a job that copies a topic in a process of its own, to be killed with transactions open.
type txnBed struct {
	t            *testing.T
	e            *kafkatest.Endpoint
	job, in, out string
	file         string
	process      *instance.Instance
	produced     int
}

// newTxnBed makes the topics and the pipeline file. The job reaches the brokers at the given addresses, the commands as well.
func newTxnBed(t *testing.T, e *kafkatest.Endpoint, brokers []string) *txnBed {
	t.Helper()
	b := &txnBed{t: t, e: e, job: fmt.Sprintf("txn-%08x", rand.Uint32()), in: e.CreateTopic("in", 2), out: e.CreateTopic("out", 2)}
	dir := t.TempDir()
	b.file = filepath.Join(dir, "pipeline.yaml")
	text := fmt.Sprintf(`version: 1
job: %s
kafka: {brokers: ["%s"], transaction_timeout: 2m, start_timeout: 30s}
checkpoint: {interval: 200ms, store: "file://%s/checkpoints"}
state: {dir: %s/state}
sources: {views: {topic: %s}}
sinks: {copies: {from: views, topic: %s}}
parallelism: 2
http: {listen: "off"}
`, b.job, strings.Join(brokers, `", "`), dir, dir, b.in, b.out)
	if err := os.WriteFile(b.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *txnBed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *txnBed) produce(n int) {
	b.t.Helper()
	var rs []kafkatest.Record
	for range n {
		rs = append(rs, kafkatest.Record{Partition: int32(b.produced % 2), Value: fmt.Appendf(nil, "%d", b.produced)})
		b.produced++
	}
	b.e.Produce(b.in, rs...)
}

func (b *txnBed) start(flags ...string) {
	b.t.Helper()
	var err error
	log := filepath.Join(filepath.Dir(b.file), fmt.Sprintf("log-%d", b.produced))
	b.process, err = instance.New(log, []string{asCommand + "=1"}, append([]string{os.Args[0], "run", b.file}, flags...)...)
	b.must(err)
	process := b.process
	b.t.Cleanup(func() {
		_ = process.Kill()
		if b.t.Failed() {
			b.t.Logf("%s", process.LastLines())
		}
		_ = process.Close()
	})
	b.must(process.Start())
}

// awaitCopies waits until every record has its copy, committed, and once.
func (b *txnBed) awaitCopies() {
	b.t.Helper()
	b.e.Until(fmt.Sprintf("%d committed copies", b.produced), func(context.Context) error {
		if got := len(b.e.ReadCommitted(b.out)); got != b.produced {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
}

// awaitUncommitted waits until the job has written records that no reader sees yet.
func (b *txnBed) awaitUncommitted() {
	b.t.Helper()
	b.e.Until("records in an open transaction", func(context.Context) error {
		for _, o := range b.e.Offsets(b.out) {
			if o.High > o.LastStable {
				return nil
			}
		}
		return errors.New("every partition is stable to its end")
	})
}

// txn runs weir txn and returns its exit status and report.
func (b *txnBed) txn(args ...string) (int, txnReport, string) {
	b.t.Helper()
	status, out, errOut := weir(b.t, append([]string{"txn", args[0], "-f", b.file, "--output", "json"}, args[1:]...)...)
	var r txnReport
	if out != "" {
		b.must(json.Unmarshal([]byte(out), &r))
	}
	return status, r, errOut
}

// wantOpen fails unless weir txn list shows so many open transactions.
func (b *txnBed) wantOpen(least, most int) txnReport {
	b.t.Helper()
	status, r, errOut := b.txn("list")
	if status != exitFine || r.Open < least || r.Open > most {
		b.t.Fatalf("status %d, %d transactions open, want %d to %d: %+v %s", status, r.Open, least, most, r, errOut)
	}
	return r
}

// acceptTxnAbort is what must hold of weir txn abort on every broker.
func acceptTxnAbort(t *testing.T, e *kafkatest.Endpoint) {
	b := newTxnBed(t, e, e.Brokers())
	if r := b.wantOpen(0, 0); len(r.Transactions) != 3 || r.Transactions[0].State != "Absent" || r.Committed != 0 {
		t.Errorf("before the first start: %+v", r)
	}
	if status, _, errOut := b.txn("abort"); status != exitFine || !strings.Contains(errOut, "nothing to abort") {
		t.Errorf("abort before the first start: status %d, %s", status, errOut)
	}
	if r := b.wantOpen(0, 0); r.Transactions[0].State != "Absent" {
		t.Errorf("abort before the first start has made transactional ids: %+v", r)
	}
	b.produce(40)
	b.start()
	b.awaitCopies()
	if status, _, errOut := b.txn("abort"); status != exitDecide || !strings.Contains(errOut, "seems to run") {
		t.Errorf("abort beside a running instance: status %d, %s", status, errOut)
	}
	b.must(b.process.Stop(kafkatest.Patience))
	b.wantOpen(0, 0)

	b.start("--checkpoint-interval=50s")
	b.produce(10)
	b.awaitUncommitted()
	b.must(b.process.Kill())
	killed := b.wantOpen(1, 3)
	x := killed.Transactions[0]
	for _, y := range killed.Transactions {
		if y.State == "Ongoing" {
			x = y
		}
	}
	if x.TimeoutSeconds != 120 || x.Started.IsZero() || len(x.Partitions) != 3 || x.Prepared != 0 || x.ProducerID < 0 {
		t.Errorf("the transaction of a killed instance: %+v", x)
	}
	if status, _, errOut := b.txn("commit"); status != exitDecide || !strings.Contains(errOut, "none with a complete checkpoint") {
		t.Errorf("commit without a prepared checkpoint: status %d, %s", status, errOut)
	}
	status, out, errOut := weir(t, "txn", "abort", b.file)
	if status != exitFine || !strings.Contains(out, "aborted: "+b.job+"-") || !strings.Contains(out, "no transaction open") {
		t.Fatalf("abort: status %d\n%s%s", status, out, errOut)
	}
	for p, o := range e.Offsets(b.out) {
		if o.LastStable != o.High {
			t.Errorf("after the abort readers still stop at offset %d of %d in partition %d", o.LastStable, o.High, p)
		}
	}
	b.wantOpen(0, 0)
	if got := len(e.ReadCommitted(b.out)); got != 40 {
		t.Errorf("%d copies after the abort, want 40", got)
	}
	b.start()
	b.awaitCopies()
	b.must(b.process.Stop(kafkatest.Patience))
}

// acceptTxnCommit kills an instance whose checkpoint is complete, but for EndTxn, which hold keeps from the brokers.
func acceptTxnCommit(t *testing.T, e *kafkatest.Endpoint, brokers []string, hold func() (release func())) {
	b := newTxnBed(t, e, brokers)
	b.produce(40)
	release := hold()
	b.start()
	b.awaitUncommitted()
	e.Until("a prepared checkpoint", func(context.Context) error {
		if _, r, _ := b.txn("list"); r.StoreError != "" || !anyPrepared(r) {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	b.must(b.process.Kill())
	release()
	if r := b.wantOpen(1, 3); !anyPrepared(r) || r.Committed != 0 {
		t.Errorf("after the kill: %+v", r)
	}
	if status, _, errOut := b.txn("abort"); status != exitDecide || !strings.Contains(errOut, "weir txn commit") {
		t.Errorf("abort of a prepared checkpoint: status %d, %s", status, errOut)
	}
	status, r, errOut := b.txn("commit")
	if status != exitFine || r.Open != 0 || r.Committed < 1 || len(r.Ended) == 0 {
		t.Fatalf("commit: status %d, %+v, %s", status, r, errOut)
	}
	for _, x := range r.Ended {
		if want := map[bool]string{true: "committed", false: "aborted"}[x.Prepared > 0]; x.Outcome != want {
			t.Errorf("%+v: want %s", x, want)
		}
	}
	if got := len(e.ReadCommitted(b.out)); got != 40 {
		t.Errorf("%d copies are committed, want 40", got)
	}
	b.wantOpen(0, 0)
	if status, _, errOut := b.txn("commit"); status != exitFine {
		t.Errorf("commit with nothing open: status %d, %s", status, errOut)
	}
	b.produce(10)
	b.start()
	b.awaitCopies()
	b.must(b.process.Stop(kafkatest.Patience))
}

func anyPrepared(r txnReport) bool {
	for _, x := range r.Transactions {
		if x.Prepared > 0 {
			return true
		}
	}
	return false
}

func TestTxnAbortOnFake(t *testing.T) { acceptTxnAbort(t, kafkatest.Fake(t).Endpoint) }

func TestTxnCommitOnFake(t *testing.T) {
	f := kafkatest.Fake(t)
	acceptTxnCommit(t, f.Endpoint, f.Brokers(), func() func() {
		held := make(chan struct{})
		f.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
			select {
			case <-held:
				return nil, nil, false
			default:
				f.KeepControl()
				return nil, errors.New("held"), true
			}
		})
		return func() { close(held) }
	})
}

func TestTxnSaysWhatIsWrong(t *testing.T) {
	file := starterFile(t)
	for status, args := range map[int][]string{
		exitUsage: {"list"}, exitFailed: {"list", file, "--brokers", "127.0.0.1:1"},
	} {
		if got, _, errOut := weir(t, append([]string{"txn"}, args...)...); got != status || errOut == "" {
			t.Errorf("%v: status %d, want %d; %s", args, got, status, errOut)
		}
	}
}

// TestTxnOfAJobThatAnswers: an instance on this host is asked before anything else is.
func TestTxnOfAJobThatAnswers(t *testing.T) {
	k := kafkatest.Fake(t)
	b := newTxnBed(t, k.Endpoint, k.Brokers())
	s := aStatus()
	s.Job = b.job
	t.Setenv("WEIR__HTTP__LISTEN", strings.TrimPrefix(answering(t, s), "http://"))
	if status, _, errOut := b.txn("abort"); status != exitDecide || !strings.Contains(errOut, "instance weir-0 answers") {
		t.Errorf("status %d, %s", status, errOut)
	}
	if status, r, errOut := b.txn("abort", "--yes"); status != exitFine || r.Open != 0 {
		t.Errorf("with --yes: status %d, %s", status, errOut)
	}
}
