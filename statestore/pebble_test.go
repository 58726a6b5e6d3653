package statestore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/statestore/storetest"
)

// opened is a store with one table, and what it should hold.
type opened struct {
	*statestore.Store
	table *statestore.Table
	files *storetest.Files
	n     record.CheckpointID
}

func open(t testing.TB, o statestore.Options, files *storetest.Files, restore ...record.StateHandle) *opened {
	t.Helper()
	s, err := tryOpen(o, files, restore...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tryOpen(o statestore.Options, files *storetest.Files, restore ...record.StateHandle) (*opened, error) {
	o.Groups, o.Operator = 4, "count"
	if o.Run == "" {
		o.Run = "run"
	}
	s, err := statestore.Open(context.Background(), o, restore, files, nil)
	if err != nil {
		return nil, err
	}
	table, err := s.Table("values")
	return &opened{Store: s, table: table, files: files}, err
}

func (o *opened) put(t testing.TB, key, value string) {
	t.Helper()
	if err := o.table.Put(record.GroupOf([]byte(key), 4), []byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func (o *opened) expect(t testing.TB, key, value string) {
	t.Helper()
	got, found, err := o.table.Get(record.GroupOf([]byte(key), 4), []byte(key))
	if err != nil || string(got) != value || found != (value != "") {
		t.Fatalf("%s is %.40q (found %v, %v), want %.40q", key, got, found, err, value)
	}
}

func (o *opened) checkpoint() (record.StateHandle, error) {
	o.n++
	return o.Freeze(o.n).Persist(context.Background(), o.files)
}

func (o *opened) close(t testing.TB) {
	t.Helper()
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

func onDisk(t testing.TB) statestore.Options {
	return statestore.Options{Backend: statestore.Pebble, Dir: filepath.Join(t.TempDir(), "state"), CacheBytes: 1 << 20}
}

// onBases is onDisk with a base for every checkpoint that changes anything.
func onBases(t testing.TB) statestore.Options {
	o := onDisk(t)
	o.DeltaBytes = 1
	return o
}

// TestUploadsOnlyNewTables also after a restore that took over the files.
func TestUploadsOnlyNewTables(t *testing.T) {
	files := new(storetest.Files)
	s := open(t, onBases(t), files)
	var last record.StateHandle
	tables := map[string]record.Blob{}
	round := func(s *opened, n int) {
		t.Helper()
		s.put(t, fmt.Sprintf("key-%d", n), "v")
		h, err := s.checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range h.Paths {
			old, known := tables[p]
			if !strings.HasSuffix(p, ".sst") {
				continue
			}
			if known && old != h.Blobs[i] {
				t.Fatalf("table %s was stored twice: %v, %v", p, old, h.Blobs[i])
			}
			tables[p] = h.Blobs[i]
		}
		last = h
	}
	round(s, 1)
	round(s, 2)
	s.close(t)
	o := onBases(t)
	o.Run = "run-2"
	s = open(t, o, files, last)
	defer s.close(t)
	before := len(tables)
	round(s, 3)
	if before < 2 || len(tables) <= before {
		t.Fatalf("%d tables before the restore, %d after: nothing was shared", before, len(tables))
	}
	for n := range 3 {
		s.expect(t, fmt.Sprintf("key-%d", n+1), "v")
	}
}

// TestRestartReusesLocalFiles restarts in the folder of the last run: what is there and right is not fetched, what was
// damaged is.
func TestRestartReusesLocalFiles(t *testing.T) {
	for _, suffix := range []string{".sst", ".delta"} {
		for _, damage := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s damaged %v", suffix, damage), func(t *testing.T) { testRestart(t, suffix, damage) })
		}
	}
}

func testRestart(t *testing.T, suffix string, damage bool) {
	o, files := onDisk(t), new(storetest.Files)
	if suffix == ".sst" {
		o.DeltaBytes = 1
	}
	s := open(t, o, files)
	s.put(t, "k", "v")
	h, err := s.checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	s.close(t)
	if damage {
		flip(t, o.Dir, suffix)
	}
	o.Run = "run-2"
	s = open(t, o, files, h)
	s.expect(t, "k", "v")
	s.close(t)
	if fetched := strings.Contains(strings.Join(files.Fetched(), " "), suffix); fetched != damage {
		t.Errorf("fetched: %v", fetched)
	}
	if left, err := filepath.Glob(filepath.Join(o.Dir, "chk-*")); err != nil || len(left) > 0 {
		t.Errorf("copies of the run before are left: %v, %v", left, err)
	}
}

// flip changes a bit of the local copies.
func flip(t *testing.T, dir, suffix string) {
	t.Helper()
	copies, err := filepath.Glob(filepath.Join(dir, "chk-*", "*"+suffix))
	if err != nil || len(copies) == 0 {
		t.Fatalf("no local copies: %v", err)
	}
	for _, path := range copies {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)/2] ^= 1
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCommittedDropsOlderCopies keeps the base that the committed checkpoint builds on.
func TestCommittedDropsOlderCopies(t *testing.T) {
	o := onDisk(t)
	o.DeltaBytes = 300 // every third checkpoint is a base
	s := open(t, o, new(storetest.Files))
	defer s.close(t)
	for n := range 8 {
		s.put(t, fmt.Sprintf("key-%d", n), strings.Repeat("v", 100))
		if _, err := s.checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		committed record.CheckpointID
		want      string
	}{
		{2, "[chk-00000000 chk-00000003 chk-00000006]"},
		{5, "[chk-00000003 chk-00000006]"},
		{8, "[chk-00000006]"},
	} {
		if err := s.Committed(c.committed); err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(o.Dir, "chk-*"))
		for i := range left {
			left[i] = filepath.Base(left[i])
		}
		if err != nil || fmt.Sprint(left) != c.want {
			t.Fatalf("after %d was committed these copies are left: %v (%v), want %v", c.committed, left, err, c.want)
		}
	}
}

// TestAReleasedBaseIsMadeUpFor: the first snapshot after a restore is a base. When that is given up the next must be one,
// since what was restored is in no delta.
func TestAReleasedBaseIsMadeUpFor(t *testing.T) {
	files := new(storetest.Files)
	s := open(t, onDisk(t), files)
	s.put(t, "old", "v")
	h, err := s.checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	s.close(t)
	o := onDisk(t)
	o.Run = "run-2"
	s = open(t, o, files, h)
	s.put(t, "new", "v")
	s.Freeze(1).Release()
	s.n = 1
	if h, err = s.checkpoint(); err != nil {
		t.Fatal(err)
	}
	s.close(t)
	o = onDisk(t)
	o.Run = "run-3"
	s = open(t, o, files, h)
	s.expect(t, "old", "v")
	s.expect(t, "new", "v")
	s.close(t)
}

// TestDeltasAreBounded changes one key again and again: now and then they become one, with few changes as well.
func TestDeltasAreBounded(t *testing.T) {
	s := open(t, onDisk(t), new(storetest.Files))
	defer s.close(t)
	const most = 64
	folds := 0
	for n := range 3 * most {
		s.put(t, "k", fmt.Sprint(n))
		h, err := s.checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		deltas := deltasOf(h)
		if n > 0 && deltas == 1 {
			folds++
		}
		if deltas > most {
			t.Fatalf("checkpoint %d has %d deltas", n+1, deltas)
		}
	}
	if folds < 2 {
		t.Fatalf("deltas were folded %d times in %d checkpoints, want 2 at least", folds, 3*most)
	}
}

func deltasOf(h record.StateHandle) (n int) {
	for _, p := range h.Paths {
		if strings.HasSuffix(p, ".delta") {
			n++
		}
	}
	return n
}

// TestFailedFsync is fatal to the store, from whatever file or folder it comes.
func TestFailedFsync(t *testing.T) {
	for good := range int64(8) {
		t.Run(fmt.Sprintf("after %d", good), func(t *testing.T) { testFailedFsync(t, good) })
	}
}

func testFailedFsync(t *testing.T, good int64) {
	var on atomic.Bool
	var left atomic.Int64
	left.Store(good)
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on.Load() && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && left.Add(-1) < 0 {
			return syscall.EIO
		}
		return nil
	}))
	s := open(t, statestore.WithFS(onBases(t), fs), new(storetest.Files))
	defer func() { _ = s.Close() }() // what a failed store answers here is of no interest
	s.put(t, "k", "v")
	on.Store(true)
	if _, err := s.checkpoint(); !errors.Is(err, statestore.ErrSync) {
		t.Fatalf("Persist answers %v, want ErrSync", err)
	}
	if err := s.Err(); !errors.Is(err, statestore.ErrSync) {
		t.Fatalf("Err is %v, want ErrSync", err)
	}
	on.Store(false)
	if _, err := s.checkpoint(); err == nil {
		t.Fatal("a store persists after a failed fsync")
	}
}

