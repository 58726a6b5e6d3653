package expression

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/row"
)

func topicName(int32) string { return "views" }

// evaluate runs one expression over one record.
func evaluate(t testing.TB, shape format.Shape, source string, r record.Record) (row.Value, *Program, error) {
	t.Helper()
	s := NewScope(shape)
	p, err := s.Compile(source)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	f := s.Frame(topicName)
	f.Load(&r)
	v, err := p.Eval(f)
	return v, p, err
}

func show(v row.Value) string {
	text, err := v.AppendJSON(nil)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

const doc = `{"page":"/a","status":200,"ms":12.5,"ok":true,"gone":null,"user":{"name":"Ann","tags":["x","y"]},"key":"hidden"}`

func TestJSON(t *testing.T) {
	r := record.Record{Key: []byte("k1"), Value: []byte(doc), Timestamp: 1700000000000, Partition: 3, Offset: 42,
		Headers: []record.Header{{Key: []byte("trace"), Value: []byte("t1")}}}
	for source, want := range map[string]string{
		`status == 200 && page != ""`: "true", `status == 200.0`: "true", `status / 8`: "25", `status % 7`: "4",
		`ms * 2`: "25", `-status`: "-200", `missing == nil`: "true", `gone ?? "none"`: `"none"`, `page + "/b"`: `"/a/b"`,
		`page startsWith "/" and not (status > 300)`: "true", `key`: `"k1"`, `value.key`: `"hidden"`, `topic`: `"views"`,
		`partition + offset`: "45", `timestamp`: "1700000000000", `headers["trace"]`: `"t1"`, `headers["none"]`: `""`,
		`user.name`: `"Ann"`, `user.tags[1]`: `"y"`, `upper(page)`: `"/A"`, `len(user.tags)`: "2", `ok ? 1 : "no"`: "1",
		`page in ["/a", "/b"]`: "true", `user.tags`: `["x","y"]`, `{"p": page, "n": status}`: `{"n":200,"p":"/a"}`,
		`let x = status; x + 1`: "201", `value.user.name`: `"Ann"`, `any(user.tags, # == "y")`: "true", `missing contains "x"`: "false",
		`status`: "200", `ms`: "12.5", `"lit"`: `"lit"`, `page matches "^/[a-z]$"`: "true", `value["page"]`: `"/a"`,
	} {
		v, _, err := evaluate(t, format.Shape{Format: format.JSON}, source, r)
		if got := show(v); err != nil || got != want {
			t.Errorf("%s = %s, %v; want %s", source, got, err, want)
		}
	}
}

func TestFaultsOfRecords(t *testing.T) {
	r := record.Record{Value: []byte(doc)}
	for source, want := range map[string]string{
		`page > 5`: "type string cannot be compared with one of type int", `gone > 5`: "type null", `status && ok`: "want bool",
		`status % 0`: "by zero", `page - 1`: "no - of", `len(gone)`: "len(gone): invalid argument for len (type <nil>)",
	} {
		if v, _, err := evaluate(t, format.Shape{Format: format.JSON}, source, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %s, %v; want an error with %q", source, show(v), err, want)
		}
	}
	r.Value = []byte(`{"page":`)
	if _, _, err := evaluate(t, format.Shape{Format: format.JSON}, `page == ""`, r); err == nil {
		t.Error("a damaged document went unnoticed")
	}
	declared := format.Shape{Format: format.JSON, Fields: row.Schema{Columns: []row.Column{{Name: "page", Type: row.Int}}}}
	r.Value = []byte(doc)
	if _, _, err := evaluate(t, declared, `page == 1`, r); err == nil || !strings.Contains(err.Error(), "field page") {
		t.Errorf("a string in a field declared as int: %v", err)
	}
}

func TestShapes(t *testing.T) {
	schema := row.Schema{Columns: []row.Column{{Name: "n", Type: row.Int}, {Name: "s", Type: row.String}, {Name: "x", Type: row.Any}}}
	packed, err := schema.Append(nil, []row.Value{row.OfInt(7), row.OfString("seven"), row.OfFloat(0.5)})
	if err != nil {
		t.Fatal(err)
	}
	rows := format.Shape{Format: format.Row, Fields: schema, Key: row.Column{Name: "account", Type: row.Int}}
	for _, c := range []struct {
		shape        format.Shape
		value        []byte
		source, want string
	}{
		{rows, packed, `n * 2`, "14"}, {rows, packed, `s + "!"`, `"seven!"`}, {rows, packed, `x > 0.25`, "true"},
		{rows, packed, `account + 1`, "13"}, {rows, packed, `value.s`, `"seven"`}, {rows, packed, `len(value)`, "3"},
		{rows, nil, `n == nil`, "true"}, {rows, packed, `let y = n; y`, "7"}, {rows, packed, `upper(s)`, `"SEVEN"`},
		{format.Shape{Format: format.Raw}, []byte("abc"), `value == "abc"`, "true"},
		{format.Shape{Format: format.String}, []byte("abc"), `len(value)`, "3"},
		{format.Shape{Format: format.String}, nil, `value == nil`, "true"},
		{format.Shape{Format: format.Int64}, binary.BigEndian.AppendUint64(nil, 41), `value + 1`, "42"},
		{format.Shape{Format: format.Int64}, nil, `value == nil`, "true"},
		{format.Shape{Format: format.JSON}, nil, `value == nil && page == nil`, "true"},
		{format.Shape{Format: format.JSON}, []byte(` [1,2] `), `value[1]`, "2"},
	} {
		v, _, err := evaluate(t, c.shape, c.source, record.Record{Key: []byte("12"), Value: c.value})
		if got := show(v); err != nil || got != c.want {
			t.Errorf("%s over %s %q = %s, %v; want %s", c.source, c.shape.Format, c.value, got, err, c.want)
		}
	}
}

func TestTypes(t *testing.T) {
	shape := format.Shape{Format: format.JSON, Fields: row.Schema{Columns: []row.Column{
		{Name: "n", Type: row.Int}, {Name: "f", Type: row.Float}, {Name: "s", Type: row.String}, {Name: "b", Type: row.Bool},
		{Name: "x", Type: row.Any},
	}}}
	for source, want := range map[string]row.Type{
		"n": row.Int, "f": row.Float, "s": row.String, "b": row.Bool, "n + 1": row.Int, "n / 2": row.Float, "n > 1": row.Bool,
		"upper(s)": row.String, "[1]": row.Any, "x": row.Any, "timestamp": row.Int, "key": row.String, "n * f": row.Float,
		"b ? n : s": row.Any, "headers": row.Any, "x + 1": row.Any,
	} {
		p, err := NewScope(shape).Compile(source)
		if err != nil || p.Type() != want {
			t.Errorf("%s: %v, %v, want %s", source, p, err, want)
		}
	}
}

func TestFaultsOfExpressions(t *testing.T) {
	shape := format.Shape{Format: format.JSON, Fields: row.Schema{Columns: []row.Column{
		{Name: "page", Type: row.String}, {Name: "status", Type: row.Int},
	}}}
	for _, c := range []struct {
		source       string
		line, column int
		want         string
	}{
		{`pge == ""`, 1, 1, "unknown name pge, did you mean page?"},
		{`status == 200 && usr`, 1, 18, "unknown name usr"},
		{`status == "ok"`, 1, 8, "mismatched types int and string"},
		{`page > `, 1, 7, "unexpected token EOF"},
		{"page != \"\" &&\n  stats > 5", 2, 3, "did you mean status?"},
		{``, 1, 1, "unexpected token EOF"},
		{`upper(status)`, 1, 7, "cannot use int as argument"},
		{`nope(page)`, 1, 1, "unknown name nope"},
	} {
		_, err := NewScope(shape).Compile(c.source)
		var f *CompileError
		if !errors.As(err, &f) || f.Line != c.line || f.Column != c.column || !strings.Contains(f.Message, c.want) {
			t.Errorf("%q: %d:%d %v, want %d:%d with %q", c.source, f.Line, f.Column, err, c.line, c.column, c.want)
		}
	}
}

// source draws an expression that closures can run.
func source(t *rapid.T, depth int) string {
	if depth == 0 {
		return rapid.SampledFrom([]string{
			"page", "status", "ms", "ok", "gone", "missing", "200", "0", "-3", "12.5", `"/a"`, `""`, "true", "false", "nil", "offset", "key",
		}).Draw(t, "leaf")
	}
	sub := func() string { return source(t, rapid.IntRange(0, depth-1).Draw(t, "depth")) }
	switch rapid.IntRange(0, 9).Draw(t, "form") {
	case 0:
		return "not (" + sub() + ")"
	case 1:
		return "-(" + sub() + ")"
	case 2:
		return "((" + sub() + ") ? (" + sub() + ") : (" + sub() + "))"
	}
	operator := rapid.SampledFrom([]string{
		"==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "and", "or", "??", "contains", "startsWith", "endsWith",
	}).Draw(t, "operator")
	return "(" + sub() + " " + operator + " " + sub() + ")"
}

// TestClosuresAgreeWithMachine runs random expressions both ways: the results are the same, or both are errors. Closures may
// be stricter about conditions.
func TestClosuresAgreeWithMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := source(t, 3)
		s := NewScope(format.Shape{Format: format.JSON})
		p, err := s.Compile(text)
		if err != nil || p.native == nil {
			return
		}
		f := s.Frame(topicName)
		f.Load(&record.Record{Key: []byte("k"), Value: []byte(doc), Offset: 7})
		closure, closureErr := p.native(f)
		machine, machineErr := p.run(f)
		var strict *conditionError
		if errors.As(closureErr, &strict) && machineErr == nil {
			return
		}
		if (closureErr == nil) != (machineErr == nil) {
			t.Fatalf("%s: closures %s, %v; machine %s, %v", text, show(closure), closureErr, show(machine), machineErr)
		}
		if closureErr == nil && (show(closure) != show(machine) || closure.Kind() != machine.Kind()) {
			t.Fatalf("%s: closures %s (%s), machine %s (%s)", text, show(closure), closure.Kind(), show(machine), machine.Kind())
		}
	})
}

