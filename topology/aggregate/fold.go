package aggregate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/row"
	"github.com/weirstream/weir/topology/step"
)

// fold is the operator for any columns.
type fold struct {
	opts   Options
	schema row.Schema
	table  Table
	parts  []part
	// order is the order in which parts take a record: those that can refuse it come first, so that a refused record
	// has changed nothing.
	order []int
	size  int
	// args, results, acc and buf are scratch memory.
	args, results []row.Value
	acc, buf      []byte
}

// part is one column at work.
type part struct {
	Function
	// at is where its bytes lie in the value of a key.
	at int
	// side is the table for what has no fixed size, nil where everything has.
	side Table
}

// timestampSize is what rows emitted at checkpoints keep ahead of the accumulators: the time of the last record.
const timestampSize = 8

func (f *fold) open() (err error) {
	if f.table, err = f.opts.Open("values"); err != nil {
		return err
	}
	if f.opts.OnCheckpoint {
		f.size = timestampSize
	}
	for i, c := range f.opts.Columns {
		p := part{Function: c.Function, at: f.size}
		f.size += c.Function.size()
		if side := c.Function.side(c.Argument); side != "" {
			if p.side, err = f.opts.Open(side + "." + c.Name); err != nil {
				return err
			}
		}
		f.parts = append(f.parts, p)
		f.order = append(f.order, i)
	}
	slices.SortStableFunc(f.order, func(a, b int) int { return f.parts[a].rank() - f.parts[b].rank() })
	f.args = make([]row.Value, len(f.parts))
	f.results = make([]row.Value, len(f.parts))
	return nil
}

// rank sorts the functions that can refuse a record before the others.
func (p *part) rank() int {
	if p.Function == Sum {
		return 0
	}
	return 1
}

// Ahead implements step.Ahead.
func (f *fold) Ahead(records []record.Record) int { return ahead(f.table, f.opts.Group, records) }

// Apply implements step.Func.
func (f *fold) Apply(b *record.Batch, r *record.Record) (bool, error) {
	if r.Value == nil {
		return false, nil
	}
	if r.Key == nil {
		return false, errNoKey
	}
	if err := f.arguments(r); err != nil {
		return false, err
	}
	group := f.opts.Group(r)
	acc, _, err := f.table.Upsert(group, r.Key, f.size)
	if err != nil {
		return false, step.Fatal(err)
	}
	if err := f.add(group, r, acc); err != nil {
		return false, err
	}
	if f.opts.OnCheckpoint {
		return false, nil
	}
	r.Value, err = f.row(b, group, r.Key, acc)
	return err == nil, err
}

// arguments runs the expressions, and checks what can be checked before anything is changed.
func (f *fold) arguments(r *record.Record) error {
	f.opts.Frame.Load(r)
	for i, c := range f.opts.Columns {
		if c.Argument == nil {
			f.args[i] = row.OfBool(true)
			continue
		}
		v, err := c.Argument.Eval(f.opts.Frame)
		if err == nil {
			err = c.Function.check(v)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		f.args[i] = v
	}
	return nil
}

func (f Function) check(v row.Value) error {
	if v.IsNull() {
		return nil
	}
	if f == Count && v.Kind() != row.IsBool {
		return fmt.Errorf("%s wants a condition, the value is of type %s", f, v.Kind())
	}
	if (f == Sum || f == Avg) && !v.IsNumber() {
		return fmt.Errorf("%s wants a number, the value is of type %s", f, v.Kind())
	}
	return nil
}

// add folds the arguments into acc, by way of a copy so that a refusal leaves it as it was.
func (f *fold) add(group record.KeyGroup, r *record.Record, acc []byte) error {
	f.acc = append(f.acc[:0], acc...)
	if f.opts.OnCheckpoint {
		binary.BigEndian.PutUint64(f.acc, uint64(r.Timestamp))
	}
	for _, i := range f.order {
		p := &f.parts[i]
		if f.args[i].IsNull() {
			continue
		}
		if err := p.add(f, f.acc[p.at:p.at+p.size()], group, r.Key, f.args[i]); err != nil {
			return fmt.Errorf("%s: %w", f.opts.Columns[i].Name, err)
		}
	}
	copy(acc, f.acc)
	return nil
}

// row builds the row of a key in the memory of b.
func (f *fold) row(b *record.Batch, group record.KeyGroup, key, acc []byte) ([]byte, error) {
	for i := range f.parts {
		p := &f.parts[i]
		v, err := p.result(acc[p.at:p.at+p.size()], group, key)
		if err != nil {
			return nil, step.Fatal(err)
		}
		f.results[i] = v
	}
	var err error
	if f.buf, err = f.schema.Append(f.buf[:0], f.results); err != nil {
		return nil, err
	}
	return format.Copy(b, f.buf), nil
}

// emit appends a row for every key that changed since the last barrier.
func (f *fold) emit(b *record.Batch) error {
	return f.table.Changed(func(group record.KeyGroup, key, acc []byte) error {
		if len(acc) != f.size {
			return fmt.Errorf("the state of key %q has %d bytes, want %d", key, len(acc), f.size)
		}
		value, err := f.row(b, group, key, acc)
		if err != nil {
			return err
		}
		b.Records = append(b.Records, record.Record{
			Key: format.Copy(b, key), Value: value, Group: group, Offset: -1, Partition: -1, Source: -1,
			Timestamp: int64(binary.BigEndian.Uint64(acc)),
		})
		return nil
	})
}

// composite is the key under which count_distinct remembers a value of a key.
func composite(dst, key []byte, v row.Value) ([]byte, error) {
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = append(dst, key...)
	return v.AppendJSON(dst)
}

// less orders any two values: numbers by size, strings and composed values by their bytes, unlike kinds by kind.
func less(a, b row.Value) bool {
	switch {
	case a.Kind() == row.IsInt && b.Kind() == row.IsInt:
		return a.Int() < b.Int()
	case a.IsNumber() && b.IsNumber():
		return a.Float() < b.Float()
	case a.Kind() != b.Kind():
		return a.Kind() < b.Kind()
	case a.Kind() == row.IsBool:
		return !a.Bool() && b.Bool()
	}
	return bytes.Compare(a.Text(), b.Text()) < 0
}
