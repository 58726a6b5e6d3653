package expression

import (
	"encoding/binary"
	"fmt"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/lazyjson"
	"github.com/weirstream/weir/topology/row"
)

// evaluator computes one value from the record of a frame.
type evaluator func(*Frame) (row.Value, error)

// Frame runs programs of one scope over records, one at a time. It belongs to one goroutine.
type Frame struct {
	scope  *Scope
	topic  func(source int32) string
	record *record.Record
	// found holds the text of the scope's members in the record's value; it is filled on first use.
	found   [][]byte
	scanned bool
	fault   error
	machine vm.VM
	env     map[string]any
}

// Frame returns a frame for the programs compiled so far. topic names the topic of a source.
func (s *Scope) Frame(topic func(source int32) string) *Frame {
	return &Frame{scope: s, topic: topic, found: make([][]byte, len(s.members)), env: map[string]any{}}
}

// Load makes r the record that programs see, until the next Load.
func (f *Frame) Load(r *record.Record) { f.record, f.scanned = r, false }

// Eval runs p. An error is a fault of the record. Text in the result is a view into the record or into memory of its own.
func (p *Program) Eval(f *Frame) (row.Value, error) {
	if p.native != nil {
		return p.native(f)
	}
	return p.run(f)
}

// run lets expr's machine do the work.
func (p *Program) run(f *Frame) (row.Value, error) {
	for _, b := range p.names {
		x, err := b.load(f)
		if err != nil {
			return row.Value{}, err
		}
		f.env[b.name] = x
	}
	x, err := f.machine.Run(p.machine, f.env)
	if err != nil {
		return row.Value{}, fmt.Errorf("%s: %w", p.source, p.plain(err))
	}
	return row.FromGo(x)
}

// plain drops the drawing of the source from a machine's error.
func (p *Program) plain(err error) error {
	return (&Scope{}).fault(err)
}

// member returns the text of the scope's member i, nil where the value has none.
func (f *Frame) member(i int) ([]byte, error) {
	if !f.scanned {
		f.scanned, f.fault = true, nil
		clear(f.found)
		if f.record.Value != nil {
			f.fault = lazyjson.Fields(f.record.Value, f.scope.members, f.found)
		}
	}
	return f.found[i], f.fault
}

// binding is one name that the machine needs.
type binding struct {
	name string
	load func(*Frame) (any, error)
}

// bindings finds the names of the environment that n uses.
func (s *Scope) bindings(n ast.Node) []binding {
	var c collector
	ast.Walk(&n, &c)
	var list []binding
	env := s.environment()
	for _, name := range c.names {
		if _, known := env[name]; known || s.shape.Format == format.JSON {
			list = append(list, binding{name, s.loader(name)})
		}
	}
	return list
}

// collector gathers the identifiers of an expression, each once. Variables of `let` are among them; where values are JSON
// they are taken for members, harmlessly: the machine never looks them up in the environment.
type collector struct {
	names []string
}

// Visit implements ast.Visitor.
func (c *collector) Visit(n *ast.Node) {
	id, ok := (*n).(*ast.IdentifierNode)
	if !ok {
		return
	}
	for _, name := range c.names {
		if name == id.Value {
			return
		}
	}
	c.names = append(c.names, id.Value)
}

func (s *Scope) loader(name string) func(*Frame) (any, error) {
	switch {
	case name == "headers":
		return func(f *Frame) (any, error) { return headers(f.record), nil }
	case name == "value" && s.shape.Format == format.Row:
		return (*Frame).columns
	}
	e := s.name(name)
	return func(f *Frame) (any, error) {
		v, err := e(f)
		return v.Go(), err
	}
}

func headers(r *record.Record) map[string]string {
	m := make(map[string]string, len(r.Headers))
	for _, h := range r.Headers {
		m[string(h.Key)] = string(h.Value)
	}
	return m
}

// columns is the value of a row as a map.
func (f *Frame) columns() (any, error) {
	if f.record.Value == nil {
		return nil, nil
	}
	schema := &f.scope.shape.Fields
	m := make(map[string]any, len(schema.Columns))
	for i := range schema.Columns {
		v, err := schema.Get(f.record.Value, i)
		if err != nil {
			return nil, err
		}
		m[schema.Columns[i].Name] = v.Go()
	}
	return m, nil
}

// name returns how the value of a name is had from a record. The attributes hide fields of the same name, which are
// reached as value.NAME.
func (s *Scope) name(name string) evaluator {
	switch name {
	case "key":
		return func(f *Frame) (row.Value, error) { return text(f.record.Key), nil }
	case "value":
		return s.value()
	case "timestamp":
		return func(f *Frame) (row.Value, error) { return row.OfInt(f.record.Timestamp), nil }
	case "topic":
		return func(f *Frame) (row.Value, error) { return row.OfString(f.topic(f.record.Source)), nil }
	case "partition":
		return func(f *Frame) (row.Value, error) { return row.OfInt(int64(f.record.Partition)), nil }
	case "offset":
		return func(f *Frame) (row.Value, error) { return row.OfInt(f.record.Offset), nil }
	}
	return s.field(name)
}

func text(b []byte) row.Value {
	if b == nil {
		return row.Value{}
	}
	return row.OfText(b)
}

func (s *Scope) value() evaluator {
	switch s.shape.Format {
	case format.Int64:
		return int64Value
	case format.JSON:
		return jsonValue
	case format.Row:
		return nil
	}
	return func(f *Frame) (row.Value, error) { return text(f.record.Value), nil }
}

func int64Value(f *Frame) (row.Value, error) {
	switch len(f.record.Value) {
	case 8:
		return row.OfInt(int64(binary.BigEndian.Uint64(f.record.Value))), nil
	case 0:
		if f.record.Value == nil {
			return row.Value{}, nil
		}
	}
	return row.Value{}, fmt.Errorf("the value has %d bytes, an int64 has 8", len(f.record.Value))
}

func jsonValue(f *Frame) (row.Value, error) {
	if f.record.Value == nil {
		return row.Value{}, nil
	}
	raw, err := lazyjson.Value(f.record.Value)
	if err != nil {
		return row.Value{}, err
	}
	return row.FromJSON(raw)
}

// field reads a column, the key under its name, or a member of a JSON object.
func (s *Scope) field(name string) evaluator {
	i := s.shape.Fields.Index(name)
	switch {
	case i >= 0 && s.shape.Format == format.Row:
		return func(f *Frame) (row.Value, error) {
			if f.record.Value == nil {
				return row.Value{}, nil
			}
			return f.scope.shape.Fields.Get(f.record.Value, i)
		}
	case name == s.shape.Key.Name:
		return func(f *Frame) (row.Value, error) { return row.ParseText(f.record.Key, f.scope.shape.Key.Type) }
	}
	at, want := s.member(name), row.Any
	if i >= 0 {
		want = s.shape.Fields.Columns[i].Type
	}
	return func(f *Frame) (row.Value, error) {
		raw, err := f.member(at)
		if err != nil {
			return row.Value{}, err
		}
		v, err := row.FromJSON(raw)
		if err == nil && want != row.Any {
			v, err = v.As(want)
		}
		if err != nil {
			return row.Value{}, fmt.Errorf("field %s: %w", name, err)
		}
		return v, nil
	}
}