// TestRandomWriteErrors lets writes fail at random. A snapshot that was persisted in the end restores to exactly what
// was frozen; a store that gave up says so.
func TestRandomWriteErrors(t *testing.T) {
	for seed := range uint64(9) {
		o := onDisk(t)
		o.DeltaBytes = []int64{0, 1, 2000}[seed%3]
		testRandomWriteErrors(t, o, rand.New(rand.NewPCG(seed, 0)))
	}
}

func testRandomWriteErrors(t *testing.T, o statestore.Options, r *rand.Rand) {
	var on atomic.Bool
	var left atomic.Int64
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on.Load() && takesRoom(op) && left.Add(-1) == 0 {
			return syscall.ENOSPC
		}
		return nil
	}))
	files := new(storetest.Files)
	s := open(t, statestore.WithFS(o, fs), files)
	frozen := map[string]string{}
	var last record.StateHandle
	for n := record.CheckpointID(1); n <= 8 && s.Err() == nil; n++ {
		for range 20 {
			k, v := fmt.Sprintf("key-%d", r.IntN(30)), fmt.Sprintf("%d-%d", n, r.IntN(100))
			s.put(t, k, v)
			frozen[k] = v
		}
		snap := s.Freeze(n)
		left.Store(1 + r.Int64N(40))
		on.Store(true)
		h, err := snap.Persist(context.Background(), files)
		on.Store(false)
		if err != nil && s.Err() == nil {
			if h, err = snap.Persist(context.Background(), files); err != nil && s.Err() == nil {
				t.Fatalf("the second try fails too: %v", err)
			}
		}
		if err != nil {
			break
		}
		last = h
		restored := open(t, onDisk(t), files, last)
		for k, v := range frozen {
			restored.expect(t, k, v)
		}
		restored.close(t)
	}
	if err := s.Close(); err != nil && s.Err() == nil {
		t.Fatal(err)
	}
}

