package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/record"
)

func newCatalog(t testing.TB, s checkpoint.Store) *checkpoint.Catalog {
	t.Helper()
	c, err := checkpoint.NewCatalog(s, "job")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// job makes checkpoints as a job does: files that live for three checkpoints, each with a new one.
type job struct {
	catalog *checkpoint.Catalog
	run     string
	attempt record.Attempt
	dir     string
	files   map[record.CheckpointID]record.Blob
}

func newJob(c *checkpoint.Catalog, attempt record.Attempt, dir string) *job {
	return &job{catalog: c, run: checkpoint.NewRun(attempt, "abcdefghijkl"), attempt: attempt, dir: dir, files: map[record.CheckpointID]record.Blob{}}
}

// upload stores the new file of a checkpoint.
func (j *job) upload(n record.CheckpointID) error {
	path := filepath.Join(j.dir, fmt.Sprintf("%s-%d", j.run, n))
	if err := os.WriteFile(path, []byte(path), 0o644); err != nil {
		return err
	}
	blob, err := j.catalog.Upload(context.Background(), fmt.Sprintf("%s/%d", j.run, n), path)
	j.files[n] = blob
	return err
}

func (j *job) checkpoint(n record.CheckpointID) (record.Blob, error) {
	if err := j.upload(n); err != nil {
		return record.Blob{}, err
	}
	m := sample(n)
	m.Job, m.Attempt, m.Run = "", j.attempt, j.run
	m.States[0].Blobs, m.States[0].Paths = nil, nil
	for id := n; id > n-3; id-- {
		if blob, ok := j.files[id]; ok {
			m.States[0].Blobs = append(m.States[0].Blobs, blob)
			m.States[0].Paths = append(m.States[0].Paths, fmt.Sprint(id))
		}
	}
	return j.catalog.Write(context.Background(), m)
}

// intact fails unless a checkpoint reads and all its files are what they were.
func intact(t testing.TB, c *checkpoint.Catalog, location string) {
	t.Helper()
	m, err := c.Read(context.Background(), location, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(context.Background(), m); err != nil {
		t.Fatal(err)
	}
}

func ids(refs []checkpoint.Ref) []record.CheckpointID {
	var list []record.CheckpointID
	for _, r := range refs {
		list = append(list, r.Checkpoint)
	}
	return list
}

func listed(t testing.TB, c *checkpoint.Catalog, want ...record.CheckpointID) {
	t.Helper()
	refs, err := c.List(context.Background())
	if err != nil || !slices.Equal(ids(refs), want) {
		t.Fatalf("checkpoints are %v (%v), want %v", ids(refs), err, want)
	}
	for _, r := range refs {
		intact(t, c, r.Location)
	}
}

func TestCatalog(t *testing.T) {
	c := newCatalog(t, newDir(t, t.TempDir()))
	listed(t, c)
	first, err := c.Write(context.Background(), sample(9))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Write(context.Background(), sample(9)); err != nil || again != first {
		t.Fatalf("the same manifest again: %v, %v", again, err)
	}
	other := sample(9)
	other.Positions[0].Offset++
	if _, err := c.Write(context.Background(), other); !errors.Is(err, checkpoint.ErrExists) {
		t.Fatalf("another manifest under the same name: %v, want ErrExists", err)
	}
	if m, err := c.Read(context.Background(), first.Name, first.SHA256); err != nil || m.Positions[0].Offset != 17 {
		t.Fatalf("read %+v, %v", m, err)
	}
	for _, n := range []record.CheckpointID{10, 11} {
		if _, err := c.Write(context.Background(), sample(n)); err != nil {
			t.Fatal(err)
		}
	}
	prepared, err := c.Prepared(context.Background(), 9)
	if want := []record.CheckpointID{10, 11}; err != nil || !slices.Equal(ids(prepared), want) {
		t.Fatalf("prepared after 9 are %v (%v), want %v", ids(prepared), err, want)
	}
	if _, err := checkpoint.NewCatalog(newDir(t, t.TempDir()), "../job"); err == nil {
		t.Fatal("a job name that leaves the folder was accepted")
	}
}

func TestVerifyNamesEveryDamagedFile(t *testing.T) {
	root := t.TempDir()
	c := newCatalog(t, newDir(t, root))
	j := newJob(c, 1, t.TempDir())
	for n := record.CheckpointID(1); n <= 3; n++ {
		if _, err := j.checkpoint(n); err != nil {
			t.Fatal(err)
		}
	}
	listed(t, c, 3, 2, 1)
	replace(t, filepath.Join(root, j.files[3].Name), "other")
	if err := os.Remove(filepath.Join(root, j.files[2].Name)); err != nil {
		t.Fatal(err)
	}
	refs, err := c.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Read(context.Background(), refs[0].Location, "")
	if err != nil {
		t.Fatal(err)
	}
	err = c.Verify(context.Background(), m)
	for n, damaged := range map[record.CheckpointID]bool{1: false, 2: true, 3: true} {
		if namesFile(err, j.files[n].Name) != damaged {
			t.Errorf("file of checkpoint %d damaged: %v; Verify says %v", n, damaged, err)
		}
	}
	at := filepath.Join(t.TempDir(), "f")
	if err := c.Download(context.Background(), j.files[2], at); !namesFile(err, j.files[2].Name) {
		t.Errorf("downloading a missing file: %v, want CorruptError", err)
	}
}

// replace puts a new file under a name, so that links to the old one keep theirs.
func replace(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// namesFile says whether a CorruptError with the file's name is in err.
func namesFile(err error, file string) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return namesFile(e, file) })
	}
	var corrupt *checkpoint.CorruptError
	return errors.As(err, &corrupt) && corrupt.File == file
}

