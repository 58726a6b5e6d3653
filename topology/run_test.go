package topology

import (
	"fmt"
	"sort"
	"testing"

	"github.com/weirstream/weir/record"
)

// failer is what a runner needs of testing.T and rapid.T.
type failer interface {
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// runner executes a plan in memory, one batch at a time, and checks that each partition of an output has one writer.
type runner struct {
	t      failer
	plan   *Plan
	steps  [][]Operator // by subtask and step
	states map[string]*memTable
	// written are the records of each output, in order of arrival; writers the subtask that wrote each partition.
	written [][]record.Record
	writers map[string]int
	dropped int
}

func newRunner(t failer, plan *Plan) *runner {
	r := &runner{t: t, plan: plan, states: map[string]*memTable{}, writers: map[string]int{}}
	r.written = make([][]record.Record, len(plan.Outputs))
	for subtask := range plan.Subtasks {
		var ops []Operator
		for i, st := range plan.Steps {
			op, err := st.New(OperatorContext{
				Groups: plan.Groups,
				State: func(name string) (Table, error) {
					return r.table(fmt.Sprintf("%d/%s/%s", subtask, st.Name, name)), nil
				},
				Reject:     func(rec *record.Record, cause error) error { return r.reject(subtask, i, rec, cause) },
				SourceName: func(s int32) string { return plan.Sources[s].Name },
				TopicName:  func(s int32) string { return plan.Sources[s].Topic },
			})
			if err != nil {
				t.Fatalf("step %s: %v", st.Name, err)
			}
			ops = append(ops, op)
		}
		r.steps = append(r.steps, ops)
	}
	return r
}

func (r *runner) table(name string) *memTable {
	if r.states[name] == nil {
		r.states[name] = &memTable{rows: map[string][]byte{}, changed: map[string]bool{}}
	}
	return r.states[name]
}

func (r *runner) reject(subtask, i int, rec *record.Record, cause error) error {
	st := &r.plan.Steps[i]
	rejection := st.Rejection(rec.Source)
	switch rejection.Policy {
	case Drop:
		r.dropped++
		return nil
	case DeadLetter:
		return r.deliver(subtask, rejection.To, []record.Record{r.plan.DeadLetter(st.Name, rec, cause)})
	}
	return fmt.Errorf("%s: %w", st.Name, cause)
}

// feed gives a record to the subtask that reads its partition.
func (r *runner) feed(source int, partition int32, key, value string) error {
	rec := record.Record{Source: int32(source), Partition: partition, Group: record.NoGroup, Timestamp: 1000}
	if key != "" {
		rec.Key = []byte(key)
	}
	if value != "" {
		rec.Value = []byte(value)
	}
	src := r.plan.Sources[source]
	return r.deliver(int(src.Owner[partition]), src.Out, []record.Record{rec})
}

func (r *runner) deliver(subtask int, targets []Target, recs []record.Record) error {
	for _, t := range targets {
		b := &record.Batch{Records: append([]record.Record(nil), recs...)}
		if err := r.deliverTo(subtask, t, b); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) deliverTo(subtask int, t Target, b *record.Batch) error {
	switch t.Kind {
	case ToStep:
		if err := r.steps[subtask][t.Index].Process(b); err != nil {
			return err
		}
		return r.deliver(subtask, r.plan.Steps[t.Index].Out, b.Records)
	case ToEdge:
		e := r.plan.Edges[t.Index]
		for i := range b.Records {
			to := subtask
			if e.Route != nil {
				to = int(e.Route[EnsureGroup(&b.Records[i], r.plan.Groups)])
			}
			if err := r.deliver(to, e.Out, b.Records[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	r.write(subtask, t.Index, b.Records)
	return nil
}

func (r *runner) write(subtask, output int, recs []record.Record) {
	o := r.plan.Outputs[output]
	for i := range recs {
		partition := int32(EnsureGroup(&recs[i], r.plan.Groups)) % o.Partitions
		name := fmt.Sprintf("%s-%d", o.Topic, partition)
		if by, known := r.writers[name]; known && by != subtask {
			r.t.Errorf("partition %s is written by subtasks %d and %d", name, by, subtask)
		}
		r.writers[name] = subtask
	}
	r.written[output] = append(r.written[output], recs...)
}

// barrier lets a barrier pass through all steps of all subtasks, in topological order.
func (r *runner) barrier(n record.CheckpointID) error {
	for subtask := range r.steps {
		for i, op := range r.steps[subtask] {
			var b record.Batch
			if err := op.Barrier(n, &b); err != nil {
				return err
			}
			if err := r.deliver(subtask, r.plan.Steps[i].Out, b.Records); err != nil {
				return err
			}
		}
	}
	for _, t := range r.states {
		clear(t.changed)
	}
	return nil
}

// memTable is a Table over a map, keyed by group and key.
type memTable struct {
	rows    map[string][]byte
	changed map[string]bool
}

func tableKey(group record.KeyGroup, key []byte) string { return fmt.Sprintf("%05d/%s", group, key) }

func (m *memTable) Upsert(group record.KeyGroup, key []byte, size int) ([]byte, bool, error) {
	k := tableKey(group, key)
	m.changed[k] = true
	v, found := m.rows[k]
	if len(v) != size {
		v = make([]byte, size)
		m.rows[k] = v
	}
	return v, found, nil
}

func (m *memTable) Get(group record.KeyGroup, key []byte) ([]byte, bool, error) {
	v, found := m.rows[tableKey(group, key)]
	return v, found, nil
}

func (m *memTable) Put(group record.KeyGroup, key, value []byte) error {
	m.rows[tableKey(group, key)] = append([]byte(nil), value...)
	m.changed[tableKey(group, key)] = true
	return nil
}

func (m *memTable) Delete(group record.KeyGroup, key []byte) error {
	delete(m.rows, tableKey(group, key))
	return nil
}

func (*memTable) Warm(records []record.Record) int { return len(records) }

func (m *memTable) Changed(f func(record.KeyGroup, []byte, []byte) error) error {
	var keys []string
	for k := range m.changed {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		var group record.KeyGroup
		if _, err := fmt.Sscanf(k[:5], "%d", &group); err != nil {
			return err
		}
		if err := f(group, []byte(k[6:]), m.rows[k]); err != nil {
			return err
		}
	}
	return nil
}

func compile(t testing.TB, spec Spec) *Graph {
	t.Helper()
	g, faults := Compile(spec)
	for _, f := range faults {
		t.Errorf("fault: %+v", f)
	}
	if g == nil {
		t.FailNow()
	}
	return g
}

func plan(t testing.TB, spec Spec, partitions Partitions, subtasks int) *Plan {
	t.Helper()
	p, err := NewPlan(compile(t, spec), partitions, subtasks)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
