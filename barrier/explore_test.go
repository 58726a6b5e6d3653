package barrier

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// explorer visits worlds depth first, each distinct one once.
type explorer struct {
	seed    maphash.Seed
	visited map[uint64]struct{}
	path    []step
	buffer  []byte
	edges   int
	ends    int
	limit   int
}

func newExplorer(limit int) *explorer {
	return &explorer{seed: maphash.MakeSeed(), visited: map[uint64]struct{}{}, limit: limit}
}

func (x *explorer) seen(w *world) bool {
	x.buffer = w.key(x.buffer[:0])
	h := maphash.Bytes(x.seed, x.buffer)
	if _, again := x.visited[h]; again {
		return true
	}
	x.visited[h] = struct{}{}
	return false
}

// visit explores everything behind w and returns the first violation.
func (x *explorer) visit(w *world) error {
	if x.seen(w) {
		return nil
	}
	if len(x.visited) > x.limit {
		return fmt.Errorf("more than %d states", x.limit)
	}
	steps := w.enabled()
	if w.stuck(steps) {
		return x.report(fmt.Errorf("stuck"))
	}
	if len(steps) == 0 {
		x.ends++
	}
	for _, s := range steps {
		x.edges++
		x.path = append(x.path, s)
		next := w.clone()
		next.apply(s)
		if next.violation != nil {
			return x.report(next.violation)
		}
		if err := x.visit(next); err != nil {
			return err
		}
		x.path = x.path[:len(x.path)-1]
	}
	return nil
}

func (x *explorer) report(cause error) error {
	var b strings.Builder
	for _, s := range x.path {
		fmt.Fprintf(&b, "\n  %v", s)
	}
	return fmt.Errorf("%w, after:%s", cause, b.String())
}

// Two views on the same world. Where the commit protocol is eager, records and barriers move in every order; where the
// steps of subtasks are, everything else does: Kafka, the store, the coordinator, and every fault.
var (
	commitKinds  = []kind{stepOpen, stepRelease, stepAbort, stepManifest, stepWitness, stepEndTxn, stepMark, stepRecover, stepWrite}
	subtaskKinds = []kind{stepPoll, stepPass, stepMark}
)

// alignment is a world about barriers between so many subtasks.
func alignment(subtasks int, records, checkpoints uint8) config {
	return config{subtasks: subtasks, slots: 2, inFlight: 2, records: records, checkpoints: checkpoints, attempts: 1,
		eager: commitKinds}
}

// commits is a world about transactions: three checkpoints of two subtasks, and one restart for each fault.
func commits(slots int, f faults) config {
	return config{subtasks: 2, slots: slots, inFlight: 2, records: 3, checkpoints: 3, direct: true, paced: true,
		attempts: 1 + f.crashes + f.timeouts + f.doubles, eager: subtaskKinds, faults: f}
}

// smaller is the same with two checkpoints.
func (c config) smaller() config {
	c.checkpoints = 2
	return c
}

// single is the same with one subtask, where subtasks are not what it is about.
func (c config) single() config {
	c.subtasks = 1
	return c
}

func (c config) oneInFlight() config {
	c.inFlight = 1
	return c
}

func (c config) with(b bug) config {
	c.bug = b
	return c
}

var worlds = []struct {
	name string
	config
}{
	{"barriers between two subtasks", alignment(2, 2, 3)},
	{"barriers between three subtasks", alignment(3, 1, 2).oneInFlight()},
	{"three transactional ids", commits(3, faults{})},
	{"crash at any step", commits(2, faults{crashes: 1})},
	{"lost answers and a crash", commits(2, faults{crashes: 1, answers: 1}).single()},
	{"transaction timeout", commits(2, faults{timeouts: 1}).single()},
	{"transaction timeout and two subtasks", commits(2, faults{timeouts: 1}).smaller()},
	{"two at once", commits(2, faults{doubles: 1}).smaller().single()},
	{"stale and repeated acknowledgements", commits(2, faults{crashes: 1, duplicates: 1}).smaller()},
}

func skipUnderRace(t *testing.T) {
	if raceDetector {
		t.Skip("one goroutine, many states")
	}
}

