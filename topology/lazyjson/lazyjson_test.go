package lazyjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestFields(t *testing.T) {
	const doc = ` { "a" : 1 , "b":{"a":[2,{"a":3}]}, "c\n":"x\"y\\", "d":null, "a":-4.5e+1,"e":[],"f":{} } `
	names := []string{"a", "b", "c\n", "d", "missing", "e", "f"}
	want := []string{"-4.5e+1", `{"a":[2,{"a":3}]}`, `"x\"y\\"`, "null", "", "[]", "{}"}
	out := make([][]byte, len(names))
	if err := Fields([]byte(doc), names, out); err != nil {
		t.Fatal(err)
	}
	for i := range names {
		if string(out[i]) != want[i] {
			t.Errorf("member %q is %q, want %q", names[i], out[i], want[i])
		}
	}
	if err := Fields([]byte(`[1]`), names, out); err != nil || out[0] != nil {
		t.Errorf("an array has members: %q, %v", out, err)
	}
}

func TestFaultsAreFound(t *testing.T) {
	for _, bad := range []string{
		"", " ", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{a:1}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`,
		`{"a":tru}`, `{"a":"x}`, `{"a":"x\"}`, `{"a":1}x`, `{"a":[1}`, `[1,]`, `nul`, strings.Repeat("[", 300) + strings.Repeat("]", 300),
	} {
		var syntax *SyntaxError
		if err := Fields([]byte(bad), nil, nil); !errors.As(err, &syntax) {
			t.Errorf("Fields(%q) = %v, want a syntax error", bad, err)
		}
	}
}

func TestQuoting(t *testing.T) {
	for _, s := range []string{"", "plain", "a\"b\\c", "\n\r\t\x00\x1f", "é€😀", "\xff bad \xc3", "\u2028"} {
		quoted := AppendQuoted(nil, []byte(s))
		var back string
		if err := json.Unmarshal(quoted, &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") {
			t.Errorf("AppendQuoted(%q) = %s, which reads as %q, %v", s, quoted, back, err)
		}
	}
	for quoted, want := range map[string]string{
		`"\u00e9\ud83d\ude00\/\b\f"`: "é😀/\b\f", `"\ud83dx"`: "\ufffdx", `"\ud83d\u0041"`: "\ufffdA",
	} {
		if got, err := Unquote(nil, []byte(quoted)); err != nil || string(got) != want {
			t.Errorf("Unquote(%s) = %q, %v, want %q", quoted, got, err, want)
		}
	}
	for _, bad := range []string{`"`, `x`, `"\x"`, `"\u12"`, `"\u12zz"`, `"\"`} {
		if got, err := Unquote(nil, []byte(bad)); err == nil {
			t.Errorf("Unquote(%s) = %q, want an error", bad, got)
		}
	}
}

// FuzzFields compares with encoding/json: what that reads, Fields reads to the same members.
func FuzzFields(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":"x\ny"}`, `{"a":{"a":[]}}`, `{"a":1,"a":2}`, `[]`, `{"\u0061":true}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out := make([][]byte, 2)
		err := Fields(data, []string{"a", "b"}, out)
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil || len(data) > 100 {
			return
		}
		if err != nil {
			t.Fatalf("Fields(%q): %v, encoding/json reads it", data, err)
		}
		for i, name := range []string{"a", "b"} {
			if !bytes.Equal(out[i], want[name]) {
				t.Fatalf("member %s of %q is %q, want %q", name, data, out[i], want[name])
			}
		}
	})
}

func BenchmarkFields(b *testing.B) {
	doc := []byte(`{"page":"/products/17","user":"u-4711","status":200,"latency_ms":12.5,"agent":"curl/8.5.0"}`)
	names := []string{"status", "user"}
	out := make([][]byte, len(names))
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Fields(doc, names, out); err != nil {
			b.Fatal(err)
		}
	}
}
