package statestore_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/statestore/storetest"
)

// TestDeltasAreFolded changes a few keys again and again: the chain becomes one delta when it has grown, on top of the base of
// a restore as well, and at each checkpoint it restores to what was frozen, deletions included.
func TestDeltasAreFolded(t *testing.T) {
	o, files := onDisk(t), new(storetest.Files)
	first := open(t, onBases(t), files)
	first.put(t, "base", "old")
	first.put(t, "gone", "old")
	h, err := first.checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	first.close(t)

	o.Run, o.DeltaBytes = "run-2", 64<<10
	s := open(t, o, files, h)
	defer s.close(t)
	value := strings.Repeat("v", 1000)
	folds, before := 0, 0
	for n := range 100 {
		for k := range 10 {
			s.put(t, fmt.Sprintf("key-%d", k), fmt.Sprint(n, k, value))
		}
		s.drop(t, fmt.Sprintf("key-%d", n%10))
		if n == 5 {
			s.drop(t, "gone")
			s.put(t, "base", "new")
		}
		if h, err = s.checkpoint(); err != nil {
			t.Fatal(err)
		}
		if deltas := deltasOf(h); deltas == 1 && before > 1 {
			folds++
			checkFolded(t, files, h, n, value)
		}
		before = deltasOf(h)
		if err := s.Committed(s.n); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(filepath.Join(o.Dir, "chk-*")); err != nil || len(left) != 1 {
			t.Fatalf("local copies after checkpoint %d was committed: %v, %v", s.n, left, err)
		}
	}
	if folds < 5 {
		t.Errorf("deltas were folded %d times", folds)
	}
}

func checkFolded(t *testing.T, files *storetest.Files, h record.StateHandle, n int, value string) {
	t.Helper()
	o := onDisk(t)
	o.Run = fmt.Sprint("check-", n)
	r := open(t, o, files, h)
	defer r.close(t)
	for k := range 10 {
		want := fmt.Sprint(n, k, value)
		if k == n%10 {
			want = ""
		}
		r.expect(t, fmt.Sprintf("key-%d", k), want)
	}
	r.expect(t, "base", "new")
	r.expect(t, "gone", "")
}

func (o *opened) drop(t testing.TB, key string) {
	t.Helper()
	if err := o.table.Delete(record.GroupOf([]byte(key), 4), []byte(key)); err != nil {
		t.Fatal(err)
	}
}

// TestASmallChangeOfMuchIsNotFolded: writing all that was ever changed for the little that is new would never end.
func TestASmallChangeOfMuchIsNotFolded(t *testing.T) {
	o := onDisk(t)
	o.CacheBytes = 64 << 20
	s := open(t, o, new(storetest.Files))
	defer s.close(t)
	for n := range 1000 {
		s.put(t, fmt.Sprintf("much-%d", n), strings.Repeat("v", 1000))
	}
	written, bases := 0, 0
	for n := range 300 {
		s.put(t, "little", fmt.Sprint(n))
		h, err := s.checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		if deltasOf(h) == 0 {
			bases++
		}
		if deltasOf(h) == 1 && n > 0 && h.Blobs[len(h.Blobs)-1].Size > 1<<20 {
			written++
		}
	}
	if bases == 0 || written > 1 {
		t.Errorf("%d bases, and the whole state was written in %d deltas of 300 checkpoints", bases, written)
	}
}
