//go:build integration

package chaos

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/tests/faultproxy"
)

// fault is something that happens to the job, and is over when do returns.
type fault struct {
	name string
	// weight is how often it is drawn, relative to the others.
	weight int
	do     func(*bed)
}

func faults() []fault {
	return []fault{
		{"job killed", 8, (*bed).kill},
		{"job killed twice, the second time while it recovers", 3, func(b *bed) {
			b.kill()
			b.wait(b.between(0, 1500*time.Millisecond))
			b.kill()
		}},
		{"job ended and started", 2, func(b *bed) {
			b.ready() // one that is asked to stop before it has begun ends at once, with status 1
			b.must(b.job.Stop(recovery))
			b.must(b.job.Start())
		}},
		{"job paused", 2, func(b *bed) {
			b.signal(syscall.SIGSTOP)
			b.wait(b.between(100*time.Millisecond, 5*time.Second))
			b.signal(syscall.SIGCONT)
		}},
		{"broker killed", 2, func(b *bed) {
			n := b.anyNode()
			b.killBroker(n)
			b.wait(b.between(0, 6*time.Second))
			b.kafka.Restart(n)
		}},
		{"broker and job killed", 1, func(b *bed) {
			n := b.anyNode()
			b.killBroker(n)
			b.wait(b.between(0, 2*time.Second))
			b.kill()
			b.kafka.Restart(n)
		}},
		{"broker ended and started", 1, func(b *bed) {
			n := b.anyNode()
			b.kafka.Stop(n)
			b.kafka.Restart(n)
		}},
		{"broker paused", 2, func(b *bed) {
			n := b.anyNode()
			b.kafka.Pause(n)
			b.wait(b.between(200*time.Millisecond, 8*time.Second))
			b.kafka.Resume(n)
		}},
		{"all connections cut", 2, func(b *bed) {
			for _, p := range b.kafka.Proxies {
				p.Cut()
			}
		}},
		{"cut off from Kafka", 2, func(b *bed) {
			for _, p := range b.kafka.Proxies {
				p.Refuse(true)
				p.Cut()
			}
			b.wait(b.between(500*time.Millisecond, 6*time.Second))
			for _, p := range b.kafka.Proxies {
				p.Refuse(false)
			}
		}},
		{"one direction to a broker dead", 2, func(b *bed) {
			p := b.kafka.Proxy(b.anyNode())
			way := faultproxy.Direction(b.random.IntN(2))
			p.Swallow(way, true)
			b.wait(b.between(200*time.Millisecond, 5*time.Second))
			p.Swallow(way, false)
		}},
		{"broker far away", 1, func(b *bed) {
			p := b.kafka.Proxy(b.anyNode())
			p.Delay(faultproxy.ToClient, b.between(10*time.Millisecond, 300*time.Millisecond))
			b.wait(b.between(time.Second, 4*time.Second))
			p.Delay(faultproxy.ToClient, 0)
		}},
		{"requests and answers lost", 4, (*bed).lose},
	}
}

func (b *bed) killBroker(node int) {
	b.faults.brokers++
	b.kafka.Kill(node)
}

func (b *bed) anyNode() int { return 1 + b.random.IntN(b.kafka.Nodes()) }

// lose makes a few requests of one kind go wrong in one way.
func (b *bed) lose() {
	kinds := []faultproxy.Kind{faultproxy.LoseRequest, faultproxy.HalfRequest, faultproxy.LoseAnswer, faultproxy.HalfAnswer, faultproxy.Late}
	requests := []kmsg.Key{
		kmsg.Produce, kmsg.EndTxn, kmsg.AddPartitionsToTxn, kmsg.InitProducerID, kmsg.TxnOffsetCommit, kmsg.AddOffsetsToTxn,
		kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata, kmsg.FindCoordinator,
	}
	f := faultproxy.Fault{
		Kind: kinds[b.random.IntN(len(kinds))], Requests: []kmsg.Key{requests[b.random.IntN(len(requests))]},
		Count: 1 + b.random.IntN(3), Delay: b.between(0, 3*time.Second),
	}
	var armed []*faultproxy.Armed
	for _, p := range b.kafka.Proxies {
		armed = append(armed, p.Inject(f))
	}
	b.wait(b.between(time.Second, 3*time.Second))
	for _, a := range armed {
		a.Disarm()
	}
}

// TestAtRandom draws faults, with little time between them. After each it wants a commit, or, half of the time, goes on to
// the next fault at once.
func TestAtRandom(t *testing.T) {
	seed := number("SEED", 1)
	b := newBed(t, seed)
	defer func() {
		t.Logf("repeat with SEED=%d FAULTS=%d; answers and requests lost by kind: %v", seed, number("FAULTS", 12), b.kafka.Hits())
	}()
	all := chosen(faults(), os.Getenv("ONLY"))
	if len(all) == 0 {
		t.Fatalf("no fault has ONLY=%q in its name", os.Getenv("ONLY"))
	}
	for range number("FAULTS", 12) {
		f := draw(all, b.random)
		b.wait(b.between(0, 1500*time.Millisecond))
		f.do(b)
		b.alive()
		took := b.awaitCommit(f.name)
		b.faults.add(f.name, took)
		b.kafka.InSync()
	}
	b.judge()
}

// chosen keeps the faults whose name has the given part.
func chosen(all []fault, part string) []fault {
	return slices.DeleteFunc(all, func(f fault) bool { return !strings.Contains(f.name, part) })
}

func draw(all []fault, random *rand.Rand) fault {
	total := 0
	for _, f := range all {
		total += f.weight
	}
	n := random.IntN(total)
	for _, f := range all {
		if n -= f.weight; n < 0 {
			return f
		}
	}
	return all[0]
}

// number reads a setting of a run from the environment.
func number(name string, otherwise uint64) uint64 {
	n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}