func collect(t *testing.T, c *checkpoint.Catalog, r checkpoint.Retention, want checkpoint.Collected) {
	t.Helper()
	if got, err := c.Collect(context.Background(), r, time.Now()); err != nil || got != want {
		t.Fatalf("collected %+v (%v), want %+v", got, err, want)
	}
}

func TestCollect(t *testing.T) {
	c := newCatalog(t, newDir(t, t.TempDir()))
	j := newJob(c, 1, t.TempDir())
	for n := record.CheckpointID(1); n <= 8; n++ {
		if _, err := j.checkpoint(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.upload(9); err != nil { // a checkpoint under way
		t.Fatal(err)
	}
	keep := checkpoint.Retention{Keep: 2, Committed: 6, Run: j.run}
	collect(t, c, keep, checkpoint.Collected{Manifests: 4, Blobs: 2}) // 5 needs the files of 3 and 4
	listed(t, c, 8, 7, 6, 5)
	collect(t, c, keep, checkpoint.Collected{})
	if _, err := j.checkpoint(9); err != nil {
		t.Fatal(err)
	}
	listed(t, c, 9, 8, 7, 6, 5)

	// A new attempt goes on from 7; what the old one left beyond that goes as soon as 8 and 9 are made again.
	next := newJob(c, 2, t.TempDir())
	for n := record.CheckpointID(8); n <= 9; n++ {
		if _, err := next.checkpoint(n); err != nil {
			t.Fatal(err)
		}
	}
	listed(t, c, 9, 9, 8, 8, 7, 6, 5)
	// The deposed run knows of 7 only and takes nothing from its successor.
	if err := next.upload(10); err != nil {
		t.Fatal(err)
	}
	collect(t, c, checkpoint.Retention{Keep: 1, Committed: 7, Run: j.run}, checkpoint.Collected{Manifests: 2, Blobs: 2})
	if _, err := next.checkpoint(10); err != nil {
		t.Fatal(err)
	}
	listed(t, c, 10, 9, 9, 8, 8, 7)
	// All that was tried under a number counts once.
	collect(t, c, checkpoint.Retention{Keep: 2, Committed: 9, Run: next.run}, checkpoint.Collected{Manifests: 1, Blobs: 1})
	listed(t, c, 10, 9, 9, 8, 8)
	collect(t, c, checkpoint.Retention{Keep: 1, Committed: 10, Run: next.run}, checkpoint.Collected{Manifests: 4, Blobs: 4})
	listed(t, c, 10)
}

// TestCollectKeepsFallback damages a committed manifest: the one before stays.
func TestCollectKeepsFallback(t *testing.T) {
	root := t.TempDir()
	c := newCatalog(t, newDir(t, root))
	j := newJob(c, 1, t.TempDir())
	for n := record.CheckpointID(1); n <= 4; n++ {
		blob, err := j.checkpoint(n)
		if err != nil {
			t.Fatal(err)
		}
		if n == 4 {
			replace(t, filepath.Join(root, blob.Name), "{")
		}
	}
	collect(t, c, checkpoint.Retention{Keep: 1, Committed: 4, Run: j.run}, checkpoint.Collected{Manifests: 2})
	refs, err := c.List(context.Background())
	if want := []record.CheckpointID{4, 3}; err != nil || !slices.Equal(ids(refs), want) {
		t.Fatalf("checkpoints are %v (%v), want %v", ids(refs), err, want)
	}
	intact(t, c, refs[1].Location)
}

func TestCollectRefuses(t *testing.T) {
	c := newCatalog(t, newDir(t, t.TempDir()))
	j := newJob(c, 1, t.TempDir())
	if _, err := j.checkpoint(1); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]checkpoint.Retention{
		"none kept":                 {Committed: 1, Run: j.run},
		"nothing committed":         {Keep: 1, Run: j.run},
		"no run":                    {Keep: 1, Committed: 1},
		"committed is not listed":   {Keep: 1, Committed: 2, Run: j.run},
		"committed was before that": {Keep: 1, Committed: 7, Run: j.run},
	} {
		if got, err := c.Collect(context.Background(), r, time.Now()); err == nil || got != (checkpoint.Collected{}) {
			t.Errorf("%s: collected %+v, %v", name, got, err)
		}
	}
	listed(t, c, 1)
}

func TestFailedFsyncIsFatal(t *testing.T) {
	fail := false
	d, err := checkpoint.FaultyDir(t.TempDir(), func(call string) error {
		if fail && call == "sync" {
			return syscall.EIO
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	fail = true
	if _, err := d.Create(context.Background(), "job/f", []byte("x")); !errors.Is(err, checkpoint.ErrSync) {
		t.Fatalf("EIO from fsync: %v, want ErrSync", err)
	}
	if _, err := d.Open(context.Background(), "job/f"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatalf("a file that could not be synced has its name: %v", err)
	}
	if checkpoint.SyncErrorIsFatal(syscall.ENOSPC) || !checkpoint.SyncErrorIsFatal(syscall.EIO) {
		t.Fatal("a full disk is no fatal error, EIO is one")
	}
}