// takesRoom says whether an operation may fail on a full disk.
func takesRoom(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpLink, errorfs.OpMkdirAll, errorfs.OpFileWrite, errorfs.OpFilePreallocate:
		return true
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		info, err := os.Stat(op.Path)
		return err == nil && !info.IsDir()
	}
	return false
}

// TestDiskFull fills the disk under the state: snapshots fail loudly and leave it readable; they go on when there is
// room again.
func TestDiskFull(t *testing.T) {
	dir := tmpfs(t, "48m")
	filler := filepath.Join(dir, "filler")
	o := onDisk(t)
	o.Dir = filepath.Join(dir, "state")
	files := new(storetest.Files)
	s := open(t, o, files)
	s.put(t, "k", "old")
	if _, err := s.checkpoint(); err != nil {
		t.Fatal(err)
	}
	fillDisk(t, filler)
	s.put(t, "k", "new")
	s.n++
	snap := s.Freeze(s.n)
	for range 3 {
		if _, err := snap.Persist(context.Background(), files); !errors.Is(err, statestore.ErrNoSpace) {
			t.Fatalf("on a full disk: %v, want ErrNoSpace", err)
		}
	}
	s.expect(t, "k", "new")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	h, err := snap.Persist(context.Background(), files)
	if err != nil {
		t.Fatal(err)
	}
	s.close(t)
	s = open(t, onDisk(t), files, h)
	s.expect(t, "k", "new")
	s.close(t)
}

