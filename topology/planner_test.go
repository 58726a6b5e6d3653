package topology

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/record"
)

func countSpec() Spec {
	return Spec{
		Job:     "j",
		Sources: []SourceSpec{{Name: "in", Topic: "words"}},
		Operators: []OperatorSpec{{
			Name: "per_key", From: []string{"in"}, Key: "key", Aggregate: []NamedText{{"count", "count()"}},
		}},
		Sinks: []SinkSpec{{Name: "out", Topic: "counts", From: []string{"per_key"}, Format: "int64"}},
	}
}

func TestRawCount(t *testing.T) {
	p := plan(t, countSpec(), Partitions{"words": 8, "counts": 4}, 2)
	r := newRunner(t, p)
	for i := range 100 {
		if err := r.feed(0, int32(i%8), fmt.Sprint("key-", i%10), "v"); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]uint64{}
	for _, w := range r.written[0] {
		got[string(w.Key)] = binary.BigEndian.Uint64(w.Value)
	}
	if len(got) != 10 || got["key-3"] != 10 || len(r.written[0]) != 100 {
		t.Fatalf("%d results, last counts %v; want 100 and 10 for each of 10 keys", len(r.written[0]), got)
	}
}

const viewsJSON = `{"page":"/a","user":"u1","status":200,"latency_ms":12.5}`

func viewsSpec() Spec {
	return Spec{
		Job:     "views",
		Sources: []SourceSpec{{Name: "views", Topic: "page-views", Format: "json", OnError: "dead_letter", DeadLetter: "dead"}},
		Operators: []OperatorSpec{
			{Name: "valid", From: []string{"views"}, Filter: `status == 200 && user != ""`},
			{Name: "per_page", From: []string{"valid"}, Key: "page", Aggregate: []NamedText{
				{"views", "count()"}, {"slowest", "max(latency_ms)"}, {"users", "count_distinct(user)"}, {"who", "last(user)"},
			}},
		},
		Sinks: []SinkSpec{{Name: "counts", Topic: "page-counts", From: []string{"per_page"}, Key: "page", Format: "json"}},
	}
}

func TestPageViews(t *testing.T) {
	p := plan(t, viewsSpec(), Partitions{"page-views": 6, "page-counts": 3, "dead": 1}, 3)
	r := newRunner(t, p)
	feed := func(value string) {
		t.Helper()
		if err := r.feed(0, 1, "", value); err != nil {
			t.Fatal(err)
		}
	}
	feed(viewsJSON)
	feed(strings.Replace(viewsJSON, "u1", "u2", 1))
	feed(strings.Replace(viewsJSON, "12.5", "7", 1))
	feed(strings.Replace(viewsJSON, "200", "404", 1))
	feed(`{"page"`)
	feed(`{"user":"u","status":200}`)
	want := []string{
		`/a {"views":1,"slowest":12.5,"users":1,"who":"u1"}`, `/a {"views":2,"slowest":12.5,"users":2,"who":"u2"}`,
		`/a {"views":3,"slowest":12.5,"users":2,"who":"u1"}`,
	}
	var got []string
	for _, w := range r.written[0] {
		got = append(got, fmt.Sprintf("%s %s", w.Key, w.Value))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("results\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	dead := r.written[1]
	if len(dead) != 2 || string(dead[0].Value) != `{"page"` {
		t.Fatalf("dead letters %v", dead)
	}
	if h := headers(dead[0]); h["weir.operator"] != "valid" || h["weir.topic"] != "page-views" || h["weir.partition"] != "1" {
		t.Errorf("headers of the first dead letter: %v", h)
	}
	if h := headers(dead[1]); h["weir.error"] != "the key is null" || h["weir.operator"] != "per_page.key" {
		t.Errorf("headers of the second dead letter: %v", h)
	}
}

func headers(r record.Record) map[string]string {
	m := map[string]string{}
	for _, h := range r.Headers {
		m[string(h.Key)] = string(h.Value)
	}
	return m
}