func TestClosuresAllocateNothing(t *testing.T) {
	for _, text := range []string{`status == 200 && page != ""`, `page`, `ms * 2 > 20 or page startsWith "/b"`, `value.key == key`} {
		s := NewScope(format.Shape{Format: format.JSON})
		p, err := s.Compile(text)
		if err != nil || p.native == nil {
			t.Fatalf("%s does not run as closures: %v", text, err)
		}
		f := s.Frame(topicName)
		r := &record.Record{Key: []byte("k"), Value: []byte(doc)}
		if n := testing.AllocsPerRun(100, func() {
			f.Load(r)
			if _, err := p.Eval(f); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times for a record", text, n)
		}
	}
}

// FuzzCompile looks for expressions that break the compiler or the machine.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{`status == 200 && page != ""`, `user.tags[0]`, `map(user.tags, upper(#))`, `let a = 1; a + status`, `1..3`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, shape := range []format.Shape{{Format: format.JSON}, {Format: format.Raw}} {
			s := NewScope(shape)
			p, err := s.Compile(text)
			if err != nil {
				var fault *CompileError
				if !errors.As(err, &fault) || fault.Line < 1 || fault.Column < 1 {
					t.Fatalf("%q: %v is no fault with a place", text, err)
				}
				continue
			}
			frame := s.Frame(topicName)
			frame.Load(&record.Record{Value: []byte(doc)})
			_, err = p.Eval(frame)
			_ = fmt.Sprint(err)
		}
	})
}