// fillDisk writes until the file system is full.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(block)
	}
	if closed := f.Close(); closed != nil || !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err, closed)
	}
}

func tmpfs(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("mounting a tmpfs needs root with CAP_SYS_ADMIN: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestDamagedFiles restores from a checkpoint of which a file was damaged after its digest was checked, as by a broken
// disk.
func TestDamagedFiles(t *testing.T) {
	for _, suffix := range []string{".sst", "MANIFEST-000001", ".delta"} {
		o, files := onBases(t), new(storetest.Files)
		if suffix == ".delta" {
			o.DeltaBytes = 0
		}
		s := open(t, o, files)
		s.put(t, "k", strings.Repeat("v", 1000))
		h, err := s.checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		s.close(t)
		files.Damage(suffix)
		if s, err := tryOpen(onDisk(t), files, h); err == nil {
			t.Errorf("a checkpoint with a damaged %s was restored", suffix)
			s.close(t)
		}
	}
}

// TestDeletedKeysStayDeleted rebuilds shards that do not know every key while a deletion is not persisted: Pebble still
// has the old value, so the tombstone must stay.
func TestDeletedKeysStayDeleted(t *testing.T) {
	o := onDisk(t)
	o.DirtyBytes = 1 << 30
	s := open(t, o, new(storetest.Files))
	defer s.close(t)
	for n := range 3000 {
		s.put(t, fmt.Sprintf("key-%d", n), strings.Repeat("v", 1000))
	}
	if _, err := s.checkpoint(); err != nil {
		t.Fatal(err)
	}
	s.put(t, "more", strings.Repeat("v", 300<<10)) // eviction follows
	for n := range 100 {
		key := fmt.Appendf(nil, "key-%d", n)
		if err := s.table.Delete(record.GroupOf(key, 4), key); err != nil {
			t.Fatal(err)
		}
	}
	snap := s.Freeze(s.n + 1)
	for n := range 600 { // garbage in every key group
		for group := range 4 {
			if err := s.table.Put(record.KeyGroup(group), []byte("grows"), make([]byte, 10*n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range 100 {
		s.expect(t, fmt.Sprintf("key-%d", n), "")
	}
	if _, err := snap.Persist(context.Background(), s.files); err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		s.expect(t, fmt.Sprintf("key-%d", n), "")
	}
	s.expect(t, "key-100", strings.Repeat("v", 1000))
}

// TestTooManyOpenFilesAreNoDamage: what cannot be opened just now is not what an operator has to give up.
func TestTooManyOpenFilesAreNoDamage(t *testing.T) {
	files := new(storetest.Files)
	s := open(t, onBases(t), files)
	s.put(t, "k", "v")
	h, err := s.checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	s.close(t)
	full := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpOpen || op.Kind == errorfs.OpOpenDir {
			return syscall.EMFILE
		}
		return nil
	}))
	for _, backend := range []statestore.Backend{statestore.Pebble, statestore.FS} {
		o := statestore.WithFS(onDisk(t), full)
		o.Backend, o.Run = backend, "run-2"
		_, err := tryOpen(o, files, h)
		if !errors.Is(err, syscall.EMFILE) || errors.Is(err, statestore.ErrCorrupt) {
			t.Errorf("%s: restored with too many open files: %v", backend, err)
		}
	}
}
