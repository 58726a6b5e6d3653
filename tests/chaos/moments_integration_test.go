//go:build integration

package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/tests/faultproxy"
)

// moment is a point of the commit protocol at which the job is killed.
type moment struct {
	name    string
	kind    faultproxy.Kind
	request kmsg.Key
	delay   time.Duration
}

// The numbers are the rows of the fault matrix that a moment stands for.
func moments() []moment {
	return []moment{
		{"an identity is obtained and not told", faultproxy.LoseAnswer, kmsg.InitProducerID, 0},
		{"a transaction is opened and not told (1, 16)", faultproxy.LoseAnswer, kmsg.AddPartitionsToTxn, 0},
		{"a batch is half sent", faultproxy.HalfRequest, kmsg.Produce, 0},
		{"a batch is written and not acknowledged (2)", faultproxy.LoseAnswer, kmsg.Produce, 0},
		{"a batch arrives after the successor's start (16)", faultproxy.Late, kmsg.Produce, 2 * time.Second},
		{"offsets are about to be written (7)", faultproxy.LoseRequest, kmsg.TxnOffsetCommit, 0},
		{"offsets are written (8)", faultproxy.LoseAnswer, kmsg.TxnOffsetCommit, 0},
		{"the commit is about to be sent (8)", faultproxy.LoseRequest, kmsg.EndTxn, 0},
		{"the commit is half sent", faultproxy.HalfRequest, kmsg.EndTxn, 0},
		{"the commit is done and not told (9)", faultproxy.LoseAnswer, kmsg.EndTxn, 0},
		{"the commit arrives after the successor's start (10)", faultproxy.Late, kmsg.EndTxn, 2 * time.Second},
	}
}

// TestAtMoments kills the job at each moment several times.
func TestAtMoments(t *testing.T) {
	rounds := number("ROUNDS", 1)
	b := newBed(t, number("SEED", 1))
	for round := range rounds {
		for _, m := range moments() {
			b.killAt(m, int(round))
		}
	}
	b.judge()
}

func (b *bed) killAt(m moment, skip int) {
	b.t.Helper()
	began := time.Now()
	hit := make(chan struct{}, b.kafka.Nodes())
	var armed []*faultproxy.Armed
	for _, p := range b.kafka.Proxies {
		a := p.Inject(faultproxy.Fault{
			Kind: m.kind, Requests: []kmsg.Key{m.request}, After: skip, Count: 1, Delay: m.delay,
		})
		armed = append(armed, a)
		go func() {
			select {
			case <-a.Done():
				hit <- struct{}{}
			case <-b.t.Context().Done():
			}
		}()
	}
	// A request that is due only after a restart, as for the first identities, needs one.
	if m.request == kmsg.InitProducerID {
		b.kill()
	}
	select {
	case <-hit:
	case <-time.After(recovery):
		b.stuck("%s: the job has sent no %s within %v", m.name, m.request.Name(), recovery)
	}
	came := time.Since(began)
	b.faults.jobs++
	b.must(b.job.Kill())
	for _, a := range armed {
		a.Disarm()
	}
	b.must(b.job.Start())
	took := b.awaitCommit(fmt.Sprintf("kill when %s", m.name))
	b.t.Logf("%s: came after %.1fs, next commit after %.1fs", m.name, came.Seconds(), took.Seconds())
	b.faults.add("killed when "+m.name, took)
}
