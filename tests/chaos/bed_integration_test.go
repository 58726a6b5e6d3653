//go:build integration

package chaos

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/weirstream/weir/internal/instance"
	"github.com/weirstream/weir/internal/verify"
	"github.com/weirstream/weir/tests/kafkatest"
)

//go:embed pipeline.yaml
var pipelineText string

const (
	partitions = 6
	viewRate   = 500 // a second
	// recovery is what a job may take from the end of a fault to its next commit: a broker's session and election, the
	// transaction's timeouts on a busy machine, and some.
	recovery = 30 * time.Second
)

// bed is a job under load, with its Kafka and its judge.
type bed struct {
	t      *testing.T
	kafka  *kafkatest.ProxiedCluster
	job    *instance.Instance
	random *rand.Rand
	pipeline
	checker              *verify.Checker
	feeder               *verify.Feeder
	progress             atomic.Pointer[verify.Progress]
	stopFeed, stopFollow context.CancelFunc
	fed, followed        chan error
	faults               *tally
}

// pipeline fills in pipeline.yaml.
type pipeline struct {
	Job, Dir, Backend  string
	Listen             string
	Brokers            []string
	Topics             verify.Topics
	TransactionTimeout time.Duration
}

// newBed starts a job and its load, and waits for the first commit.
func newBed(t *testing.T, seed uint64, set ...func(*pipeline)) *bed {
	b := &bed{t: t, kafka: kafkatest.Proxied(t, kafkatest.Nodes(3)), random: rand.New(rand.NewPCG(seed, 1)), faults: newTally()}
	b.pipeline = pipeline{
		Job: fmt.Sprintf("chaos-%08x", rand.Uint32()), Dir: t.TempDir(), Backend: "pebble", Listen: freePort(t), Brokers: b.kafka.ProxyBrokers(),
		TransactionTimeout: time.Minute,
	}
	for _, f := range set {
		f(&b.pipeline)
	}
	b.createTopics()
	b.startFeed(seed)
	b.startJob()
	b.awaitCommit("start")
	return b
}

func (b *bed) createTopics() {
	topic := func(name string) string { return b.kafka.CreateTopic(b.Job+"-"+name, partitions) }
	b.Topics = verify.Topics{
		Input: topic("views"), Passed: topic("valid"), ByUser: topic("users"), ByPage: topic("pages"), DeadLetters: topic("poison"),
		Ledger: b.Job + "-weir-ledger",
	}
	b.kafka.CreateExactTopic(b.Topics.Ledger, 1, "cleanup.policy=compact")
}

// startFeed feeds and follows past the proxies: what is under test is the job.
func (b *bed) startFeed(seed uint64) {
	conf := verify.Config("chaos")
	var err error
	if b.checker, err = verify.NewChecker(b.kafka.Brokers(), conf, b.Topics); err != nil {
		b.t.Fatal(err)
	}
	if b.feeder, err = verify.NewFeeder(b.kafka.Brokers(), conf, b.Topics.Input); err != nil {
		b.t.Fatal(err)
	}
	b.progress.Store(&verify.Progress{})
	b.checker.OnPoll = func(p verify.Progress) { b.progress.Store(&p) }
	load := verify.DefaultWorkload()
	load.Seed, load.Poison = seed, 0.002
	var feeding, following context.Context
	feeding, b.stopFeed = context.WithCancel(context.Background())
	following, b.stopFollow = context.WithCancel(context.Background())
	b.fed, b.followed = make(chan error, 1), make(chan error, 1)
	go func() { b.fed <- b.feeder.Feed(feeding, verify.NewGenerator(load), viewRate, 0) }()
	go func() { b.followed <- b.checker.Follow(following) }()
	b.t.Cleanup(func() { b.stopFeed(); b.stopFollow() })
}

func (b *bed) startJob() {
	file := filepath.Join(b.Dir, "pipeline.yaml")
	var text strings.Builder
	if err := template.Must(template.New("pipeline").Parse(pipelineText)).Execute(&text, b.pipeline); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.t.Fatal(err)
	}
	log := filepath.Join(b.Dir, "log")
	var err error
	if b.job, err = instance.New(log, nil, binary(b.t), "run", file); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = b.job.Kill()
		if b.t.Failed() || os.Getenv("KEEP_LOG") != "" {
			b.keepLog(log)
		}
		b.job.Close()
	})
	b.must(b.job.Start())
}

