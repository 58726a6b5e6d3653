package format

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/lazyjson"
	"github.com/weirstream/weir/topology/row"
)

// Encoder turns the values of a stream into the format of a topic. It belongs to one goroutine. Tombstones stay
// tombstones.
type Encoder struct {
	shape Shape
	// names are the quoted names of the columns with the punctuation around them, for JSON objects.
	names  [][]byte
	encode func(value []byte) ([]byte, error)
	// lenient writes null for what JSON has no form for.
	lenient bool
	buf     []byte
}

// NewRejectEncoder returns an encoder from rows to JSON that takes every row: what JSON has no form for becomes null.
func NewRejectEncoder(from Shape) *Encoder {
	e := &Encoder{shape: from, lenient: true}
	e.nameColumns()
	e.encode = e.object
	return e
}

// NewEncoder returns an encoder from values of shape from to format to, or an error that says why there is none. It
// returns nil where the bytes can stay as they are.
func NewEncoder(from Shape, to Format) (*Encoder, error) {
	e := &Encoder{shape: from}
	if from.Format == Row {
		return e.fromRow(to)
	}
	switch {
	case from.Format == to, to == Raw, to == String && from.Format != Int64:
		return nil, nil
	case to == JSON && from.Format == String:
		e.encode = e.quote
	case from.Format == Int64: // to JSON or to String
		e.encode = e.decimal
	case to == Int64 && from.Format == Raw:
		e.encode = eightBytes
	case to == Int64:
		e.encode = e.parse
	default:
		return nil, fmt.Errorf("values of format %s have no form in %s; give the source another format", from.Format, to)
	}
	return e, nil
}

func (e *Encoder) fromRow(to Format) (*Encoder, error) {
	columns := e.shape.Fields.Columns
	switch {
	case to == JSON:
		e.nameColumns()
		e.encode = e.object
	case len(columns) != 1:
		return nil, fmt.Errorf("a row of %d columns has no form in %s, only in json", len(columns), to)
	case to == Int64 && columns[0].Type == row.Int:
		e.encode = e.slot
	case to == Int64 && columns[0].Type == row.Any:
		e.encode = e.columnInt
	case to == Int64:
		return nil, fmt.Errorf("column %s is of type %s, and int64 holds an int", columns[0].Name, columns[0].Type)
	default:
		e.encode = e.columnText
	}
	return e, nil
}

func (e *Encoder) nameColumns() {
	for i, c := range e.shape.Fields.Columns {
		lead := byte(',')
		if i == 0 {
			lead = '{'
		}
		e.names = append(e.names, append(lazyjson.AppendQuoted([]byte{lead}, []byte(c.Name)), ':'))
	}
}

// Apply encodes the value of r. An error is a fault of the record.
func (e *Encoder) Apply(b *record.Batch, r *record.Record) (keep bool, err error) {
	if r.Value == nil {
		return true, nil
	}
	value, err := e.encode(r.Value)
	if err != nil {
		return false, err
	}
	if len(value) > 0 && len(e.buf) > 0 && &value[0] == &e.buf[0] {
		value = Copy(b, value)
	}
	r.Value = value
	return true, nil
}

// Copy returns a copy of text that lives as long as the results of b. It is never nil, which would make a tombstone.
func Copy(b *record.Batch, text []byte) []byte {
	if len(text) == 0 {
		return []byte{}
	}
	c := b.Alloc(len(text))
	copy(c, text)
	return c
}

func (e *Encoder) quote(value []byte) ([]byte, error) {
	e.buf = lazyjson.AppendQuoted(e.buf[:0], value)
	return e.buf, nil
}

func (e *Encoder) decimal(value []byte) ([]byte, error) {
	if _, err := eightBytes(value); err != nil {
		return nil, err
	}
	var err error
	e.buf, err = row.OfInt(int64(binary.BigEndian.Uint64(value))).AppendJSON(e.buf[:0])
	return e.buf, err
}

func eightBytes(value []byte) ([]byte, error) {
	if len(value) != 8 {
		return nil, fmt.Errorf("the value has %d bytes, an int64 has 8", len(value))
	}
	return value, nil
}

func (e *Encoder) parse(value []byte) ([]byte, error) {
	v, err := row.ParseText(value, row.Int)
	if err != nil {
		return nil, err
	}
	return e.putInt(v)
}

func (e *Encoder) putInt(v row.Value) ([]byte, error) {
	if v.IsNull() {
		return nil, nil
	}
	v, err := v.As(row.Int)
	e.buf = binary.BigEndian.AppendUint64(e.buf[:0], uint64(v.Int()))
	return e.buf, err
}

// slot is the fast path of counts: the column's bytes are the int64 already.
func (e *Encoder) slot(value []byte) ([]byte, error) { return e.shape.Fields.Slot(value, 0) }

func (e *Encoder) columnInt(value []byte) ([]byte, error) {
	v, err := e.shape.Fields.Get(value, 0)
	if err != nil {
		return nil, err
	}
	return e.putInt(v)
}

func (e *Encoder) columnText(value []byte) ([]byte, error) {
	v, err := e.shape.Fields.Get(value, 0)
	if err != nil || v.IsNull() {
		return nil, err
	}
	e.buf, err = v.AppendText(e.buf[:0])
	if len(e.buf) == 0 {
		return []byte{}, err // no text is not the same as none, which is a tombstone
	}
	return e.buf, err
}

func (e *Encoder) object(value []byte) ([]byte, error) {
	e.buf = e.buf[:0]
	for i := range e.names {
		v, err := e.shape.Fields.Get(value, i)
		if err != nil {
			return nil, err
		}
		e.buf = append(e.buf, e.names[i]...)
		with, err := v.AppendJSON(e.buf)
		switch {
		case err == nil:
			e.buf = with
		case e.lenient:
			e.buf = append(e.buf, "null"...)
		default:
			return nil, fmt.Errorf("%s: %w", e.shape.Fields.Columns[i].Name, err)
		}
	}
	e.buf = append(e.buf, '}')
	return e.buf, nil
}

// AppendValue appends one value that is not null as the value of a record of format f.
func AppendValue(dst []byte, v row.Value, f Format) ([]byte, error) {
	switch f {
	case JSON:
		return v.AppendJSON(dst)
	case Int64:
		v, err := v.As(row.Int)
		return binary.BigEndian.AppendUint64(dst, uint64(v.Int())), err
	}
	return v.AppendText(dst)
}

// OfType is the format in which a single value of type t is kept.
func OfType(t row.Type) Format {
	switch t {
	case row.String:
		return String
	case row.Int:
		return Int64
	}
	return JSON
}
