package task

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/exchange"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const groups = 12

// tableMap is the part of a topology.Table that count uses, over a Go map.
type tableMap struct {
	topology.Table
	m map[string][]byte
}

// mapState is a State of one tableMap.
type mapState struct{ *tableMap }

func (t *tableMap) Upsert(_ record.KeyGroup, key []byte, size int) ([]byte, bool, error) {
	v, ok := t.m[string(key)]
	if !ok {
		v = make([]byte, size)
		t.m[string(key)] = v
	}
	return v, ok, nil
}

func (t mapState) Freeze(record.CheckpointID) Snapshot {
	s := counts{}
	for k, v := range t.m {
		s[k] = binary.BigEndian.Uint64(v)
	}
	return s
}

func (t mapState) Full() bool  { return false }
func (t mapState) Tidy() error { return nil }

func (t mapState) Table(string) (topology.Table, error) { return t.tableMap, nil }

type counts map[string]uint64

func (c counts) Persist(context.Context) (record.StateHandle, error) {
	var inline []byte
	for k, v := range c {
		inline = fmt.Appendf(inline, "%s=%d\n", k, v)
	}
	return record.StateHandle{Inline: inline}, nil
}

// count counts records by key.
type count struct{ table topology.Table }

func (c *count) Process(b *record.Batch) error {
	for i := range b.Records {
		r := &b.Records[i]
		v, _, err := c.table.Upsert(r.Group, r.Key, 8)
		if err != nil {
			return err
		}
		binary.BigEndian.PutUint64(v, binary.BigEndian.Uint64(v)+1)
		r.Value = append(b.Alloc(0), v...)
	}
	return nil
}

func (c *count) Barrier(record.CheckpointID, *record.Batch) error { return nil }

// countPlan reads partitions, counts by key after an exchange, and writes through a second exchange with another route,
// next to a branch that writes the input as it is.
func countPlan(subtasks int) *topology.Plan {
	byGroup, byOutput := make([]int32, groups), make([]int32, groups)
	for g := range byGroup {
		byGroup[g] = int32(g * subtasks / groups)
		byOutput[g] = int32(g % 4 % subtasks)
	}
	owner := make([]int32, 6)
	for p := range owner {
		owner[p] = int32(p % subtasks)
	}
	return &topology.Plan{
		Job: "test", Groups: groups, Subtasks: subtasks,
		Sources: []topology.Source{{Name: "in", Topic: "in", Owner: owner, Out: []topology.Target{
			{Kind: topology.ToEdge, Index: 0}, {Kind: topology.ToEdge, Index: 1}}}},
		Chains: []topology.Chain{{Name: "in"}, {Name: "count", Inputs: []int{0}}, {Name: "raw", Inputs: []int{1}}, {Name: "counts", Inputs: []int{2}}},
		Steps: []topology.Step{{Name: "count", Chain: 1, Keyed: true, Out: []topology.Target{{Kind: topology.ToEdge, Index: 2}},
			New: func(o topology.OperatorContext) (topology.Operator, error) {
				t, err := o.State("counts")
				return &count{t}, err
			}}},
		Edges: []topology.Edge{
			{Name: "by key", From: 0, To: 1, Route: byGroup, Out: []topology.Target{{Kind: topology.ToStep, Index: 0}}},
			{Name: "raw", From: 0, To: 2, Route: byOutput, Out: []topology.Target{{Kind: topology.ToOutput, Index: 0}}},
			{Name: "counted", From: 1, To: 3, Route: byOutput, Out: []topology.Target{{Kind: topology.ToOutput, Index: 1}}},
		},
		Outputs: []topology.Output{{Name: "raw", Topic: "raw", Partitions: 4}, {Name: "counts", Topic: "counts", Partitions: 4}},
	}
}

// script is the input: each partition's keys, and where each barrier goes, in batches polled by all subtasks together.
type script struct {
	mu      sync.Mutex
	keys    [][]string
	read    []int
	polled  int
	trigger map[int]func() // after so many polls
}

type scriptSource struct {
	*script
	mine  []int
	batch int
}

func (s *scriptSource) Poll() *record.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.mine {
		n := min(s.batch, len(s.keys[p])-s.read[p])
		if n == 0 {
			continue
		}
		b := &record.Batch{At: record.SourcePartition{Partition: int32(p)}}
		for i := range n {
			at := s.read[p] + i
			b.Records = append(b.Records, record.Record{Key: []byte(s.keys[p][at]), Offset: int64(at), Partition: int32(p),
				Group: record.NoGroup, Value: []byte("v")})
		}
		s.read[p] += n
		b.Next = int64(s.read[p])
		s.advance()
		return b
	}
	return nil
}

// advance fires the triggers that are due.
func (s *script) advance() {
	s.polled++
	if f := s.trigger[s.polled]; f != nil {
		f()
	}
}

func (s *scriptSource) Release(*record.Batch) {}
func (s *scriptSource) Position(record.SourcePartition) record.Position {
	panic("no new partitions here")
}

// collector is a sink that keeps what each checkpoint wrote, and is full about every other time it is asked.
type collector struct {
	wake    func()
	written func(record.CheckpointID)
	rand    *rand.Rand
	now     map[int][]record.Record
	sealed  map[record.CheckpointID]map[int][]record.Record
}

func (c *collector) Begin(record.Identity) {}
func (c *collector) Flush()                {}

func (c *collector) Full() bool {
	c.wake()
	return c.rand.IntN(2) == 0
}

func (c *collector) Write(output int, rs []record.Record) error {
	c.now[output] = append(c.now[output], rs...)
	return nil
}

