package planted

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/internal/instance"
	"github.com/weirstream/weir/internal/verify"
	"github.com/weirstream/weir/tests/kafkatest"
)

const pipeline = `version: 1
job: %[1]s
kafka: {brokers: %[2]q, ledger: %[1]s-ledger}
checkpoint: {interval: 100ms, store: "file://%[3]s/checkpoints", transactional_ids: %[4]d}
state: {dir: "%[3]s/state"}
sources:
  views: {topic: %[1]s-views, format: json}
operators:
  valid: {from: views, filter: status == 200}
  per_user: {from: valid, key: user, aggregate: {views: count(), time: sum(latency_ms), last: last(id)}}
  per_page: {from: valid, key: page, aggregate: {views: count(), time: sum(latency_ms), last: last(id)}}
sinks:
  valid_views: {from: valid, topic: %[1]s-passed, format: json}
  user_totals: {from: per_user, topic: %[1]s-by-user, format: json}
  page_totals: {from: per_page, topic: %[1]s-by-page, format: json}
parallelism: 2
http: {listen: "off"}
`

const (
	name = "checked"
	ids  = 3
)

// job is a job under test, and what is done to it.
type job struct {
	cluster  *kafkatest.FakeCluster
	instance *instance.Instance
	topics   verify.Topics
	kills    int
}

// newJob prepares a job that the binary runs.
func newJob(t *testing.T, binary string) *job {
	t.Helper()
	j := &job{cluster: kafkatest.Fake(t), topics: verify.Topics{Input: name + "-views", Passed: name + "-passed", ByUser: name + "-by-user",
		ByPage: name + "-by-page", Ledger: name + "-ledger"}}
	err := verify.CreateTopics(j.cluster.Brokers(), verify.Config("test"), 1, map[string]int32{j.topics.Input: 4, j.topics.Passed: 4,
		j.topics.ByUser: 4, j.topics.ByPage: 4, j.topics.Ledger: 0})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "pipeline.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, pipeline, name, j.cluster.Brokers()[0], dir, ids), 0o600); err != nil {
		t.Fatal(err)
	}
	if j.instance, err = instance.New(filepath.Join(dir, "log"), nil, binary, "run", file); err != nil {
		t.Fatal(err)
	}
	j.disturb()
	return j
}

// disturb makes kfake less kind: commits take their time, and writes are refused now and then.
func (j *job) disturb() {
	const endTxn = 26
	j.cluster.ControlKey(endTxn, func(kmsg.Request) (kmsg.Response, error, bool) {
		j.cluster.KeepControl()
		j.cluster.SleepControl(func() { time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond) })
		return nil, nil, false
	})
	var produced atomic.Int64
	j.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1, When: func(r kmsg.Request) bool {
		p, ok := r.(*kmsg.ProduceRequest)
		return ok && p.TransactionID != nil && produced.Add(1)%4 == 0
	}})
}

// check feeds the job, kills it all the time, and returns the verdict. An error is a job that does not get on.
func (j *job) check(ctx context.Context, feed, drain time.Duration) (verify.Verdict, error) {
	if err := j.instance.Start(); err != nil {
		return verify.Verdict{}, err
	}
	var verdict verify.Verdict
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		tormenting, cancel := context.WithTimeout(ctx, feed)
		defer cancel()
		return j.torment(tormenting)
	})
	g.Go(func() (err error) {
		verdict, err = verify.Run(ctx, verify.Plan{Brokers: j.cluster.Brokers(), Config: verify.Config("checker"), Topics: j.topics,
			Workload: verify.Workload{Seed: 1, Users: 50, Pages: 5, Hot: 0.3, Invalid: 0.05}, Rate: 2000, Duration: feed, Drain: drain,
			Restart: time.Second})
		return err
	})
	return verdict, errors.Join(g.Wait(), j.instance.Kill(), j.instance.Close())
}

// torment kills the instance about every other second. While it is down its transactions are ended every other time, as their
// timeout would after a long outage.
func (j *job) torment(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-j.instance.Exited():
			return j.instance.Ended(err)
		case <-time.After(time.Second + time.Duration(rand.IntN(1000))*time.Millisecond):
		}
		if err := j.instance.Kill(); err != nil {
			return err
		}
		j.kills++
		if j.kills%2 == 0 {
			if err := j.expire(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if err := j.instance.Start(); err != nil {
			return err
		}
	}
}

// expire ends whatever transaction the job has open.
func (j *job) expire(ctx context.Context) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(j.cluster.Brokers()...))
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range ids {
		r := kmsg.NewInitProducerIDRequest()
		r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = kmsg.StringPtr(fmt.Sprintf("%s-%d", name, i)), 60_000, -1, -1
		if _, err := r.RequestWith(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
