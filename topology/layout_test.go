package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/record"
)

func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(1, 64), 1, 3)
		inputs, outputs := counts.Draw(t, "inputs"), counts.Draw(t, "outputs")
		subtasks := rapid.IntRange(1, 16).Draw(t, "subtasks")
		l, err := newLayout(inputs, outputs, subtasks)
		if err != nil {
			if multiple(outputs) <= maxGroups {
				t.Fatal(err)
			}
			return
		}
		if l.groups < minGroups || l.groups > maxGroups {
			t.Fatalf("%d key groups", l.groups)
		}
		for _, n := range outputs {
			checkOutput(t, l, n)
		}
		if used := len(slices.Compact(slices.Sorted(slices.Values(l.main())))); used < subtasks && l.common >= subtasks {
			t.Fatalf("the main route uses %d of %d subtasks", used, subtasks)
		}
		for _, n := range inputs {
			for _, s := range l.readers(n) {
				if s < 0 || int(s) >= subtasks {
					t.Fatalf("subtask %d of %d reads", s, subtasks)
				}
			}
		}
	})
}

// checkOutput checks that each partition of an output is reached in one subtask only, and in as many subtasks as can be.
func checkOutput(t *rapid.T, l layout, n int) {
	if l.groups%n != 0 {
		t.Fatalf("%d key groups are no multiple of %d partitions", l.groups, n)
	}
	route := l.own(n)
	if l.follows(n) {
		route = l.main()
	}
	writers := make([]int32, n)
	for g, s := range route {
		if g < n {
			writers[g] = s
		}
		if writers[g%n] != s {
			t.Fatalf("partition %d of %d is written by subtasks %d and %d", g%n, n, writers[g%n], s)
		}
	}
	used := len(slices.Compact(slices.Sorted(slices.Values(writers))))
	if used < min(n, l.subtasks) {
		t.Fatalf("%d of %d subtasks write to %d partitions", used, l.subtasks, n)
	}
}

// TestCoPartitionedRecordsStay checks that a record whose producer partitions like Kafka's client is read by the subtask
// that owns its key and writes its result.
func TestCoPartitionedRecordsStay(t *testing.T) {
	l, err := newLayout([]int{12, 24}, []int{12, 6}, 3)
	if err != nil {
		t.Fatal(err)
	}
	route := l.main()
	for i := range 1000 {
		group := record.GroupOf(fmt.Append(nil, "key", i), l.groups)
		for _, n := range []int{12, 24} {
			if reader := l.readers(n)[int(group)%n]; reader != route[group] {
				t.Fatalf("group %d is read by subtask %d and owned by %d", group, reader, route[group])
			}
		}
	}
}

// wideSpec has branches, unions, changes of the key, two sinks of one stream and a sink with one partition.
func wideSpec() Spec {
	return Spec{
		Job: "wide",
		Sources: []SourceSpec{
			{Name: "a", Topic: "ta", Format: "json", OnError: "drop"},
			{Name: "b", Topic: "tb", Format: "json", OnError: "dead_letter", DeadLetter: "dead"},
		},
		Operators: []OperatorSpec{
			{Name: "both", From: []string{"a", "b"}, Filter: `v >= 0`},
			{Name: "shape", From: []string{"both"}, Map: []NamedText{{"k", "k"}, {"v", "v * 2"}}},
			{Name: "per_k", From: []string{"shape"}, Key: "k", Aggregate: []NamedText{{"n", "count()"}, {"total", "sum(v)"}}},
			{Name: "big", From: []string{"per_k"}, Filter: "n > 2"},
			{Name: "per_parity", From: []string{"per_k", "big"}, Key: "n % 2", Aggregate: []NamedText{{"m", "count()"}}},
			{Name: "each", From: []string{"both"}, FlatMap: "[v, v + 1]"},
			{Name: "again", From: []string{"shape"}, Key: "k", Aggregate: []NamedText{{"last", "last(v)"}}, Emit: "on_checkpoint"},
		},
		Sinks: []SinkSpec{
			{Name: "totals", From: []string{"per_k", "big"}, Topic: "t1"},
			{Name: "parity", From: []string{"per_parity"}, Topic: "t2", Format: "int64"},
			{Name: "lists", From: []string{"each"}, Topic: "t3", Key: "value"},
			{Name: "copy", From: []string{"a", "b"}, Topic: "t4"},
			{Name: "copy2", From: []string{"a"}, Topic: "t5", Format: "string"},
			{Name: "lasts", From: []string{"again"}, Topic: "t1"},
		},
	}
}

// results runs the records through a plan and returns what each key of each output got, in order, and what was dropped.
func results(t *rapid.T, p *Plan, records [][3]string) map[string][]string {
	r := newRunner(t, p)
	for i, rec := range records {
		source := int(rec[0][0] - '0')
		partition := record.Hash([]byte(rec[1])) % uint32(len(p.Sources[source].Owner))
		if err := r.feed(source, int32(partition), rec[1], rec[2]); err != nil {
			t.Fatal(err)
		}
		if i == len(records)/2 {
			r.mustBarrier(t, 1)
		}
	}
	r.mustBarrier(t, 2)
	all := map[string][]string{"dropped": {fmt.Sprint(r.dropped)}}
	for o, written := range r.written {
		for _, w := range written {
			name := fmt.Sprintf("%s/%s", p.Outputs[o].Topic, w.Key)
			all[name] = append(all[name], string(w.Value))
		}
	}
	for name, list := range all {
		if strings.HasPrefix(name, "t1/") { // two streams meet there, in no order between them
			slices.Sort(list)
		}
	}
	return all
}

func (r *runner) mustBarrier(t *rapid.T, n record.CheckpointID) {
	if err := r.barrier(n); err != nil {
		t.Fatal(err)
	}
}

// TestSubtasksChangeNothing runs one pipeline over random records with one subtask and with several: what each key gets is
// the same, in the same order, and each partition has one writer.
func TestSubtasksChangeNothing(t *testing.T) {
	graph := compile(t, wideSpec())
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 12)
		partitions := Partitions{}
		for _, topic := range []string{"ta", "tb", "t1", "t2", "t3", "t4", "t5", "dead"} {
			partitions[topic] = count.Draw(t, topic)
		}
		partitions["t5"] = 1
		var records [][3]string
		for range rapid.IntRange(1, 40).Draw(t, "records") {
			key := rapid.StringMatching("[a-e]").Draw(t, "key")
			value := fmt.Sprintf(`{"k":%q,"v":%d}`, key, rapid.IntRange(-1, 9).Draw(t, "v"))
			if rapid.IntRange(0, 9).Draw(t, "bad") == 0 {
				value = "{bad"
			}
			records = append(records, [3]string{rapid.SampledFrom([]string{"0", "1"}).Draw(t, "source"), key, value})
		}
		var want map[string][]string
		for _, subtasks := range []int{1, rapid.IntRange(2, 9).Draw(t, "subtasks")} {
			p, err := NewPlan(graph, partitions, subtasks)
			if err != nil {
				if subtasks == 1 && p != nil {
					t.Fatal(err)
				}
				return
			}
			got := results(t, p, records)
			if want == nil {
				want = got
			} else if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%d subtasks:\n%v\none:\n%v", subtasks, got, want)
			}
		}
	})
}
