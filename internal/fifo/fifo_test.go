package fifo

import (
	"testing"

	"pgregory.net/rapid"
)

// TestModel compares a queue with a plain slice over random pushes and pops.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[*int]
		var model []*int
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) {
				v := new(int)
				q.Push(v)
				model = append(model, v)
			},
			"pop": func(t *rapid.T) {
				v, ok := q.Pop()
				if ok != (len(model) > 0) {
					t.Fatalf("Pop says %v with %d elements", ok, len(model))
				}
				if ok && v != model[0] {
					t.Fatal("Pop does not return the first element")
				}
				model = model[min(1, len(model)):]
			},
			"": func(t *rapid.T) {
				if q.Len() != len(model) {
					t.Fatalf("Len is %d, want %d", q.Len(), len(model))
				}
				assertReleased(t, &q)
			},
		})
	})
}

// assertReleased looks for elements that were taken and are kept alive all the same.
func assertReleased(t *rapid.T, q *Queue[*int]) {
	all := q.items[:cap(q.items)]
	for i, v := range all {
		if v != nil && (i < q.head || i >= len(q.items)) {
			t.Fatalf("place %d of %d to %d still holds an element", i, q.head, len(q.items))
		}
	}
}

// A queue that never runs empty must stay in the memory that it has.
func TestNeverEmpty(t *testing.T) {
	var q Queue[int]
	for i := range 10_000 {
		q.Push(i)
		if i >= 3 {
			q.Pop()
		}
	}
	if n := cap(q.items); n > 16 {
		t.Errorf("3 elements take %d places", n)
	}
}

// BenchmarkQueue is one push and one pop of a queue that holds a few elements all the time.
func BenchmarkQueue(b *testing.B) {
	var q Queue[*int]
	v := new(int)
	for range 3 {
		q.Push(v)
	}
	b.ReportAllocs()
	for b.Loop() {
		q.Push(v)
		q.Pop()
	}
}
