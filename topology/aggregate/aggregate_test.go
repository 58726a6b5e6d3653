package aggregate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/expression"
	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/row"
)

// memory is a Table over a map; order is the order in which keys first came.
type memory struct {
	rows  map[string][]byte
	order []string
	fail  error
}

func (m *memory) Upsert(_ record.KeyGroup, key []byte, size int) ([]byte, bool, error) {
	v, found := m.rows[string(key)]
	if !found || len(v) != size {
		v = make([]byte, size)
		m.rows[string(key)] = v
		m.order = append(m.order, string(key))
	}
	return v, found, m.fail
}

func (m *memory) Get(_ record.KeyGroup, key []byte) ([]byte, bool, error) {
	v, found := m.rows[string(key)]
	return v, found, m.fail
}

func (m *memory) Put(_ record.KeyGroup, key, value []byte) error {
	m.rows[string(key)] = append([]byte(nil), value...)
	return m.fail
}

func (m *memory) Warm(records []record.Record) int { return len(records) }

func (m *memory) Changed(f func(record.KeyGroup, []byte, []byte) error) error {
	for _, k := range m.order {
		if err := f(7, []byte(k), m.rows[k]); err != nil {
			return err
		}
	}
	m.order = nil
	return nil
}

// bench is an operator under test, over JSON records.
type bench struct {
	t        testing.TB
	op       *Operator
	schema   row.Schema
	tables   map[string]*memory
	rejected []error
}

