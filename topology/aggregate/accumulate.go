package aggregate

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/row"
	"github.com/weirstream/weir/topology/step"
)

var errOverflow = errors.New("the sum does not fit into 64 bits")

// add folds v, which is not null, into the bytes acc of this column.
func (p *part) add(f *fold, acc []byte, group record.KeyGroup, key []byte, v row.Value) error {
	switch p.Function {
	case Count:
		if v.Bool() {
			increment(acc)
		}
		return nil
	case Sum:
		return sum(acc, v)
	case Avg:
		increment(acc)
		total := math.Float64frombits(binary.BigEndian.Uint64(acc[countSize:])) + v.Float()
		binary.BigEndian.PutUint64(acc[countSize:], math.Float64bits(total))
		return nil
	case CountDistinct:
		return p.distinct(f, acc, group, key, v)
	}
	return p.choose(acc, group, key, v)
}

func increment(acc []byte) { binary.BigEndian.PutUint64(acc, binary.BigEndian.Uint64(acc)+1) }

// sum stays an int until a float comes.
func sum(acc []byte, v row.Value) error {
	total := row.Fixed(acc, nil)
	switch {
	case total.IsNull():
		total = v
	case total.Kind() == row.IsInt && v.Kind() == row.IsInt:
		n := total.Int() + v.Int()
		if (n > total.Int()) != (v.Int() > 0) && v.Int() != 0 {
			return errOverflow
		}
		total = row.OfInt(n)
	default:
		total = row.OfFloat(total.Float() + v.Float())
	}
	total.PutFixed(acc)
	return nil
}

func (p *part) distinct(f *fold, acc []byte, group record.KeyGroup, key []byte, v row.Value) (err error) {
	if f.buf, err = composite(f.buf[:0], key, v); err != nil {
		return err
	}
	_, found, err := p.side.Upsert(group, f.buf, 1)
	if err == nil && !found {
		increment(acc)
	}
	return step.Fatal(err)
}

// choose keeps v where it is the first, the last, the least or the greatest.
func (p *part) choose(acc []byte, group record.KeyGroup, key []byte, v row.Value) error {
	old, err := p.result(acc, group, key)
	if err != nil {
		return step.Fatal(err)
	}
	if !old.IsNull() {
		switch {
		case p.Function == First, p.Function == Min && !less(v, old), p.Function == Max && !less(old, v):
			return nil
		}
	}
	v.PutFixed(acc)
	if v.Kind() == row.IsString || v.Kind() == row.IsJSON {
		return step.Fatal(p.side.Put(group, key, v.Text()))
	}
	return nil
}

// result reads the column of a key.
func (p *part) result(acc []byte, group record.KeyGroup, key []byte) (row.Value, error) {
	switch p.Function {
	case Count, CountDistinct:
		return row.OfInt(int64(binary.BigEndian.Uint64(acc))), nil
	case Avg:
		n := binary.BigEndian.Uint64(acc)
		if n == 0 {
			return row.Value{}, nil
		}
		return row.OfFloat(math.Float64frombits(binary.BigEndian.Uint64(acc[countSize:])) / float64(n)), nil
	}
	v := row.Fixed(acc, nil)
	if v.Kind() != row.IsString && v.Kind() != row.IsJSON {
		return v, nil
	}
	text, _, err := p.side.Get(group, key)
	return row.Fixed(acc, text), err
}
