// Package storetest is the acceptance suite of statestore: what every back end must do, checked against a map.
package storetest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/statestore"
)

const groups = 8

// Run checks the back end of the given options, of which Dir, Groups, Subtask, Operator and Run are chosen here.
func Run(t *testing.T, o statestore.Options) {
	t.Run("random operations", func(t *testing.T) { testRandom(t, []statestore.Options{o}) })
	t.Run("failing uploads", func(t *testing.T) { testFailingUploads(t, o) })
	t.Run("order", func(t *testing.T) { testOrder(t, o) })
	t.Run("key groups", func(t *testing.T) { testKeyGroups(t, o) })
	t.Run("other operator", func(t *testing.T) { testOtherOperator(t, o) })
	t.Run("other number of key groups", func(t *testing.T) { testOtherGroups(t, o) })
	t.Run("unknown format", func(t *testing.T) { testUnknownFormat(t, o) })
	t.Run("folder of somebody else", func(t *testing.T) { testForeignFolder(t, o) })
	t.Run("what a crash left", func(t *testing.T) { testLeftovers(t, o) })
}

// Mix is Run's test of random operations where each restore goes to another of the back ends.
func Mix(t *testing.T, options ...statestore.Options) { testRandom(t, options) }

// entryKey is where a value lies in the model.
type entryKey struct {
	table int
	key   string
}

// persisting is a checkpoint whose snapshots are being stored.
type persisting struct {
	n    record.CheckpointID
	done chan error
	got  []record.StateHandle
}

// machine runs a job of several subtasks next to its model.
type machine struct {
	options []statestore.Options
	dir     string
	files   *Files
	runs    int
	n       record.CheckpointID

	stores  []*statestore.Store
	tables  [][]*statestore.Table // by subtask
	pending [][]*statestore.Snapshot
	running *persisting

	model   map[entryKey]string
	changed map[entryKey]bool
	frozen  map[record.CheckpointID]map[entryKey]string
	handles map[record.CheckpointID][]record.StateHandle
}

func testRandom(t *testing.T, options []statestore.Options) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "storetest")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		m := &machine{options: options, dir: dir, files: new(Files), model: map[entryKey]string{},
			changed: map[entryKey]bool{}, frozen: map[record.CheckpointID]map[entryKey]string{},
			handles: map[record.CheckpointID][]record.StateHandle{}}
		defer func() { m.stop(rt) }()
		m.start(rt, nil)
		rt.Repeat(map[string]func(*rapid.T){
			"put": m.put, "upsert": m.upsert, "delete": m.delete, "get": m.get, "burst": m.burst,
			"freeze": m.freeze, "release": m.release, "persist": m.persist, "wait": m.wait,
			"changes": m.changes, "restore": m.restore, "": m.check,
		})
	})
}

func (m *machine) start(t *rapid.T, restore []record.StateHandle) {
	o := rapid.SampledFrom(m.options).Draw(t, "back end")
	subtasks := rapid.IntRange(1, 3).Draw(t, "subtasks")
	m.runs++
	m.stores, m.tables, m.pending = nil, nil, nil
	for i := range subtasks {
		o := o
		o.Groups, o.Subtask, o.Operator, o.Run = groups, i, "count", fmt.Sprintf("run-%d", m.runs)
		o.Dir = fmt.Sprintf("%s/%d", m.dir, i)
		s, err := statestore.Open(context.Background(), o, restore, m.files, func(g record.KeyGroup) bool {
			return int(g)%subtasks == i
		})
		if err != nil {
			t.Fatal(err)
		}
		m.stores = append(m.stores, s)
		m.tables = append(m.tables, openTables(t, s))
	}
}

func openTables(t *rapid.T, s *statestore.Store) []*statestore.Table {
	var tables []*statestore.Table
	for _, name := range []string{"a", "b"} {
		table, err := s.Table(name)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	return tables
}

func (m *machine) stop(t *rapid.T) {
	m.join(t)
	for _, s := range m.stores {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *machine) at(k entryKey) (*statestore.Table, record.KeyGroup, []byte) {
	g := record.GroupOf([]byte(k.key), groups)
	return m.tables[int(g)%len(m.stores)][k.table], g, []byte(k.key)
}

func drawKey(t *rapid.T) entryKey {
	return entryKey{rapid.IntRange(0, 1).Draw(t, "table"), fmt.Sprintf("key-%d", rapid.IntRange(0, 40).Draw(t, "key"))}
}

func (m *machine) set(k entryKey, v string) {
	m.model[k], m.changed[k] = v, true
}

func (m *machine) put(t *rapid.T) {
	k := drawKey(t)
	size := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 20), rapid.IntRange(0, 70_000)).Draw(t, "size")
	v := string(slices.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, size))
	table, g, key := m.at(k)
	if err := table.Put(g, key, []byte(v)); err != nil {
		t.Fatal(err)
	}
	m.set(k, v)
	m.tidy(t, g)
}

// tidy is what a subtask does between two batches.
func (m *machine) tidy(t *rapid.T, g record.KeyGroup) {
	if err := m.stores[int(g)%len(m.stores)].Tidy(); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) upsert(t *rapid.T) {
	k, size := drawKey(t), rapid.SampledFrom([]int{0, 8, 8, 8, 9, 40}).Draw(t, "size")
	m.change(t, k, size, rapid.Byte().Draw(t, "byte"))
}

