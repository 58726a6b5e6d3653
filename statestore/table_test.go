package statestore_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/statestore/storetest"
)

// TestHotPathDoesNotAllocate changes keys that are there, within an interval and across barriers.
func TestHotPathDoesNotAllocate(t *testing.T) {
	s, table := openBench(t, statestore.Options{Backend: statestore.FS})
	const keys = 1000
	all := func() {
		for n := range keys {
			count(t, table, n)
		}
	}
	all()
	if got := testing.AllocsPerRun(20, all); got > 0 {
		t.Errorf("%v allocations for %d changes within an interval", got, keys)
	}
	var n record.CheckpointID
	interval := func() {
		n++
		if _, err := s.Freeze(n).Persist(context.Background(), new(storetest.Files)); err != nil {
			t.Fatal(err)
		}
		all()
	}
	// A snapshot and the dirty lists are allocated once an interval and key group, nothing for each key.
	idle := testing.AllocsPerRun(20, func() {
		n++
		if _, err := s.Freeze(n).Persist(context.Background(), new(storetest.Files)); err != nil {
			t.Fatal(err)
		}
	})
	if got := testing.AllocsPerRun(20, interval); got > idle+2*benchGroups {
		t.Errorf("%v allocations for an interval with %d changes, %v without", got, keys, idle)
	}
}

