package step

import (
	"fmt"
	"runtime/debug"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/expression"
	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/lazyjson"
	"github.com/weirstream/weir/topology/row"
)

// FlatMap makes a record of each element of the list that an expression yields; null yields none. Key, headers and timestamp
// are those of the record that it came from.
type FlatMap struct {
	frame  *expression.Frame
	list   *expression.Program
	format format.Format
	reject Reject
	out    []record.Record
	buf    []byte
}

// NewFlatMap returns the operator. f is the format of the elements.
func NewFlatMap(frame *expression.Frame, list *expression.Program, f format.Format, reject Reject) *FlatMap {
	return &FlatMap{frame: frame, list: list, format: f, reject: reject}
}

// Process implements topology.Operator. A record whose list has one bad element is rejected whole.
func (m *FlatMap) Process(b *record.Batch) error {
	m.out = m.out[:0]
	for i := range b.Records {
		r := &b.Records[i]
		before := len(m.out)
		if cause := m.expand(b, r); cause != nil {
			m.out = m.out[:before]
			if err := refuse(m.reject, r, cause); err != nil {
				return err
			}
		}
	}
	clear(b.Records)
	b.Records, m.out = m.out, b.Records
	return nil
}

func (m *FlatMap) expand(b *record.Batch, r *record.Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	m.frame.Load(r)
	v, err := m.list.Eval(m.frame)
	if err != nil || v.IsNull() {
		return err
	}
	if v.Kind() != row.IsJSON || v.Text()[0] != '[' {
		return fmt.Errorf("the expression yields a value of type %s, want a list", v.Kind())
	}
	return lazyjson.Elements(v.Text(), func(raw []byte) error {
		element, err := row.FromJSON(raw)
		if err != nil {
			return err
		}
		next := *r
		if next.Value, m.buf, err = encodeOne(b, element, m.format, m.buf); err != nil {
			return err
		}
		m.out = append(m.out, next)
		return nil
	})
}

// Barrier implements topology.Operator: nothing is held back.
func (m *FlatMap) Barrier(record.CheckpointID, *record.Batch) error { return nil }