func newBench(t testing.TB, later bool, columns ...string) *bench {
	t.Helper()
	b := &bench{t: t, tables: map[string]*memory{}}
	scope := expression.NewScope(format.Shape{Format: format.JSON})
	var list []Column
	for _, c := range columns {
		name, argument, _ := strings.Cut(strings.TrimSuffix(c, ")"), "(")
		f, ok := Parse(name)
		if !ok {
			t.Fatalf("no function %s", name)
		}
		column := Column{Name: name, Function: f}
		if argument != "" {
			p, err := scope.Compile(argument)
			if err != nil {
				t.Fatal(err)
			}
			column.Argument = p
		}
		list = append(list, column)
	}
	b.schema = Schema(list)
	op, err := New(Options{
		Columns: list, Frame: scope.Frame(func(int32) string { return "" }), OnCheckpoint: later,
		Group: func(*record.Record) record.KeyGroup { return 7 },
		Open: func(name string) (Table, error) {
			b.tables[name] = &memory{rows: map[string][]byte{}}
			return b.tables[name], nil
		},
		Reject: func(_ *record.Record, cause error) error {
			b.rejected = append(b.rejected, cause)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.op = op
	return b
}

// feed processes one record and returns its row, "" where there is none.
func (b *bench) feed(key, value string) string {
	b.t.Helper()
	batch := &record.Batch{Records: []record.Record{{Key: []byte(key), Value: []byte(value), Timestamp: 1234}}}
	if value == "" {
		batch.Records[0].Value = nil
	}
	if err := b.op.Process(batch); err != nil {
		b.t.Fatal(err)
	}
	if len(batch.Records) == 0 {
		return ""
	}
	return b.show(batch.Records[0].Value)
}

func (b *bench) show(packed []byte) string {
	var parts []string
	for i := range b.schema.Columns {
		v, err := b.schema.Get(packed, i)
		if err != nil {
			b.t.Fatal(err)
		}
		text, err := v.AppendJSON(nil)
		if err != nil {
			b.t.Fatal(err)
		}
		parts = append(parts, string(text))
	}
	return strings.Join(parts, " ")
}

func TestFunctions(t *testing.T) {
	b := newBench(t, false, "count()", "sum(v)", "min(v)", "max(v)", "avg(v)", "first(v)", "last(v)", "count_distinct(v)")
	for _, c := range [][2]string{
		{`{"v":null}`, "1 null null null null null null 0"}, {`{"v":5}`, "2 5 5 5 5 5 5 1"}, {`{"v":2}`, "3 7 2 5 3.5 5 2 2"},
		{`{"v":5}`, "4 12 2 5 4 5 5 2"}, {`{"v":0.5}`, "5 12.5 0.5 5 3.125 5 0.5 3"}, {"", ""}, {`{}`, "6 12.5 0.5 5 3.125 5 0.5 3"},
	} {
		if got := b.feed("k", c[0]); got != c[1] {
			t.Errorf("after %s: %q, want %q", c[0], got, c[1])
		}
	}
	if got := b.feed("other", `{"v":1}`); got != "1 1 1 1 1 1 1 1" {
		t.Errorf("another key: %q", got)
	}
}

func TestTextAndMixedTypes(t *testing.T) {
	b := newBench(t, false, "min(v)", "max(v)", "first(v)", "last(v)", "count_distinct(v)")
	for _, c := range [][2]string{
		{`{"v":"pear"}`, `"pear" "pear" "pear" "pear" 1`}, {`{"v":"apple"}`, `"apple" "pear" "pear" "apple" 2`},
		{`{"v":"a much longer text"}`, `"a much longer text" "pear" "pear" "a much longer text" 3`},
		{`{"v":3}`, `3 "pear" "pear" 3 4`}, {`{"v":{"x":1}}`, `3 {"x":1} "pear" {"x":1} 5`}, {`{"v":""}`, `3 {"x":1} "pear" "" 6`},
	} {
		if got := b.feed("k", c[0]); got != c[1] {
			t.Errorf("after %s: %s, want %s", c[0], got, c[1])
		}
	}
}

func TestRefusedRecordChangesNothing(t *testing.T) {
	b := newBench(t, false, "count()", "last(v)", "sum(n)", "count(v == 1)")
	b.feed("k", fmt.Sprintf(`{"v":1,"n":%d}`, int64(math.MaxInt64)))
	for _, bad := range []string{`{"v":2,"n":1}`, `{"v":2,"n":"x"}`, `{"v":2,`} {
		if got := b.feed("k", bad); got != "" {
			t.Errorf("%s yields %s", bad, got)
		}
	}
	want := fmt.Sprintf("2 3 %d 1", int64(math.MaxInt64)-1)
	if got := b.feed("k", `{"v":3,"n":-1}`); got != want || len(b.rejected) != 3 {
		t.Errorf("after three refused records: %s, want %s; refused %v", got, want, b.rejected)
	}
}

func TestEmissionAtCheckpoint(t *testing.T) {
	b := newBench(t, true, "count()", "last(v)")
	for i := range 6 {
		if got := b.feed(fmt.Sprint("k", i%2), fmt.Sprintf(`{"v":"v%d"}`, i)); got != "" {
			t.Fatalf("a row before the checkpoint: %s", got)
		}
	}
	var out record.Batch
	if err := b.op.Barrier(1, &out); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range out.Records {
		got = append(got, fmt.Sprintf("%s %s %d %d %d", r.Key, b.show(r.Value), r.Group, r.Timestamp, r.Source))
	}
	if want := `[k0 3 "v4" 7 1234 -1 k1 3 "v5" 7 1234 -1]`; fmt.Sprint(got) != want {
		t.Errorf("emitted %v, want %s", got, want)
	}
	out.Reset()
	if err := b.op.Barrier(2, &out); err != nil || len(out.Records) != 0 {
		t.Errorf("nothing changed, and %d rows are emitted, %v", len(out.Records), err)
	}
}

func TestFailingStateIsNoFaultOfTheRecord(t *testing.T) {
	cause := errors.New("disk on fire")
	for _, columns := range [][]string{{"count()"}, {"count()", "count_distinct(v)"}} {
		b := newBench(t, false, columns...)
		for _, table := range b.tables {
			table.fail = cause
		}
		batch := &record.Batch{Records: []record.Record{{Key: []byte("k"), Value: []byte(`{"v":1}`)}}}
		if err := b.op.Process(batch); !errors.Is(err, cause) || len(b.rejected) > 0 {
			t.Errorf("%v: error %v, rejected %v; want the state's error", columns, err, b.rejected)
		}
	}
}

func TestRecordWithoutKey(t *testing.T) {
	for _, columns := range [][]string{{"count()"}, {"sum(v)"}} {
		b := newBench(t, false, columns...)
		batch := &record.Batch{Records: []record.Record{{Value: []byte(`{"v":1}`)}, {Key: []byte{}, Value: []byte(`{"v":1}`)}}}
		if err := b.op.Process(batch); err != nil || len(b.rejected) != 1 || len(batch.Records) != 1 {
			t.Errorf("%v: error %v, rejected %v, results %d; want one of each", columns, err, b.rejected, len(batch.Records))
		}
	}
}

// fixed is a table whose look-up costs nothing, for what the operator itself costs.
type fixed struct {
	memory
	value [64]byte
}

func (f *fixed) Upsert(_ record.KeyGroup, _ []byte, size int) ([]byte, bool, error) {
	return f.value[:size], true, nil
}

// BenchmarkCount is counting and encoding as int64, without the table.
func BenchmarkCount(b *testing.B) {
	columns := []Column{{Name: "count", Function: Count}}
	op, err := New(Options{
		Columns: columns, Group: func(r *record.Record) record.KeyGroup { return r.Group },
		Open:   func(string) (Table, error) { return &fixed{}, nil },
		Reject: func(_ *record.Record, cause error) error { return cause },
	})
	if err != nil {
		b.Fatal(err)
	}
	encoder, err := format.NewEncoder(format.Shape{Format: format.Row, Fields: Schema(columns)}, format.Int64)
	if err != nil {
		b.Fatal(err)
	}
	const records = 1000
	in := make([]record.Record, records)
	for i := range in {
		in[i] = record.Record{Key: binary.BigEndian.AppendUint64(nil, uint64(i)), Value: make([]byte, 100)}
	}
	batch := &record.Batch{}
	b.ReportAllocs()
	for b.Loop() {
		batch.Records = append(batch.Records[:0], in...)
		if err := op.Process(batch); err != nil {
			b.Fatal(err)
		}
		for i := range batch.Records {
			if _, err := encoder.Apply(batch, &batch.Records[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
}