func (c *collector) Barrier(n record.CheckpointID, _ record.Identity) {
	c.sealed[n], c.now = c.now, map[int][]record.Record{}
	c.written(n)
}

// run runs a job of several subtasks over a script with barriers and returns the reports and the sinks.
func run(t *rapid.T, subtasks, limit, batch, barriers int, keys [][]string) ([]Report, []*collector, []*Subtask) {
	plan := countPlan(subtasks)
	wakers := make([]Waker, subtasks)
	for i := range wakers {
		wakers[i] = NewWaker()
	}
	mesh := exchange.NewMesh(len(plan.Edges), subtasks, limit, func(int) bool { return false }, func(i int) { wakers[i].Wake() })
	in := &script{keys: keys, read: make([]int, len(keys)), trigger: map[int]func(){}}
	var mu sync.Mutex
	var reports []Report
	subs, sinks := make([]*Subtask, subtasks), make([]*collector, subtasks)
	for i := range subs {
		src := &scriptSource{script: in, batch: batch}
		positions := map[record.SourcePartition]record.Position{}
		for p, o := range plan.Sources[0].Owner {
			if int(o) == i {
				src.mine = append(src.mine, p)
				positions[record.SourcePartition{Partition: int32(p)}] = record.Position{Partition: int32(p)}
			}
		}
		sinks[i] = &collector{rand: rand.New(rand.NewPCG(1, uint64(i))), wake: wakers[i].Wake, now: map[int][]record.Record{}, sealed: map[record.CheckpointID]map[int][]record.Record{}}
		s, err := New(Options{Index: i, Plan: plan, Waker: wakers[i], Source: src, Sink: sinks[i], Mesh: mesh, InFlight: barriers + 1,
			State:     func(int) (State, error) { return mapState{&tableMap{m: map[string][]byte{}}}, nil },
			Positions: positions, Logger: slog.New(slog.DiscardHandler),
			Report: func(_ context.Context, r Report) error {
				mu.Lock()
				defer mu.Unlock()
				reports = append(reports, r)
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		sinks[i].written, subs[i] = s.Written, s
	}
	batches := 0
	for _, k := range keys {
		batches += (len(k) + batch - 1) / batch
	}
	trigger := func(n int, final bool) {
		for _, s := range subs {
			s.Trigger(record.Barrier{Checkpoint: record.CheckpointID(n), Final: final})
		}
	}
	for n := 1; n <= barriers; n++ {
		in.trigger[max(1, batches*n/(barriers+1))] = func() { trigger(n, false) }
	}
	last := in.trigger[batches]
	in.trigger[batches] = func() {
		if last != nil {
			last()
		}
		trigger(barriers+1, true)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Second, fmt.Errorf("the subtasks are stuck"))
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range subs {
		g.Go(func() error { return s.Run(ctx) })
		s.Begin(record.Identity{TransactionalID: "t"})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return reports, sinks, subs
}

// TestBarriersCutConsistently checks, at every checkpoint, that state and both outputs equal a fold over exactly the input
// before the reported positions, whatever the number of subtasks, the bounds and the batches.
func TestBarriersCutConsistently(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		subtasks := rapid.IntRange(1, 3).Draw(t, "subtasks")
		limit := rapid.SampledFrom([]int{1, 200, 1 << 20}).Draw(t, "limit")
		batch := rapid.IntRange(1, 7).Draw(t, "batch")
		barriers := rapid.IntRange(1, 3).Draw(t, "barriers")
		keys := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}), 8, 60), 6, 6).Draw(t, "keys")
		reports, sinks, _ := run(t, subtasks, limit, batch, barriers, keys)
		if len(reports) != subtasks*(barriers+1) {
			t.Fatalf("%d reports, want %d", len(reports), subtasks*(barriers+1))
		}
		raw, counted := map[string]int{}, counts{}
		for n := record.CheckpointID(1); n <= record.CheckpointID(barriers+1); n++ {
			want, records := counts{}, map[string]int{}
			var state []byte
			for _, r := range reports {
				if r.Checkpoint != n {
					continue
				}
				for _, p := range r.Positions {
					for at, k := range keys[p.Partition][:p.Offset] {
						want[k]++
						records[fmt.Sprintf("%d/%d", p.Partition, at)]++
					}
				}
				for _, h := range r.States {
					state = append(state, h.Inline...)
				}
			}
			for _, s := range sinks {
				for _, r := range s.sealed[n][0] {
					raw[fmt.Sprintf("%d/%d", r.Partition, r.Offset)]++
				}
				for _, r := range s.sealed[n][1] {
					v := binary.BigEndian.Uint64(r.Value)
					if v != counted[string(r.Key)]+1 {
						t.Fatalf("checkpoint %d: key %s counted %d after %d", n, r.Key, v, counted[string(r.Key)])
					}
					counted[string(r.Key)] = v
				}
			}
			if !maps.Equal(raw, records) {
				t.Fatalf("checkpoint %d: raw output has %d records, the positions cover %d", n, len(raw), len(records))
			}
			if !maps.Equal(counted, want) {
				t.Fatalf("checkpoint %d: counts written %v, want %v", n, counted, want)
			}
			if got := parse(t, state); !maps.Equal(got, want) {
				t.Fatalf("checkpoint %d: state %v, want %v", n, got, want)
			}
		}
	})
}

func parse(t *rapid.T, state []byte) counts {
	c := counts{}
	for line := range strings.FieldsSeq(string(state)) {
		var k string
		var v uint64
		if _, err := fmt.Sscanf(line, "%1s=%d", &k, &v); err != nil {
			t.Fatalf("state line %q: %v", line, err)
		}
		c[k] += v
	}
	return c
}
