package row

import (
	"fmt"
	"unsafe"

	"github.com/weirstream/weir/topology/lazyjson"
)

// decode builds the Go value of a JSON text whose structure has been checked, with ints where FromJSON would see them
// (encoding/json makes every number a float64, which loses large ids).
func decode(raw []byte) any {
	switch raw[0] {
	case '{':
		return decodeObject(raw)
	case '[':
		list := []any{}
		// The text has been checked when the record was scanned: there is no error to see.
		_ = lazyjson.Elements(raw, func(e []byte) error {
			list = append(list, decode(e))
			return nil
		})
		return list
	}
	v, err := FromJSON(raw)
	if err != nil {
		return nil
	}
	return v.Go()
}

func decodeObject(raw []byte) map[string]any {
	m := map[string]any{}
	_ = lazyjson.Members(raw, func(name, value []byte) error {
		m[string(name)] = decode(value)
		return nil
	})
	return m
}

// ParseText reads the value of type t that AppendText wrote.
func ParseText(text []byte, t Type) (Value, error) {
	if t == String || t == Any {
		return OfText(text), nil
	}
	s := unsafe.String(unsafe.SliceData(text), len(text))
	if t == Bool && (s == "true" || s == "false") {
		return OfBool(s == "true"), nil
	}
	if t == Bool || len(text) == 0 {
		return Value{}, fmt.Errorf("%q is no %s", text, t)
	}
	v, err := number(text)
	if err == nil {
		v, err = v.As(t)
	}
	return v, err
}

// As checks that v is of type t, and turns an int into a float where t asks for one. Null is of every type.
func (v Value) As(t Type) (Value, error) {
	switch {
	case t == Any, v.kind == Null,
		t == Bool && v.kind == IsBool, t == Int && v.kind == IsInt,
		t == Float && v.kind == IsFloat, t == String && v.kind == IsString:
		return v, nil
	case t == Float && v.kind == IsInt:
		return OfFloat(v.Float()), nil
	}
	return Value{}, fmt.Errorf("the value is of type %s, want %s", v.kind, t)
}