// burst changes many keys, so that memory outgrows the cache.
func (m *machine) burst(t *rapid.T) {
	from, b := rapid.IntRange(0, 3).Draw(t, "from"), rapid.Byte().Draw(t, "byte")
	for i := range 200 {
		m.change(t, entryKey{i % 2, fmt.Sprintf("burst-%d", from*1000+i)}, 3000, b)
	}
}

func (m *machine) change(t *rapid.T, k entryKey, size int, b byte) {
	table, g, key := m.at(k)
	got, found, err := table.Upsert(g, key, size)
	if err != nil {
		t.Fatal(err)
	}
	want, ok := m.model[k]
	if found != ok {
		t.Fatalf("Upsert of %v: found %v, want %v", k, found, ok)
	}
	if len(want) != size {
		want = string(make([]byte, size))
	}
	if string(got) != want {
		t.Fatalf("Upsert of %v returned %d bytes that differ from the model", k, len(got))
	}
	other := entryKey{1 - k.table, k.key} // an operator may use another table before it changes the value
	beside, _, _ := m.at(other)
	if v, ok := m.model[other]; ok {
		if err := beside.Put(g, key, []byte(v)); err != nil {
			t.Fatal(err)
		}
		m.set(other, v)
	}
	for i := range got {
		got[i] += b
	}
	m.set(k, string(got))
	m.tidy(t, g)
}

func (m *machine) delete(t *rapid.T) {
	k := drawKey(t)
	table, g, key := m.at(k)
	if err := table.Delete(g, key); err != nil {
		t.Fatal(err)
	}
	delete(m.model, k)
	delete(m.changed, k)
}

func (m *machine) get(t *rapid.T) { m.compare(t, drawKey(t)) }

func (m *machine) compare(t *rapid.T, k entryKey) {
	table, g, key := m.at(k)
	got, found, err := table.Get(g, key)
	if err != nil {
		t.Fatal(err)
	}
	if want, ok := m.model[k]; found != ok || string(got) != want {
		t.Fatalf("Get of %v: found %v with %d bytes, want %v with %d", k, found, len(got), ok, len(want))
	}
}

func (m *machine) changes(t *rapid.T) {
	got := map[entryKey]bool{}
	for i, tables := range m.tables {
		for n, table := range tables {
			err := table.Changed(func(g record.KeyGroup, key, value []byte) error {
				k := entryKey{n, string(key)}
				if int(g)%len(m.stores) != i || got[k] || m.model[k] != string(value) {
					return fmt.Errorf("changed: %v is foreign, repeated or old", k)
				}
				got[k] = true
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if !maps.Equal(got, m.changed) {
		t.Fatalf("changed keys are %v, want %v", got, m.changed)
	}
}

func (m *machine) freeze(t *rapid.T) {
	if len(m.pending) > 3 {
		t.Skip("enough in flight")
	}
	m.n++
	var snaps []*statestore.Snapshot
	for _, s := range m.stores {
		snaps = append(snaps, s.Freeze(m.n))
	}
	m.pending = append(m.pending, snaps)
	m.frozen[m.n] = maps.Clone(m.model)
	m.changed = map[entryKey]bool{}
}

func (m *machine) release(t *rapid.T) {
	if len(m.pending) == 0 || m.running != nil {
		t.Skip("nothing to release")
	}
	for _, s := range m.pending[0] {
		s.Release()
	}
	m.pending = m.pending[1:]
}

// persist stores the oldest pending snapshots while the operations go on.
func (m *machine) persist(t *rapid.T) {
	if len(m.pending) == 0 || m.running != nil {
		t.Skip("nothing to persist")
	}
	snaps := m.pending[0]
	m.pending = m.pending[1:]
	p := &persisting{n: snaps[0].Checkpoint(), done: make(chan error, 1), got: make([]record.StateHandle, len(snaps))}
	m.running = p
	go func() {
		for i, s := range snaps {
			var err error
			if p.got[i], err = s.Persist(context.Background(), m.files); err != nil {
				p.done <- err
				return
			}
		}
		p.done <- nil
	}()
}

func (m *machine) wait(t *rapid.T) {
	if m.running == nil {
		t.Skip("nothing runs")
	}
	m.join(t)
}

func (m *machine) join(t *rapid.T) {
	p := m.running
	if p == nil {
		return
	}
	m.running = nil
	if err := <-p.done; err != nil {
		t.Fatal(err)
	}
	m.handles[p.n] = p.got
	if p.n%2 == 0 {
		for _, s := range m.stores {
			if err := s.Committed(p.n); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// restore ends the run, which loses all that was not persisted, and goes on from a checkpoint with as many subtasks as
// chance wants.
func (m *machine) restore(t *rapid.T) {
	m.stop(t)
	if len(m.handles) == 0 {
		m.model = map[entryKey]string{}
		m.start(t, nil)
	} else {
		n := rapid.SampledFrom(slices.Sorted(maps.Keys(m.handles))).Draw(t, "checkpoint")
		m.model = maps.Clone(m.frozen[n])
		m.start(t, m.handles[n])
	}
	m.changed = map[entryKey]bool{}
	for k := range m.model {
		m.compare(t, k)
	}
}

func (m *machine) check(t *rapid.T) {
	for i, s := range m.stores {
		if err := s.Err(); err != nil {
			t.Fatalf("store %d failed: %v", i, err)
		}
	}
}
