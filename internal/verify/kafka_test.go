package verify

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"
)

// TestMain allows the one goroutine that the metrics of the client library leave behind.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

var testTopics = Topics{Input: "views", Passed: "passed", ByUser: "by-user", ByPage: "by-page", DeadLetters: "dead", Ledger: "ledger"}

// startCluster returns the brokers of a fresh cluster with all topics.
func startCluster(t *testing.T) []string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(3, "views", "passed", "by-user", "by-page", "dead"),
		kfake.SeedTopics(1, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

// publish writes the outputs in one transaction of an ordinary producer.
func publish(t *testing.T, p sarama.AsyncProducer, outputs []effectOf, commit bool) {
	t.Helper()
	if err := p.BeginTxn(); err != nil {
		t.Fatal(err)
	}
	for _, o := range outputs {
		if o.branch == Ledger {
			o.value = nil // its identities are not those of ordinary producers
		}
		p.Input() <- &sarama.ProducerMessage{Topic: topicOf(o.branch), Key: sarama.ByteEncoder(o.key), Value: sarama.ByteEncoder(o.value)}
	}
	end := p.CommitTxn
	if !commit {
		end = p.AbortTxn
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

func topicOf(b Branch) string {
	return map[Branch]string{Passed: "passed", ByUser: "by-user", ByPage: "by-page", DeadLetters: "dead", Ledger: "ledger"}[b]
}

// newProducer returns a transactional producer; each has identities of its own.
func newProducer(t *testing.T, brokers []string, id string) sarama.AsyncProducer {
	t.Helper()
	conf := Config("test")
	conf.Producer.Idempotent, conf.Producer.RequiredAcks, conf.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	conf.Producer.Transaction.ID = id
	p, err := sarama.NewAsyncProducer(brokers, conf)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// job commits the outputs as transactions of ordinary producers, each preceded by an attempt that is aborted. A correct
// run is cut into transactions as simulate says.
func job(t *testing.T, brokers []string, outputs []effectOf) {
	t.Helper()
	for len(outputs) > 0 {
		n := slices.IndexFunc(outputs, func(o effectOf) bool { return o.txn != outputs[0].txn })
		if n < 0 {
			n = len(outputs)
		}
		p := newProducer(t, brokers, "job-a") // a fresh epoch for each transaction
		publish(t, p, outputs[:n/2], false)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		p = newProducer(t, brokers, "job-a")
		publish(t, p, outputs[:n], true)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		outputs = outputs[n:]
	}
}

func feed(t *testing.T, brokers []string, w Workload, n int) {
	t.Helper()
	f, err := NewFeeder(brokers, Config("feeder"), "views")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Feed(t.Context(), NewGenerator(w), 0, n); err != nil {
		t.Fatal(err)
	}
	if f.Acknowledged.Load() != int64(n) || f.Sent.Load() != int64(n) {
		t.Fatalf("%d sent, %d acknowledged of %d", f.Sent.Load(), f.Acknowledged.Load(), n)
	}
}

// check reads everything, with a restart of the readers in the middle.
func check(t *testing.T, brokers []string, within time.Duration) (Verdict, error) {
	t.Helper()
	c, err := NewChecker(brokers, Config("checker"), testTopics)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := c.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Reconnect(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return c.Drain(ctx)
}

func TestCheckerOverKafka(t *testing.T) {
	w := Workload{Seed: 3, Users: 20, Pages: 4, Hot: 0.3, Invalid: 0.1, Poison: 0.02}
	clean := func(out []effectOf) []effectOf { return out }
	cases := []struct {
		name  string
		plant func(out []effectOf) []effectOf
		found func(v Verdict) bool
	}{
		{"clean", clean, Verdict.OK},
		{"a transaction that never was", func(out []effectOf) []effectOf {
			return slices.DeleteFunc(out, func(o effectOf) bool { return o.txn == out[0].txn })
		}, func(v Verdict) bool { return v.Lost > 0 && v.Duplicated == 0 }},
		{"a transaction twice", func(out []effectOf) []effectOf {
			var again []effectOf
			for _, o := range out {
				if o.txn == out[0].txn {
					o.txn = Txn{77, 7}
					again = append(again, o)
				}
			}
			return append(out, again...)
		}, func(v Verdict) bool { return v.Duplicated > 0 && v.Lost == 0 }},
		{"an effect in the next transaction", func(out []effectOf) []effectOf {
			i := slices.IndexFunc(out, func(o effectOf) bool { return o.txn != out[0].txn })
			j := i - 1
			for out[j].branch != ByPage {
				j--
			}
			moved := out[j]
			moved.txn = out[i].txn
			return slices.Insert(slices.Delete(out, j, j+1), i, moved)
		}, func(v Verdict) bool { return v.Torn == 1 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			brokers := startCluster(t)
			feed(t, brokers, w, 300)
			_, outputs := simulate(w, 300, 100)
			job(t, brokers, c.plant(outputs))
			within := 10 * time.Second
			if c.name == "a transaction that never was" {
				within = time.Second
			}
			v, err := check(t, brokers, within)
			if !c.found(v) {
				t.Errorf("%v (%v)", v, err)
			}
		})
	}
}

// TestOpenTransactionIsSeen shows that an open transaction keeps a check from ending, and is measured.
func TestOpenTransactionIsSeen(t *testing.T) {
	brokers := startCluster(t)
	feed(t, brokers, busy, 20)
	_, outputs := simulate(busy, 20, 20)
	open := newProducer(t, brokers, "left-open")
	if err := open.BeginTxn(); err != nil {
		t.Fatal(err)
	}
	open.Input() <- &sarama.ProducerMessage{Topic: "passed", Value: sarama.StringEncoder("x")}
	waitForOpen(t, brokers)
	job(t, brokers, outputs)
	v, err := check(t, brokers, time.Second)
	if err == nil || v.LongestOpen < 300*time.Millisecond {
		t.Errorf("%v, error %v", v, err)
	}
	if err := open.AbortTxn(); err != nil {
		t.Fatal(err)
	}
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	if v, err := check(t, brokers, 10*time.Second); err != nil || !v.OK() {
		t.Errorf("after the abort: %v, error %v", v, err)
	}
}

// waitForOpen returns once the open transaction has a record.
func waitForOpen(t *testing.T, brokers []string) {
	t.Helper()
	tail, err := NewTail(brokers, Config("test"), "passed")
	if err != nil {
		t.Fatal(err)
	}
	for tail.OpenFor() == 0 {
		if _, err := tail.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := tail.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRunFollowsAJobWhileItIsFed runs a job next to a check whose readers are restarted all the time.
func TestRunFollowsAJobWhileItIsFed(t *testing.T) {
	brokers := startCluster(t)
	w := Workload{Seed: 5, Users: 30, Pages: 5, Hot: 0.2, Invalid: 0.1}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, outputs := simulate(w, 400, 20)
		for n := 20; len(outputs) > 0; n += 20 { // one transaction for each 20 views
			end := slices.IndexFunc(outputs, func(o effectOf) bool { return o.txn != outputs[0].txn })
			if end < 0 {
				end = len(outputs)
			}
			waitForInput(t, brokers, n)
			job(t, brokers, outputs[:end])
			outputs = outputs[end:]
		}
	}()
	var polls int
	v, err := Run(t.Context(), Plan{Brokers: brokers, Config: Config("checker"), Topics: testTopics, Workload: w, Rate: 400, Count: 400,
		Drain: 10 * time.Second, Restart: 20 * time.Millisecond, OnPoll: func(Progress) { polls++ }})
	<-done
	if err != nil || !v.OK() || v.Input != 400 || polls == 0 {
		t.Errorf("%v, error %v, %d polls", v, err, polls)
	}
}

func waitForInput(t *testing.T, brokers []string, n int) {
	tail, err := NewTail(brokers, Config("test"), "views")
	if err != nil {
		t.Error(err)
		return
	}
	defer tail.Close()
	for n > 0 {
		batches, err := tail.Poll(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		for _, b := range batches {
			n -= len(b.Records)
		}
	}
}

func TestCreateAndDeleteTopics(t *testing.T) {
	brokers := startCluster(t)
	for range 2 { // what exists is left alone
		if err := CreateTopics(brokers, Config("test"), 3, map[string]int32{"new": 5}); err != nil {
			t.Fatal(err)
		}
	}
	tail, err := NewTail(brokers, Config("test"), "new")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(tail.partitions); n != 5 {
		t.Errorf("%d partitions", n)
	}
	if err := tail.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := DeleteTopics(brokers, Config("test"), "new"); err != nil {
			t.Fatal(err)
		}
	}
}