// TestGarbageIsCollected replaces, deletes and inserts for a long time: memory stays within a few times of what is live.
func TestGarbageIsCollected(t *testing.T) {
	for _, backend := range []statestore.Backend{statestore.Memory, statestore.Pebble} {
		o := onDisk(t)
		o.Backend, o.CacheBytes, o.DeltaBytes = backend, 64<<20, 256<<10
		s := open(t, o, new(storetest.Files))
		for round := range 400 {
			if err := s.Tidy(); err != nil {
				t.Fatal(err)
			}
			for n := range 20 { // growing values are replaced, others come and go
				s.put(t, fmt.Sprintf("grows-%d", n), strings.Repeat("x", round*5))
				s.put(t, fmt.Sprintf("moves-%d-%d", round, n), strings.Repeat("y", 100))
				old := []byte(fmt.Sprintf("moves-%d-%d", round-2, n))
				if err := s.table.Delete(record.GroupOf(old, 4), old); err != nil {
					t.Fatal(err)
				}
			}
			if round%10 == 0 {
				if _, err := s.checkpoint(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for n := range 20 {
			s.expect(t, fmt.Sprintf("grows-%d", n), strings.Repeat("x", 399*5))
			s.expect(t, fmt.Sprintf("moves-399-%d", n), strings.Repeat("y", 100))
			s.expect(t, fmt.Sprintf("moves-397-%d", n), "")
		}
		s.Freeze(s.n + 1)
		const live = 20 * (2000 + 200)
		if m := s.Metrics(); m.Bytes > 10*live {
			t.Errorf("%s: %d bytes are held for %d live bytes", backend, m.Bytes, live)
		}
		s.close(t)
	}
}

// TestMemoryStaysUnderItsLimit writes eight times the cache in several intervals.
func TestMemoryStaysUnderItsLimit(t *testing.T) {
	o := onDisk(t)
	o.CacheBytes = 2 << 20
	s := open(t, o, new(storetest.Files))
	defer s.close(t)
	value := strings.Repeat("v", 1000)
	for n := range 16 << 10 {
		s.put(t, fmt.Sprintf("key-%d", n), value)
		if err := s.Tidy(); err != nil {
			t.Fatal(err)
		}
		if s.Full() {
			if _, err := s.checkpoint(); err != nil {
				t.Fatal(err)
			}
			if m := s.Metrics(); m.Bytes > o.CacheBytes*5/4 {
				t.Fatalf("%d bytes in memory, the limit is %d", m.Bytes, o.CacheBytes)
			}
		}
	}
	for n := 0; n < 16<<10; n += 97 {
		s.expect(t, fmt.Sprintf("key-%d", n), value)
	}
	s.Freeze(s.n + 1)
	if m := s.Metrics(); m.Freeze <= 0 || m.Persist <= 0 || m.Misses == 0 || m.Entries == 0 {
		t.Errorf("figures are missing: %+v", m)
	}
}

// TestLargeEntries are larger than a chunk of an arena, also as the first of their key group.
func TestLargeEntries(t *testing.T) {
	files := new(storetest.Files)
	o := onDisk(t)
	o.CacheBytes = 16 << 20
	s := open(t, o, files)
	want := map[string]string{}
	for n, size := range []int{256<<10 - 40, 256 << 10, 300 << 10, 1 << 20, 3 << 20, 0, 1} {
		k := fmt.Sprintf("key-%d", n)
		want[k] = strings.Repeat(string('a'+byte(n)), size)
		s.put(t, k, want[k])
	}
	h, err := s.checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	restored := open(t, onDisk(t), files, h)
	for _, s := range []*opened{s, restored} {
		for k, v := range want {
			got, found, err := s.table.Get(record.GroupOf([]byte(k), 4), []byte(k))
			if err != nil || !found || string(got) != v {
				t.Errorf("%s has %d bytes (found %v, %v), want %d", k, len(got), found, err, len(v))
			}
		}
		s.close(t)
	}
}

func TestInlineLimit(t *testing.T) {
	s := open(t, statestore.Options{Backend: statestore.Memory}, new(storetest.Files))
	s.put(t, "k", strings.Repeat("v", statestore.InlineLimit))
	if _, err := s.checkpoint(); !errors.Is(err, statestore.ErrInlineLimit) {
		t.Fatalf("Persist answers %v, want ErrInlineLimit", err)
	}
	s.put(t, "k", "v")
	s.Freeze(2).Release()
}

func TestOptionsFaultsAreAllReported(t *testing.T) {
	err := statestore.Options{Backend: "tape", CacheBytes: 1, DirtyBytes: -1, Subtask: -1, Run: "a/b", Operator: ".x"}.Validate()
	for _, want := range []string{`"tape"`, "1 MiB", "dirty", "0 key groups", "subtask -1", `"a/b"`, `".x"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no fault mentions %s in:\n%v", want, err)
		}
	}
	if err := (statestore.Options{Groups: 1, Run: "r", Operator: "o"}).Validate(); err == nil || !strings.Contains(err.Error(), "state.dir") {
		t.Errorf("no folder: %v", err)
	}
}

// sampleDump is a dump with two tables.
func sampleDump(t testing.TB) record.StateHandle {
	s := open(t, statestore.Options{Backend: statestore.Memory}, new(storetest.Files))
	for n := range 50 {
		s.put(t, fmt.Sprintf("key-%d", n), fmt.Sprintf("value-%d", n))
	}
	other, err := s.Table("other")
	if err == nil {
		err = other.Put(1, nil, []byte{0})
	}
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestDamagedDump cuts a dump anywhere and flips each of its bytes: none may be restored.
func TestDamagedDump(t *testing.T) {
	h := sampleDump(t)
	refused := func(content []byte) {
		t.Helper()
		h.Inline = content
		_, err := tryOpen(statestore.Options{Backend: statestore.Memory}, new(storetest.Files), h)
		if !errors.Is(err, statestore.ErrCorrupt) && !errors.Is(err, statestore.ErrFormat) && (err == nil || !strings.Contains(err.Error(), "key groups")) {
			t.Fatalf("a damaged dump: %v", err)
		}
	}
	whole := h.Inline
	for n := range whole {
		refused(whole[:n])
		flipped := bytes.Clone(whole)
		flipped[n] ^= 1 << (n % 8)
		refused(flipped)
	}
	refused(append(bytes.Clone(whole), 0))
}

func FuzzDump(f *testing.F) {
	h := sampleDump(f)
	f.Add(h.Inline)
	f.Add(binary.BigEndian.AppendUint64([]byte("WEIRDUMP"), 1<<32|4))
	f.Fuzz(func(t *testing.T, content []byte) {
		h.Inline = content
		s, err := tryOpen(statestore.Options{Backend: statestore.Memory}, new(storetest.Files), h)
		if err != nil {
			return
		}
		again, err := s.checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tryOpen(statestore.Options{Backend: statestore.Memory}, new(storetest.Files), again); err != nil {
			t.Fatalf("what was restored does not restore again: %v", err)
		}
	})
}

// TestASliceOutlivesTheUseOfOtherTables: an operator changes a value in place while it writes to a table at the side, which
// takes memory; the change must not get lost in memory that was left behind.
func TestASliceOutlivesTheUseOfOtherTables(t *testing.T) {
	s, err := statestore.Open(t.Context(), statestore.Options{Backend: statestore.Memory, Groups: 1, Operator: "op", Run: "000001.a"}, nil, nil, func(record.KeyGroup) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	values, err := s.Table("values")
	if err != nil {
		t.Fatal(err)
	}
	side, err := s.Table("side")
	if err != nil {
		t.Fatal(err)
	}
	const keys = 50
	want := map[string]byte{}
	for i := range 20_000 {
		key := fmt.Appendf(nil, "key %d", i%keys)
		if i%100 == 0 { // what follows copies, so that a good part of the memory becomes garbage
			s.Freeze(record.CheckpointID(i/100 + 1))
			if err := s.Tidy(); err != nil {
				t.Fatal(err)
			}
		}
		v, _, err := values.Upsert(0, key, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := side.Put(0, key, make([]byte, i%97)); err != nil {
			t.Fatal(err)
		}
		v[0]++
		want[string(key)]++
	}
	for key, n := range want {
		if v, _, err := values.Get(0, []byte(key)); err != nil || v[0] != n {
			t.Fatalf("%s is %d, want %d (%v)", key, v[0], n, err)
		}
	}
}
