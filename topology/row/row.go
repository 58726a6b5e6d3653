package row

import (
	"encoding/binary"
	"errors"
	"math"
)

// Column is one named value of a row.
type Column struct {
	Name string
	Type Type
}

// Schema is the columns of a row. A row is laid out as
//
//	a bit for each column, set where the value is not null, filled up to whole bytes
//	eight bytes for each column: a big endian int, the bits of a float, 0 or 1; for text two uint32, where it starts
//	  in the tail and how long it is
//	the tail: strings, and the JSON text of columns of type Any
//
// so that reading a column needs no walk over the others, and the eight bytes of an int are what Kafka's LongSerializer
// would write.
type Schema struct {
	Columns []Column
}

// Index returns the place of the column called name, -1 where there is none.
func (s *Schema) Index(name string) int {
	for i := range s.Columns {
		if s.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// FixedSize is the length in bytes of a row without its tail.
func (s *Schema) FixedSize() int { return s.slot(len(s.Columns)) }

func (s *Schema) slot(i int) int { return (len(s.Columns)+7)/8 + 8*i }

var errCorrupt = errors.New("a row between two operators is damaged: its length does not fit its columns")

// Slot returns the eight bytes of column i as a view, nil where it is null.
func (s *Schema) Slot(row []byte, i int) ([]byte, error) {
	if len(row) < s.FixedSize() {
		return nil, errCorrupt
	}
	if row[i/8]&(1<<(i%8)) == 0 {
		return nil, nil
	}
	at := s.slot(i)
	return row[at : at+8 : at+8], nil
}

// Get returns column i. Its text is a view into row.
func (s *Schema) Get(row []byte, i int) (Value, error) {
	slot, err := s.Slot(row, i)
	if err != nil || slot == nil {
		return Value{}, err
	}
	bits := binary.BigEndian.Uint64(slot)
	switch s.Columns[i].Type {
	case Bool:
		return OfBool(bits != 0), nil
	case Int:
		return OfInt(int64(bits)), nil
	case Float:
		return OfFloat(math.Float64frombits(bits)), nil
	}
	start, size := uint64(s.FixedSize())+bits>>32, bits&math.MaxUint32
	if start+size > uint64(len(row)) {
		return Value{}, errCorrupt
	}
	text := row[start : start+size : start+size]
	if s.Columns[i].Type == String {
		return OfText(text), nil
	}
	return FromJSON(text)
}

// Append appends the row of values, one for each column and of its type or null, to dst.
func (s *Schema) Append(dst []byte, values []Value) ([]byte, error) {
	start := len(dst)
	dst = append(dst, make([]byte, s.FixedSize())...)
	for i := range values {
		v, err := values[i].As(s.Columns[i].Type)
		if err != nil {
			return nil, &ColumnError{Column: s.Columns[i].Name, Cause: err}
		}
		if v.IsNull() {
			continue
		}
		dst[start+i/8] |= 1 << (i % 8)
		bits := v.bits
		if t := s.Columns[i].Type; t == String || t == Any {
			tail := len(dst)
			if dst, err = appendTail(dst, v, t); err != nil {
				return nil, &ColumnError{Column: s.Columns[i].Name, Cause: err}
			}
			bits = uint64(tail-start-s.FixedSize())<<32 | uint64(len(dst)-tail)
		}
		binary.BigEndian.PutUint64(dst[start+s.slot(i):], bits)
	}
	return dst, nil
}

func appendTail(dst []byte, v Value, t Type) ([]byte, error) {
	if t == String {
		return append(dst, v.text...), nil
	}
	return v.AppendJSON(dst)
}

// ColumnError says which column could not be written.
type ColumnError struct {
	Column string
	Cause  error
}

// Error implements error.
func (e *ColumnError) Error() string { return e.Column + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *ColumnError) Unwrap() error { return e.Cause }
