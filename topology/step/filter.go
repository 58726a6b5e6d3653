package step

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/expression"
	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/row"
)

// Filter keeps the records for which a condition is true.
type Filter struct {
	Frame     *expression.Frame
	Condition *expression.Program
}

// Apply implements Func.
func (f *Filter) Apply(_ *record.Batch, r *record.Record) (bool, error) {
	f.Frame.Load(r)
	v, err := f.Condition.Eval(f.Frame)
	if err != nil {
		return false, err
	}
	if v.Kind() != row.IsBool {
		return false, fmt.Errorf("the condition is of type %s, want bool", v.Kind())
	}
	return v.Bool(), nil
}

// Rekey sets the key of records to the text of an expression: strings as they are, numbers as in JSON.
type Rekey struct {
	Frame *expression.Frame
	Key   *expression.Program
	buf   []byte
}

var errNoKey = errors.New("the key is null")

// Apply implements Func.
func (k *Rekey) Apply(b *record.Batch, r *record.Record) (bool, error) {
	k.Frame.Load(r)
	v, err := k.Key.Eval(k.Frame)
	if err != nil {
		return false, err
	}
	switch v.Kind() {
	case row.Null:
		return false, errNoKey
	case row.IsString:
		// A view into the record, or memory of its own: no copy is needed.
		if r.Key = v.Text(); r.Key == nil {
			r.Key = []byte{} // no text is not the same as no key
		}
	default:
		if k.buf, err = v.AppendText(k.buf[:0]); err != nil {
			return false, err
		}
		r.Key = format.Copy(b, k.buf)
	}
	r.Group = record.NoGroup
	return true, nil
}

// Project builds a row of named expressions. A tombstone stays one.
type Project struct {
	Frame  *expression.Frame
	Values []*expression.Program
	Schema row.Schema
	row    []row.Value
	buf    []byte
}

// Apply implements Func.
func (p *Project) Apply(b *record.Batch, r *record.Record) (bool, error) {
	if r.Value == nil {
		return true, nil
	}
	p.Frame.Load(r)
	p.row = p.row[:0]
	for i, e := range p.Values {
		v, err := e.Eval(p.Frame)
		if err != nil {
			return false, fmt.Errorf("%s: %w", p.Schema.Columns[i].Name, err)
		}
		p.row = append(p.row, v)
	}
	var err error
	if p.buf, err = p.Schema.Append(p.buf[:0], p.row); err != nil {
		return false, err
	}
	r.Value = format.Copy(b, p.buf)
	return true, nil
}

// Replace sets the value of records to the result of one expression, in the given format. Null makes a tombstone.
type Replace struct {
	Frame  *expression.Frame
	Value  *expression.Program
	Format format.Format
	buf    []byte
}

// Apply implements Func.
func (p *Replace) Apply(b *record.Batch, r *record.Record) (bool, error) {
	p.Frame.Load(r)
	v, err := p.Value.Eval(p.Frame)
	if err != nil {
		return false, err
	}
	r.Value, p.buf, err = encodeOne(b, v, p.Format, p.buf)
	return err == nil, err
}

// encodeOne writes one value in a format, with buf as scratch memory.
func encodeOne(b *record.Batch, v row.Value, f format.Format, buf []byte) (value, scratch []byte, err error) {
	if v.IsNull() {
		return nil, buf, nil
	}
	if buf, err = format.AppendValue(buf[:0], v, f); err != nil {
		return nil, nil, err
	}
	return format.Copy(b, buf), buf, nil
}
