// Package row holds typed values and the compact binary rows of them that travel between operators in place of JSON.
package row

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unsafe"

	"github.com/weirstream/weir/topology/lazyjson"
)

// Type is what is known of a value before any record is seen.
type Type uint8

// The types. Any is a value whose type only the record tells, as in JSON.
const (
	Any Type = iota
	Bool
	Int
	Float
	String
)

var typeNames = [...]string{Any: "any", Bool: "bool", Int: "int", Float: "float", String: "string"}

// String returns the name in a pipeline file.
func (t Type) String() string { return typeNames[t] }

// TypeNames lists the names that ParseType knows.
func TypeNames() []string { return typeNames[:] }

// ParseType returns the type that a pipeline file calls name.
func ParseType(name string) (Type, bool) {
	for i, n := range typeNames {
		if n == name {
			return Type(i), true
		}
	}
	return Any, false
}

// Kind is what a value is.
type Kind uint8

// The kinds. JSON is an object or an array, kept as its text.
const (
	Null Kind = iota
	IsBool
	IsInt
	IsFloat
	IsString
	IsJSON
)

var kindNames = [...]string{Null: "null", IsBool: "bool", IsInt: "int", IsFloat: "float", IsString: "string", IsJSON: "JSON"}

// String names the kind for messages.
func (k Kind) String() string { return kindNames[k] }

// Value is one value, held without allocating. The zero Value is null. Text is a view that its maker keeps alive.
type Value struct {
	kind Kind
	bits uint64
	text []byte
}

// OfBool returns the value b.
func OfBool(b bool) Value {
	if b {
		return Value{kind: IsBool, bits: 1}
	}
	return Value{kind: IsBool}
}

// OfInt returns the value n.
func OfInt(n int64) Value { return Value{kind: IsInt, bits: uint64(n)} }

// OfFloat returns the value f.
func OfFloat(f float64) Value { return Value{kind: IsFloat, bits: math.Float64bits(f)} }

// OfText returns the string text, as a view.
func OfText(text []byte) Value { return Value{kind: IsString, text: text} }

// OfString returns the string s, as a view.
func OfString(s string) Value { return OfText(unsafe.Slice(unsafe.StringData(s), len(s))) }

// Kind tells what v is.
func (v Value) Kind() Kind { return v.kind }

// IsNull says whether v is null.
func (v Value) IsNull() bool { return v.kind == Null }

// Bool returns the value of a bool.
func (v Value) Bool() bool { return v.bits != 0 }

// Int returns the value of an int.
func (v Value) Int() int64 { return int64(v.bits) }

// Float returns the value of a float or an int.
func (v Value) Float() float64 {
	if v.kind == IsInt {
		return float64(int64(v.bits))
	}
	return math.Float64frombits(v.bits)
}

// Text returns the characters of a string, or the text of an object or array, as a view.
func (v Value) Text() []byte { return v.text }

// IsNumber says whether v is an int or a float.
func (v Value) IsNumber() bool { return v.kind == IsInt || v.kind == IsFloat }

// FromJSON reads one JSON value. Numbers without fraction and exponent that fit into 64 bits are ints. A string without
// escape sequences, an object and an array are views into raw. nil is null.
func FromJSON(raw []byte) (Value, error) {
	if len(raw) == 0 {
		return Value{}, nil
	}
	switch raw[0] {
	case '"':
		inner := raw[1 : len(raw)-1]
		if bytes.IndexByte(inner, '\\') < 0 {
			return OfText(inner), nil
		}
		text, err := lazyjson.Unquote(nil, raw)
		return OfText(text), err
	case '{', '[':
		return Value{kind: IsJSON, text: raw}, nil
	case 't', 'f':
		return OfBool(raw[0] == 't'), nil
	case 'n':
		return Value{}, nil
	}
	return number(raw)
}

// number reads a JSON number; the scanner that found raw has checked its form.
func number(raw []byte) (Value, error) {
	if n, ok := smallInt(raw); ok {
		return OfInt(n), nil
	}
	s := unsafe.String(unsafe.SliceData(raw), len(raw))
	if !bytes.ContainsAny(raw, ".eE") {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return OfInt(n), nil
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return Value{}, fmt.Errorf("%q is no number that fits into 64 bits", raw)
	}
	return OfFloat(f), nil
}

// smallInt reads up to 18 digits, which cannot overflow.
func smallInt(raw []byte) (int64, bool) {
	digits, sign := raw, int64(1)
	if raw[0] == '-' {
		digits, sign = raw[1:], -1
	}
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return sign * n, true
}

// FromGo turns a result of expr into a Value; maps, lists and other composed values become JSON.
func FromGo(x any) (Value, error) {
	switch x := x.(type) {
	case nil:
		return Value{}, nil
	case bool:
		return OfBool(x), nil
	case int:
		return OfInt(int64(x)), nil
	case int64:
		return OfInt(x), nil
	case float64:
		return OfFloat(x), nil
	case string:
		return OfString(x), nil
	}
	text, err := json.Marshal(x)
	if err != nil {
		return Value{}, fmt.Errorf("the result has no JSON form: %w", err)
	}
	return FromJSON(text)
}

// Go returns v as expr wants it: int, float64, bool, string, nil, or decoded JSON. Strings are copied.
func (v Value) Go() any {
	switch v.kind {
	case IsBool:
		return v.Bool()
	case IsInt:
		return int(v.Int())
	case IsFloat:
		return v.Float()
	case IsString:
		return string(v.text)
	case IsJSON:
		return decode(v.text)
	}
	return nil
}

// AppendJSON appends v as JSON. A float that JSON cannot write (NaN, an infinity) is an error.
func (v Value) AppendJSON(dst []byte) ([]byte, error) {
	switch v.kind {
	case IsBool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case IsInt:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case IsFloat:
		return appendFloat(dst, v.Float())
	case IsString:
		return lazyjson.AppendQuoted(dst, v.text), nil
	case IsJSON:
		return append(dst, v.text...), nil
	}
	return append(dst, "null"...), nil
}

func appendFloat(dst []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("JSON has no form for the number %v", f)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64), nil
}

// AppendText appends v as a record key or a string value shows it: strings without quotes, all else as in JSON.
func (v Value) AppendText(dst []byte) ([]byte, error) {
	if v.kind == IsString {
		return append(dst, v.text...), nil
	}
	return v.AppendJSON(dst)
}

// FixedSize is the number of bytes that PutFixed writes.
const FixedSize = 9

// PutFixed writes v but for its text into the first FixedSize bytes of dst; zeroed bytes are null.
func (v Value) PutFixed(dst []byte) {
	dst[0] = byte(v.kind)
	binary.BigEndian.PutUint64(dst[1:], v.bits)
}

// Fixed reads what PutFixed wrote, with text as the text of a string, an object or an array.
func Fixed(src, text []byte) Value {
	return Value{kind: Kind(src[0]), bits: binary.BigEndian.Uint64(src[1:]), text: text}
}