func BenchmarkFilter(b *testing.B) {
	s := NewScope(format.Shape{Format: format.JSON})
	p, err := s.Compile(`status == 200 && page != ""`)
	if err != nil {
		b.Fatal(err)
	}
	f := s.Frame(topicName)
	r := &record.Record{Value: []byte(doc)}
	b.ReportAllocs()
	for b.Loop() {
		f.Load(r)
		if _, err := p.Eval(f); err != nil {
			b.Fatal(err)
		}
	}
}

// TestIntsDoNotWrap: what does not fit is a fault, in closures and in the machine alike.
func TestIntsDoNotWrap(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	for _, a := range []int64{0, 1, -1, 2, -2, 3, most, least, most - 1, least + 1, 1 << 31, -1 << 32, most / 2, least / 2, 3037000499, 3037000500} {
		for _, b := range []int64{0, 1, -1, 2, -2, 3, most, least, most - 1, least + 1, 1 << 31, -1 << 32, most / 2, least / 2, 3037000499, 3037000500} {
			x, y := big.NewInt(a), big.NewInt(b)
			for operator, want := range map[string]*big.Int{
				"+": new(big.Int).Add(x, y), "-": new(big.Int).Sub(x, y), "*": new(big.Int).Mul(x, y),
			} {
				native, nativeErr := operation(operator)(row.OfInt(a), row.OfInt(b))
				machine, machineErr := checked(operator, int(a), int(b))
				if !want.IsInt64() {
					if nativeErr == nil || machineErr == nil {
						t.Errorf("%d %s %d: %v and %v, want errors", a, operator, b, native.Int(), machine)
					}
					continue
				}
				if nativeErr != nil || machineErr != nil || native.Int() != want.Int64() || machine != int(want.Int64()) {
					t.Errorf("%d %s %d = %v (%v), in the machine %v (%v), want %v", a, operator, b, native.Int(), nativeErr, machine, machineErr, want)
				}
			}
		}
	}
}

// TestTheMachineChecksInts runs what has no closures.
func TestTheMachineChecksInts(t *testing.T) {
	r := record.Record{Key: []byte("k"), Value: []byte(`{"a":1}`)}
	shape := format.Shape{Format: format.JSON}
	for source, want := range map[string]string{`int(a) + 1`: "2", `int(a) * 3 - 5`: "-2", `upper(key) + "-"`: "K-", `int(a) + 0.5`: "1.5"} {
		v, p, err := evaluate(t, shape, source, r)
		if p.native != nil {
			t.Errorf("%s has closures, so the test shows nothing", source)
		}
		if got := fmt.Sprint(v.Go()); err != nil || got != want {
			t.Errorf("%s = %s, %v, want %s", source, got, err, want)
		}
	}
	for _, source := range []string{`int(a) + 9223372036854775807`, `-9223372036854775807 - int(a) - 1`, `int(a) * 9223372036854775807 * 2`} {
		if v, _, err := evaluate(t, shape, source, r); err == nil {
			t.Errorf("%s = %v, want an error", source, v.Go())
		}
	}
}