// keepLog saves the job's log from the test's folder, which goes with the test.
func (b *bed) keepLog(log string) {
	kept := filepath.Join(os.TempDir(), b.Job+".log")
	text, err := os.ReadFile(log)
	if err == nil {
		err = os.WriteFile(kept, text, 0o600)
	}
	b.t.Logf("the job's log: %s (%v); its end:\n%s", kept, err, b.job.LastLines())
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// kill ends the job with SIGKILL and starts it again.
func (b *bed) kill() {
	b.t.Helper()
	b.faults.jobs++
	b.must(b.job.Kill())
	b.must(b.job.Start())
}

func (b *bed) signal(s syscall.Signal) {
	b.t.Helper()
	b.must(b.job.Signal(s))
}

// awaitCommit waits until the job has committed something that it had not when the call began, and returns how long that took.
func (b *bed) awaitCommit(after string) time.Duration {
	b.t.Helper()
	began, before := time.Now(), b.progress.Load().Transactions
	for b.progress.Load().Transactions <= before {
		b.alive()
		if time.Since(began) > recovery {
			b.stuck("after %s: no commit within %v", after, recovery)
		}
		b.wait(10 * time.Millisecond)
	}
	return time.Since(began)
}

// stuck fails the test with the stacks of the job's goroutines, which go to its log.
func (b *bed) stuck(format string, args ...any) {
	b.t.Helper()
	for _, p := range b.kafka.Proxies {
		for _, r := range p.Unanswered(time.Second) {
			b.t.Logf("unanswered: %s", r)
		}
	}
	b.signal(syscall.SIGQUIT)
	b.t.Log(b.job.Ended(<-b.job.Exited()))
	b.t.Fatalf(format, args...)
}

// ready waits until the job has begun to work.
func (b *bed) ready() {
	b.t.Helper()
	b.kafka.Until("job that is ready", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.Listen+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}

// freePort returns an address at which nobody listens.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// alive fails the test where the job or the check has ended by itself.
func (b *bed) alive() {
	b.t.Helper()
	select {
	case err := <-b.job.Exited():
		b.t.Fatal(b.job.Ended(err))
	case err := <-b.followed:
		b.t.Fatalf("the check ended: %v", err)
	case err := <-b.fed:
		b.t.Fatalf("the load ended: %v", err)
	default:
	}
}

// wait lets time pass. Here that is no waiting for a result: when a fault comes, and how long it lasts, is what is tried.
func (b *bed) wait(d time.Duration) { <-time.After(d) }

// between is a random time.
func (b *bed) between(low, high time.Duration) time.Duration {
	return low + time.Duration(b.random.Int64N(int64(high-low)))
}

// judge ends the load, waits for the last effect, and fails the test unless every record had its effect exactly once. Then the
// job must end by itself with no transaction open.
func (b *bed) judge() {
	b.t.Helper()
	b.stopFeed()
	if err := <-b.fed; err != nil {
		b.t.Fatalf("load: %v", err)
	}
	b.stopFollow()
	if err := <-b.followed; err != nil {
		b.t.Fatalf("check: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*recovery)
	defer cancel()
	verdict, err := b.checker.Drain(ctx)
	b.t.Logf("%v\n%v", verdict, b.faults)
	if err != nil || !verdict.OK() {
		b.t.Errorf("after these faults: %v", err)
	}
	if err := b.job.Stop(recovery); err != nil {
		b.t.Error(err)
	}
	for _, topic := range b.outputs() {
		for p, o := range b.kafka.Offsets(topic) {
			if o.LastStable != o.High {
				b.t.Errorf("the job has ended, and %s-%d is stable up to %d of %d", topic, p, o.LastStable, o.High)
			}
		}
	}
	b.judgeState()
	b.must(b.checker.Close())
}

// outputs are the topics that the job writes.
func (b *bed) outputs() []string {
	return []string{b.Topics.Passed, b.Topics.ByUser, b.Topics.ByPage, b.Topics.DeadLetters, b.Topics.Ledger}
}

// binary builds weir so that it can be killed at a failpoint.
func binary(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "weir")
	build := exec.Command("go", "build", "-tags", "failpoints", "-o", file, "../../cmd/sidecar")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}
