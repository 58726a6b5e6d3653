package storetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/statestore"
)

func open(t *testing.T, o statestore.Options, run string, restore []record.StateHandle, files *Files,
	owned func(record.KeyGroup) bool) *statestore.Store {
	t.Helper()
	s, err := tryOpen(t, o, run, restore, files, owned)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func tryOpen(t *testing.T, o statestore.Options, run string, restore []record.StateHandle, files *Files,
	owned func(record.KeyGroup) bool) (*statestore.Store, error) {
	if o.Run = run; o.Operator == "" {
		o.Operator = "count"
	}
	if o.Groups == 0 {
		o.Groups = groups
	}
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "state")
	}
	return statestore.Open(context.Background(), o, restore, files, owned)
}

func table(t *testing.T, s *statestore.Store) *statestore.Table {
	t.Helper()
	table, err := s.Table("values")
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func put(t *testing.T, table *statestore.Table, key, value string) {
	t.Helper()
	if err := table.Put(record.GroupOf([]byte(key), groups), []byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, table *statestore.Table, key, value string) {
	t.Helper()
	got, found, err := table.Get(record.GroupOf([]byte(key), groups), []byte(key))
	if err != nil || string(got) != value || found != (value != "") {
		t.Fatalf("%s is %q (found %v, %v), want %q", key, got, found, err, value)
	}
}

func persist(t *testing.T, s *statestore.Store, n record.CheckpointID, files *Files) record.StateHandle {
	t.Helper()
	h, err := s.Freeze(n).Persist(context.Background(), files)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func testFailingUploads(t *testing.T, o statestore.Options) {
	if o.Backend == statestore.Memory {
		t.Skip("the memory back end uploads nothing")
	}
	files := new(Files)
	s := open(t, o, "r1", nil, files, nil)
	put(t, table(t, s), "k", "old")
	cause := errors.New("no room")
	files.FailWith(cause)
	snap := s.Freeze(1)
	put(t, table(t, s), "k", "new")
	for range 3 {
		if _, err := snap.Persist(context.Background(), files); !errors.Is(err, cause) {
			t.Fatalf("Persist answers %v, want %v", err, cause)
		}
	}
	files.FailWith(nil)
	h, err := snap.Persist(context.Background(), files)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, table(t, s), "k", "new")
	expect(t, table(t, open(t, o, "r2", []record.StateHandle{h}, files, nil)), "k", "old")
}

func testOrder(t *testing.T, o statestore.Options) {
	files := new(Files)
	s := open(t, o, "r1", nil, files, nil)
	put(t, table(t, s), "k", "1")
	first := s.Freeze(1)
	put(t, table(t, s), "k", "2")
	second := s.Freeze(2)
	if _, err := second.Persist(context.Background(), files); !errors.Is(err, statestore.ErrOrder) {
		t.Fatalf("the second before the first: %v, want ErrOrder", err)
	}
	first.Release()
	if _, err := second.Persist(context.Background(), files); err != nil {
		t.Fatal(err)
	}
	for _, again := range []*statestore.Snapshot{first, second} {
		if _, err := again.Persist(context.Background(), files); !errors.Is(err, statestore.ErrOrder) {
			t.Fatalf("checkpoint %d once more: %v, want ErrOrder", again.Checkpoint(), err)
		}
	}
}

func testKeyGroups(t *testing.T, o statestore.Options) {
	owned := func(g record.KeyGroup) bool { return g == 3 }
	s := open(t, o, "r1", nil, new(Files), owned)
	for _, g := range []record.KeyGroup{record.NoGroup, 2, groups, 1 << 20} {
		if _, _, err := table(t, s).Upsert(g, []byte("k"), 8); err == nil {
			t.Errorf("key group %d, which is not owned, was accepted", g)
		}
	}
	if _, _, err := table(t, s).Upsert(3, []byte("k"), 8); err != nil {
		t.Fatal(err)
	}
	if h := persist(t, s, 1, new(Files)); len(h.KeyGroups) != 1 || h.KeyGroups[0] != 3 {
		t.Fatalf("key groups of the handle are %v, want [3]", h.KeyGroups)
	}
}

func testOtherGroups(t *testing.T, o statestore.Options) {
	files := new(Files)
	s := open(t, o, "r1", nil, files, nil)
	put(t, table(t, s), "k", "v")
	h := persist(t, s, 1, files)
	o.Groups = 2 * groups
	if s, err := tryOpen(t, o, "r2", []record.StateHandle{h}, files, nil); err == nil {
		t.Errorf("state of %d key groups was restored into a job of %d", groups, o.Groups)
		_ = s.Close()
	}
}

func testUnknownFormat(t *testing.T, o statestore.Options) {
	files := new(Files)
	s := open(t, o, "r1", nil, files, nil)
	put(t, table(t, s), "k", "v")
	h := persist(t, s, 1, files)
	newer, other := h, h
	newer.Format++
	other.Backend = "punched-cards"
	for _, h := range []record.StateHandle{newer, other} {
		if s, err := tryOpen(t, o, "r2", []record.StateHandle{h}, files, nil); !errors.Is(err, statestore.ErrFormat) {
			t.Errorf("back end %s, format %d: %v, want ErrFormat", h.Backend, h.Format, err)
			if err == nil {
				_ = s.Close()
			}
		}
	}
}

func testForeignFolder(t *testing.T, o statestore.Options) {
	if o.Backend == statestore.Memory {
		t.Skip("the memory back end has no folder")
	}
	o.Dir = t.TempDir()
	mine := filepath.Join(o.Dir, "thesis.tex")
	if err := os.WriteFile(mine, []byte("years of work"), 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := tryOpen(t, o, "r1", nil, new(Files), nil); err == nil {
		t.Error("a folder with files of somebody else was taken")
		_ = s.Close()
	}
	if _, err := os.Stat(mine); err != nil {
		t.Fatal(err)
	}
}

// testLeftovers opens a second store on the folder of one that was never closed, as after SIGKILL.
func testLeftovers(t *testing.T, o statestore.Options) {
	files := new(Files)
	o.Dir = filepath.Join(t.TempDir(), "state")
	s, err := tryOpen(t, o, "r1", nil, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, table(t, s), "k", "1")
	h := persist(t, s, 1, files)
	put(t, table(t, s), "k", "2")
	persist(t, s, 2, files)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, table(t, open(t, o, "r2", []record.StateHandle{h}, files, nil)), "k", "1")
}

// testOtherOperator restores from handles of two operators: each takes its own.
func testOtherOperator(t *testing.T, o statestore.Options) {
	files := new(Files)
	var handles []record.StateHandle
	for _, operator := range []string{"count", "other"} {
		o.Operator = operator
		s := open(t, o, "r1", nil, files, nil)
		put(t, table(t, s), "k", operator)
		handles = append(handles, persist(t, s, 1, files))
	}
	for _, operator := range []string{"count", "other"} {
		o.Operator = operator
		expect(t, table(t, open(t, o, "r2", handles, files, nil)), "k", operator)
	}
}
