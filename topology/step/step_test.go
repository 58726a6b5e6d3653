package step

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/expression"
	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/row"
)

// script does what the value of a record says.
type script struct{}

func (script) Apply(_ *record.Batch, r *record.Record) (bool, error) {
	switch string(r.Value) {
	case "drop":
		return false, nil
	case "fail":
		return false, errors.New("failed")
	case "panic":
		panic("out of order")
	case "state":
		return false, Fatal(errors.New("state"))
	}
	return true, nil
}

func batch(values ...string) *record.Batch {
	b := &record.Batch{}
	for i, v := range values {
		b.Records = append(b.Records, record.Record{Key: fmt.Append(nil, "k", i), Value: []byte(v), Group: 5, Offset: int64(i)})
	}
	return b
}

func values(b *record.Batch) string {
	var list []string
	for _, r := range b.Records {
		list = append(list, fmt.Sprintf("%s=%s", r.Key, r.Value))
	}
	return strings.Join(list, " ")
}

func TestEachGoesOnAfterAFault(t *testing.T) {
	var rejected []string
	e := NewEach(script{}, func(r *record.Record, cause error) error {
		rejected = append(rejected, fmt.Sprintf("%d: %v", r.Offset, cause))
		return nil
	})
	b := batch("a", "panic", "drop", "b", "fail", "panic", "c")
	if err := e.Process(b); err != nil {
		t.Fatal(err)
	}
	if got, want := values(b), "k0=a k3=b k6=c"; got != want {
		t.Errorf("kept %s, want %s", got, want)
	}
	if got, want := strings.Join(rejected, ", "), "1: panic: out of order, 4: failed, 5: panic: out of order"; got != want {
		t.Errorf("rejected %s, want %s", got, want)
	}
	if rest := b.Records[:7][3:]; rest[0].Value != nil || rest[3].Key != nil {
		t.Errorf("records behind the end still hold on to memory: %v", rest)
	}
}

// seer is a script that looks ahead at two records, and notes what it sees and what it is given.
type seer struct {
	script
	log []string
}

func (s *seer) Ahead(records []record.Record) int {
	n := min(2, len(records))
	for _, r := range records[:n] {
		s.log = append(s.log, "see "+string(r.Value))
	}
	return n
}

func (s *seer) Apply(b *record.Batch, r *record.Record) (bool, error) {
	s.log = append(s.log, string(r.Value))
	return s.script.Apply(b, r)
}

// TestEachLooksAheadAtEveryRecord once, before it is applied, and after a fault goes on where it was.
func TestEachLooksAheadAtEveryRecord(t *testing.T) {
	s := &seer{}
	e := NewEach(s, func(*record.Record, error) error { return nil })
	for range 2 {
		s.log = nil
		if err := e.Process(batch("a", "fail", "b", "drop", "fail")); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Join(s.log, ", "), "see a, see fail, a, fail, see b, see drop, b, drop, see fail, fail"; got != want {
			t.Errorf("seen and applied: %s, want %s", got, want)
		}
	}
}

func TestErrorsThatEndTheAttempt(t *testing.T) {
	stop := errors.New("policy says stop")
	reject := func(*record.Record, error) error { return stop }
	if err := NewEach(script{}, reject).Process(batch("a", "fail", "b")); !errors.Is(err, stop) {
		t.Errorf("a refusal that nobody deals with: %v", err)
	}
	drop := func(*record.Record, error) error { return nil }
	if err := NewEach(script{}, drop).Process(batch("a", "state")); err == nil || err.Error() != "state" {
		t.Errorf("a failure of the state: %v", err)
	}
}

func TestPanicTellsWhere(t *testing.T) {
	var cause *PanicError
	e := NewEach(script{}, func(_ *record.Record, err error) error { return err })
	if err := e.Process(batch("panic")); !errors.As(err, &cause) || !strings.Contains(string(cause.Stack), "step_test.go") {
		t.Errorf("error %v with the stack %s", err, cause.Stack)
	}
}

// compiled returns a frame and programs over JSON.
func compiled(t *testing.T, sources ...string) (*expression.Frame, []*expression.Program) {
	t.Helper()
	scope := expression.NewScope(format.Shape{Format: format.JSON})
	var programs []*expression.Program
	for _, s := range sources {
		p, err := scope.Compile(s)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
	}
	return scope.Frame(func(int32) string { return "topic" }), programs
}