// TestExploration visits every state that small worlds can reach.
func TestExploration(t *testing.T) {
	skipUnderRace(t)
	for _, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			x, start := newExplorer(1<<21), time.Now()
			if err := x.visit(newWorld(&w.config)); err != nil {
				t.Error(err)
			}
			t.Logf("%d states, %d steps, %d ends, %v", len(x.visited), x.edges, x.ends, time.Since(start).Round(time.Millisecond))
		})
	}
}

// TestExplorationFindsBugs plants one bug at a time. That each is found shows that the worlds are large enough and the
// invariants sharp enough.
func TestExplorationFindsBugs(t *testing.T) {
	skipUnderRace(t)
	bugs := map[string]config{
		"commit before the manifest is durable":       commits(2, faults{}).with(bugCommitBeforeDurable),
		"acknowledge before the state is durable":     commits(2, faults{crashes: 1}).with(bugAckBeforeDurable),
		"acknowledge before the writes are":           commits(2, faults{}).with(bugAckBeforeWritten),
		"skip alignment":                              alignment(2, 2, 3).with(bugSkipAlignment),
		"drop a buffered record":                      alignment(2, 2, 3).with(bugDropBuffered),
		"reuse the local store after a kill":          commits(2, faults{crashes: 1}).with(bugReuseStore),
		"read the witness without fencing":            commits(2, faults{doubles: 1}).smaller().with(bugNoFence),
		"start with one transaction open":             commits(2, faults{doubles: 1}).smaller().single().with(bugStartEarly),
		"take invalid state for success":              commits(2, faults{timeouts: 1}).with(bugInvalidStateIsSuccess),
		"lose the last delta":                         commits(2, faults{}).with(bugLoseDelta),
		"write N+1 before N is acknowledged":          commits(2, faults{}).with(bugWriteAhead),
		"commit out of order":                         commits(3, faults{}).with(bugCommitOutOfOrder),
		"skip a checkpoint in trouble":                commits(2, faults{timeouts: 1}).with(bugSkipCheckpoint),
		"add partitions to a transaction in recovery": commits(2, faults{crashes: 1}).with(bugRecoveryAddsPartitions),
		"leave a transaction open at the end":         commits(2, faults{}).with(bugLeaveOpen),
	}
	for name, cfg := range bugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newExplorer(1 << 21)
			err := x.visit(newWorld(&cfg))
			if err == nil {
				t.Fatalf("not found in %d states", len(x.visited))
			}
			t.Logf("found after %d states: %v", len(x.visited), err)
		})
	}
}

// TestRandomWalks takes random paths through worlds too large to visit.
func TestRandomWalks(t *testing.T) {
	large := config{subtasks: 3, slots: 3, inFlight: 3, records: 8, checkpoints: 9, attempts: 12,
		faults: faults{crashes: 4, answers: 6, timeouts: 2, duplicates: 3, doubles: 3}}
	direct := large
	direct.direct = true
	walks, steps, ends := 1500, 0, 0
	for seed := range uint64(walks) {
		cfg := &large
		if seed%2 == 0 {
			cfg = &direct
		}
		n, ended, err := walk(cfg, rand.New(rand.NewPCG(seed, 1)), 3000)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		steps += n
		if ended {
			ends++
		}
	}
	t.Logf("%d walks, %d steps, %d drained", walks, steps, ends)
	if ends < walks/2 {
		t.Errorf("only %d of %d walks came to a clean end", ends, walks)
	}
}

// walk takes at most limit random steps. Faults, and stopping, are rarer than work.
func walk(cfg *config, r *rand.Rand, limit int) (n int, ended bool, err error) {
	x, w := newExplorer(0), newWorld(cfg)
	for n = range limit {
		steps := w.enabled()
		if w.stuck(steps) {
			return n, false, x.report(fmt.Errorf("stuck"))
		}
		if len(steps) == 0 {
			break
		}
		s := steps[r.IntN(len(steps))]
		if (s.kind >= stepCrash || s.kind == stepStop || s.kind == stepRestart && w.alive() > 0) && r.IntN(16) > 0 {
			continue
		}
		x.path = append(x.path, s)
		if w.apply(s); w.violation != nil {
			return n, false, x.report(w.violation)
		}
	}
	return n, w.done(), nil
}
