package format

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/row"
)

// long is n as an int64 value.
func long(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func rowShape(columns ...row.Column) Shape {
	return Shape{Format: Row, Fields: row.Schema{Columns: columns}}
}

func packed(t *testing.T, s Shape, values ...row.Value) []byte {
	t.Helper()
	p, err := s.Fields.Append(nil, values)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEncode(t *testing.T) {
	count := rowShape(row.Column{Name: "n", Type: row.Int})
	word := rowShape(row.Column{Name: "w", Type: row.String})
	number := rowShape(row.Column{Name: "x", Type: row.Any})
	wide := rowShape(row.Column{Name: "n", Type: row.Int}, row.Column{Name: `q"`, Type: row.String}, row.Column{Name: "x", Type: row.Any})
	for name, c := range map[string]struct {
		from Shape
		to   Format
		in   []byte
		want []byte
	}{
		"string to json":     {Shape{Format: String}, JSON, []byte("a\"b"), []byte(`"a\"b"`)},
		"int64 to json":      {Shape{Format: Int64}, JSON, long(-7), []byte("-7")},
		"int64 to string":    {Shape{Format: Int64}, String, long(math.MaxInt64), []byte("9223372036854775807")},
		"string to int64":    {Shape{Format: String}, Int64, []byte("12"), long(12)},
		"json to int64":      {Shape{Format: JSON}, Int64, []byte("12"), long(12)},
		"raw to int64":       {Shape{Format: Raw}, Int64, long(3), long(3)},
		"count to int64":     {count, Int64, packed(t, count, row.OfInt(300)), long(300)},
		"null to int64":      {count, Int64, packed(t, count, row.Value{}), nil},
		"number to int64":    {number, Int64, packed(t, number, row.OfInt(5)), long(5)},
		"null any to int64":  {number, Int64, packed(t, number, row.Value{}), nil},
		"column to string":   {word, String, packed(t, word, row.OfString("w")), []byte("w")},
		"number to string":   {count, String, packed(t, count, row.OfInt(-1)), []byte("-1")},
		"column to raw":      {word, Raw, packed(t, word, row.OfString("")), []byte{}},
		"null column to raw": {word, Raw, packed(t, word, row.Value{}), nil},
		"row to json": {wide, JSON, packed(t, wide, row.OfInt(1), row.OfString("é"), row.Value{}),
			[]byte(`{"n":1,"q\"":"é","x":null}`)},
		"tombstone": {wide, JSON, nil, nil},
	} {
		e, err := NewEncoder(c.from, c.to)
		if err != nil || e == nil {
			t.Errorf("%s: no encoder, %v", name, err)
			continue
		}
		r := record.Record{Value: c.in}
		keep, err := e.Apply(&record.Batch{}, &r)
		if err != nil || !keep || !bytes.Equal(r.Value, c.want) || (r.Value == nil) != (c.want == nil) {
			t.Errorf("%s: %q, %v, want %q", name, r.Value, err, c.want)
		}
	}
}

func TestBytesThatStay(t *testing.T) {
	for _, c := range []conversion{{Raw, Raw}, {JSON, JSON}, {JSON, String}, {String, Raw}, {Int64, Raw}, {Raw, String}, {Int64, Int64}} {
		if e, err := NewEncoder(Shape{Format: c.from}, c.to); e != nil || err != nil {
			t.Errorf("%s to %s: encoder %v, error %v; want neither", c.from, c.to, e, err)
		}
	}
}

type conversion struct{ from, to Format }

func TestFormsThatAreNot(t *testing.T) {
	wide := rowShape(row.Column{Name: "a", Type: row.Int}, row.Column{Name: "b", Type: row.Int})
	for _, c := range []struct {
		from Shape
		to   Format
	}{{Shape{Format: Raw}, JSON}, {wide, Int64}, {wide, String}, {rowShape(row.Column{Name: "a", Type: row.Float}), Int64}} {
		if e, err := NewEncoder(c.from, c.to); err == nil {
			t.Errorf("%s to %s: %v, want an error", c.from.Format, c.to, e)
		}
	}
}

func TestFaultsOfRecords(t *testing.T) {
	number := rowShape(row.Column{Name: "x", Type: row.Any})
	float := rowShape(row.Column{Name: "x", Type: row.Float})
	for name, c := range map[string]struct {
		from Shape
		to   Format
		in   []byte
	}{
		"seven bytes": {Shape{Format: Int64}, JSON, make([]byte, 7)}, "nine raw bytes": {Shape{Format: Raw}, Int64, make([]byte, 9)},
		"text": {Shape{Format: String}, Int64, []byte("x")}, "empty text": {Shape{Format: String}, Int64, []byte{}},
		"a fraction": {number, Int64, packed(t, number, row.OfFloat(1.5))}, "NaN": {float, JSON, packed(t, float, row.OfFloat(math.NaN()))},
		"half a row": {float, JSON, []byte{1, 2}},
	} {
		e, err := NewEncoder(c.from, c.to)
		if err != nil {
			t.Fatal(err)
		}
		r := record.Record{Value: c.in}
		if keep, err := e.Apply(&record.Batch{}, &r); err == nil || keep {
			t.Errorf("%s became %q", name, r.Value)
		}
	}
	r := record.Record{Value: packed(t, float, row.OfFloat(math.NaN()))}
	if _, err := NewRejectEncoder(float).Apply(&record.Batch{}, &r); err != nil || string(r.Value) != `{"x":null}` {
		t.Errorf("a rejected NaN is %s, %v", r.Value, err)
	}
}
