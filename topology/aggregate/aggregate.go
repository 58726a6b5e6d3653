// Package aggregate holds the keyed operator that folds records into one row per key: count, sum, min, max, avg, first,
// last, count_distinct, several at once.
//
// The accumulators of a key lie next to each other in one value of fixed size, which the state hands out for change in
// place. What has no fixed size goes into tables of its own: text that is first, last, least or greatest, and the values
// that count_distinct has seen. Null arguments are left out, as in SQL; tombstones are passed over.
package aggregate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/expression"
	"github.com/weirstream/weir/topology/row"
	"github.com/weirstream/weir/topology/step"
)

// Table is the keyed state that the operator needs; topology.Table tells the contract.
type Table interface {
	Upsert(group record.KeyGroup, key []byte, size int) (value []byte, found bool, err error)
	Get(group record.KeyGroup, key []byte) (value []byte, found bool, err error)
	Put(group record.KeyGroup, key, value []byte) error
	Warm(records []record.Record) int
	Changed(f func(group record.KeyGroup, key, value []byte) error) error
}

// Column is one result.
type Column struct {
	Name     string
	Function Function
	// Argument is nil for count().
	Argument *expression.Program
}

// Schema returns the columns of the resulting rows.
func Schema(columns []Column) row.Schema {
	var s row.Schema
	for _, c := range columns {
		s.Columns = append(s.Columns, row.Column{Name: c.Name, Type: c.Function.result(c.Argument)})
	}
	return s
}

// Options are what an operator is built from.
type Options struct {
	Columns []Column
	// Frame runs the arguments.
	Frame *expression.Frame
	// OnCheckpoint emits the last row of each key at a checkpoint, instead of a row for every record.
	OnCheckpoint bool
	// Group returns the key group of a record.
	Group func(*record.Record) record.KeyGroup
	// Open opens a table by name.
	Open func(name string) (Table, error)
	// Reject applies the on_error policy.
	Reject step.Reject
}

// Operator implements topology.Operator.
type Operator struct {
	*step.Each
	fold *fold
}

// Layout describes the bytes that the state of columns consists of: state written under another layout does not fit.
func Layout(columns []Column, onCheckpoint bool) string {
	var b strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&b, "%s=%s;", c.Name, c.Function)
	}
	if onCheckpoint {
		b.WriteString("time")
	}
	return b.String()
}

// New returns the operator. Counting alone has a way of its own, with the same state.
func New(o Options) (*Operator, error) {
	f := &fold{opts: o, schema: Schema(o.Columns)}
	if err := f.open(); err != nil {
		return nil, err
	}
	var apply step.Func = f
	if len(o.Columns) == 1 && o.Columns[0].Function == Count && o.Columns[0].Argument == nil && !o.OnCheckpoint {
		apply = &counter{table: f.table, group: o.Group}
	}
	return &Operator{Each: step.NewEach(apply, o.Reject), fold: f}, nil
}

// Barrier emits the rows of the keys that changed since the last barrier, where they are emitted at checkpoints.
func (o *Operator) Barrier(_ record.CheckpointID, b *record.Batch) error {
	if !o.fold.opts.OnCheckpoint {
		return nil
	}
	return o.fold.emit(b)
}

var errNoKey = errors.New("the record has no key, and an aggregate needs one")

// counter is count() alone, the operator that must cost next to nothing.
type counter struct {
	table Table
	group func(*record.Record) record.KeyGroup
}

// Ahead implements step.Ahead.
func (c *counter) Ahead(records []record.Record) int { return ahead(c.table, c.group, records) }

// groupsAhead is how many key groups are computed before the table is told of the records.
const groupsAhead = 32

func ahead(table Table, group func(*record.Record) record.KeyGroup, records []record.Record) int {
	records = records[:min(len(records), groupsAhead)]
	for i := range records {
		if records[i].Key != nil {
			group(&records[i])
		}
	}
	return table.Warm(records)
}

// Apply implements step.Func.
func (c *counter) Apply(b *record.Batch, r *record.Record) (bool, error) {
	if r.Value == nil {
		return false, nil
	}
	if r.Key == nil {
		return false, errNoKey
	}
	acc, _, err := c.table.Upsert(c.group(r), r.Key, countSize)
	if err != nil {
		return false, step.Fatal(err)
	}
	n := binary.BigEndian.Uint64(acc) + 1
	binary.BigEndian.PutUint64(acc, n)
	r.Value = b.Alloc(1 + countSize) // a row of one column: the bit that says not null, and the count
	r.Value[0] = 1
	binary.BigEndian.PutUint64(r.Value[1:], n)
	return true, nil
}
