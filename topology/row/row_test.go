package row

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func anyValue(t Type) *rapid.Generator[Value] {
	text := rapid.Custom(func(t *rapid.T) Value { return OfText([]byte(rapid.String().Draw(t, "text"))) })
	ints := rapid.Custom(func(t *rapid.T) Value { return OfInt(rapid.Int64().Draw(t, "int")) })
	floats := rapid.Custom(func(t *rapid.T) Value { return OfFloat(rapid.Float64Range(-1e300, 1e300).Draw(t, "float")) })
	bools := rapid.Custom(func(t *rapid.T) Value { return OfBool(rapid.Bool().Draw(t, "bool")) })
	null := rapid.Just(Value{})
	switch t {
	case Bool:
		return rapid.OneOf(bools, null)
	case Int:
		return rapid.OneOf(ints, null)
	case Float:
		return rapid.OneOf(floats, null)
	case String:
		return rapid.OneOf(text, null)
	}
	list := rapid.Just(Value{kind: IsJSON, text: []byte(`{"a":[1,"x"]}`)})
	return rapid.OneOf(text, ints, bools, null, list)
}

// same compares values; a float that is a whole number comes back from JSON as an int.
func same(a, b Value) bool {
	if a.IsNumber() && b.IsNumber() {
		return a.Float() == b.Float()
	}
	return a.kind == b.kind && a.bits == b.bits && bytes.Equal(a.text, b.text)
}

func TestRowRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Schema
		var values []Value
		for range rapid.IntRange(1, 20).Draw(t, "columns") {
			typ := Type(rapid.IntRange(0, int(String)).Draw(t, "type"))
			s.Columns = append(s.Columns, Column{Name: "c", Type: typ})
			values = append(values, anyValue(typ).Draw(t, "value"))
		}
		prefix := []byte("before")
		row, err := s.Append(prefix, values)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range values {
			got, err := s.Get(row[len(prefix):], i)
			if err != nil || !same(got, want) {
				t.Fatalf("column %d (%s) is %v, %v, want %v", i, s.Columns[i].Type, got, err, want)
			}
		}
	})
}

func TestRowRefuses(t *testing.T) {
	s := Schema{Columns: []Column{{"n", Int}, {"s", String}}}
	var column *ColumnError
	if _, err := s.Append(nil, []Value{OfString("x"), {}}); !errors.As(err, &column) || column.Column != "n" {
		t.Errorf("a string in an int column: %v", err)
	}
	row, err := s.Append(nil, []Value{OfInt(1), OfString("long text")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(row[:10], 0); err == nil {
		t.Error("a row cut within its columns was read")
	}
	if _, err := s.Get(row[:len(row)-1], 1); err == nil {
		t.Error("a row cut within its tail was read")
	}
}

func TestFromJSON(t *testing.T) {
	for raw, want := range map[string]Value{
		`12`: OfInt(12), `-12`: OfInt(-12), `9223372036854775807`: OfInt(math.MaxInt64), `-9223372036854775808`: OfInt(math.MinInt64),
		`9223372036854775808`: OfFloat(9223372036854775808), `1.5`: OfFloat(1.5), `1e2`: OfFloat(100), `true`: OfBool(true),
		`false`: OfBool(false), `null`: {}, ``: {}, `"a\tb"`: OfString("a\tb"), `"é"`: OfString("é"), `-0`: OfInt(0),
	} {
		got, err := FromJSON([]byte(raw))
		if err != nil || got.kind != want.kind || !same(got, want) {
			t.Errorf("FromJSON(%s) = %v, %v, want %v", raw, got, err, want)
		}
	}
	if v, err := FromJSON([]byte(`1e999`)); err == nil {
		t.Errorf("1e999 is %v, want an error", v)
	}
}

func TestGoKeepsLargeInts(t *testing.T) {
	v, err := FromJSON([]byte(`{"id":9007199254740993,"list":[1,{"a":null}],"s":"\u0041"}`))
	if err != nil {
		t.Fatal(err)
	}
	m, ok := v.Go().(map[string]any)
	if !ok || m["id"] != 9007199254740993 || m["s"] != "A" {
		t.Fatalf("decoded as %v", v.Go())
	}
	text, err := json.Marshal(m)
	if err != nil || string(text) != `{"id":9007199254740993,"list":[1,{"a":null}],"s":"A"}` {
		t.Errorf("written as %s, %v", text, err)
	}
}

func TestFloatsInJSON(t *testing.T) {
	for _, f := range []float64{0, 1, -1.5, 1e-7, 1e21, 123456789.125, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		text, err := OfFloat(f).AppendJSON(nil)
		var back float64
		if err != nil || json.Unmarshal(text, &back) != nil || back != f {
			t.Errorf("%v is written as %s, %v", f, text, err)
		}
	}
	if text, err := OfFloat(math.NaN()).AppendJSON(nil); err == nil {
		t.Errorf("NaN is written as %s", text)
	}
}

func TestFixed(t *testing.T) {
	for _, v := range []Value{{}, OfBool(true), OfInt(-7), OfFloat(2.5), OfString("x")} {
		buf := make([]byte, FixedSize)
		v.PutFixed(buf)
		if got := Fixed(buf, v.text); !same(got, v) {
			t.Errorf("%v is kept as %v", v, got)
		}
	}
}

func TestParseText(t *testing.T) {
	for _, c := range []struct {
		text string
		t    Type
		want Value
	}{{"5", Int, OfInt(5)}, {"5", Float, OfFloat(5)}, {"5", String, OfString("5")}, {"true", Bool, OfBool(true)}} {
		if got, err := ParseText([]byte(c.text), c.t); err != nil || !same(got, c.want) || got.kind != c.want.kind {
			t.Errorf("ParseText(%s, %s) = %v, %v", c.text, c.t, got, err)
		}
	}
	for _, c := range []struct {
		text string
		t    Type
	}{{"", Int}, {"x", Int}, {"1.5", Int}, {"yes", Bool}, {"", Float}, {"0x1", Int}, {"-", Int}} {
		if got, err := ParseText([]byte(c.text), c.t); err == nil {
			t.Errorf("ParseText(%q, %s) = %v, want an error", c.text, c.t, got)
		}
	}
}