func TestRekey(t *testing.T) {
	frame, programs := compiled(t, "id")
	var rejected []error
	e := NewEach(&Rekey{Frame: frame, Key: programs[0]}, func(_ *record.Record, cause error) error {
		rejected = append(rejected, cause)
		return nil
	})
	b := batch(`{"id":"a\tb"}`, `{"id":17}`, `{"id":1.50}`, `{"id":true}`, `{}`, `{"id":""}`)
	if err := e.Process(b); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, r := range b.Records {
		keys = append(keys, string(r.Key))
		if r.Group != record.NoGroup {
			t.Errorf("key %s keeps the key group %d of the old one", r.Key, r.Group)
		}
	}
	if got, want := strings.Join(keys, "|"), "a\tb|17|1.5|true|"; got != want || len(rejected) != 1 || !errors.Is(rejected[0], errNoKey) {
		t.Errorf("keys %q, want %q; rejected %v", got, want, rejected)
	}
}

func TestNoTextIsAKey(t *testing.T) {
	frame, programs := compiled(t, `id ?? ""`)
	b := batch(`{}`)
	fail := func(_ *record.Record, cause error) error { return cause }
	if err := NewEach(&Rekey{Frame: frame, Key: programs[0]}, fail).Process(b); err != nil || b.Records[0].Key == nil {
		t.Errorf("key %v, %v; want an empty one that is not nil", b.Records[0].Key, err)
	}
}

func TestProjectAndReplace(t *testing.T) {
	frame, programs := compiled(t, "a", "b * 2")
	schema := row.Schema{Columns: []row.Column{{Name: "a", Type: row.Any}, {Name: "b", Type: row.Any}}}
	fail := func(_ *record.Record, cause error) error { return cause }
	b := batch(`{"a":"x","b":21}`)
	b.Records = append(b.Records, record.Record{Key: []byte("gone")})
	if err := NewEach(&Project{Frame: frame, Values: programs, Schema: schema}, fail).Process(b); err != nil {
		t.Fatal(err)
	}
	v, err := schema.Get(b.Records[0].Value, 1)
	if err != nil || v.Int() != 42 || len(b.Records) != 2 || b.Records[1].Value != nil {
		t.Errorf("column b is %v, %v, and the tombstone %v", v, err, b.Records[1].Value)
	}
	frame, programs = compiled(t, `a == "x" ? nil : a`)
	b = batch(`{"a":"x"}`, `{"a":[1, 2]}`)
	if err := NewEach(&Replace{Frame: frame, Value: programs[0], Format: format.JSON}, fail).Process(b); err != nil {
		t.Fatal(err)
	}
	if b.Records[0].Value != nil || string(b.Records[1].Value) != "[1, 2]" && string(b.Records[1].Value) != "[1,2]" {
		t.Errorf("replaced by %s", values(b))
	}
}

func TestNoTextIsNoTombstone(t *testing.T) {
	frame, programs := compiled(t, `a`)
	b := batch(`{"a":""}`)
	fail := func(_ *record.Record, cause error) error { return cause }
	if err := NewEach(&Replace{Frame: frame, Value: programs[0], Format: format.String}, fail).Process(b); err != nil {
		t.Fatal(err)
	}
	if v := b.Records[0].Value; v == nil || len(v) != 0 {
		t.Errorf("the value is %v, want an empty one that is not nil", v)
	}
}

func TestFlatMap(t *testing.T) {
	frame, programs := compiled(t, "items")
	var rejected []error
	m := NewFlatMap(frame, programs[0], format.JSON, func(_ *record.Record, cause error) error {
		rejected = append(rejected, cause)
		return nil
	})
	for range 2 { // the second batch runs in the memory of the first
		b := batch(`{"items":[1,{"a":2},null]}`, `{"items":[]}`, `{"items":5}`, `{}`, `{"items":["x"]}`, `{"items":[`)
		if err := m.Process(b); err != nil {
			t.Fatal(err)
		}
		if got, want := values(b), `k0=1 k0={"a":2} k0= k4="x"`; got != want || b.Records[2].Value != nil {
			t.Errorf("elements %s, want %s", got, want)
		}
	}
	if len(rejected) != 4 {
		t.Errorf("rejected %v, want the number and the damaged record, twice", rejected)
	}
}
