package checkpoint_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/checkpoint/checkpointtest"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(killedEnv); job != "" {
		killed(job)
		return
	}
	goleak.VerifyTestMain(m)
}

func TestDir(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return newDir(t, t.TempDir()) })
}

func newDir(t *testing.T, root string) *checkpoint.Dir {
	t.Helper()
	d, err := checkpoint.NewDir(root)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSweepLeavesYoungFiles(t *testing.T) {
	root := t.TempDir()
	d := newDir(t, root)
	left := filepath.Join(root, ".tmp", "left")
	if err := os.WriteFile(left, []byte("half a fi"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := d.Sweep(context.Background(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err != nil {
		t.Fatal("a young file was swept")
	}
	if err := d.Sweep(context.Background(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("an old file was left: %v", err)
	}
}

// TestOtherFileSystem uploads from and fetches to a file system that the store cannot link with.
func TestOtherFileSystem(t *testing.T) {
	here := newDir(t, t.TempDir())
	there := tmpfs(t, "1m")
	path := filepath.Join(there, "f")
	if err := os.WriteFile(path, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	blob, err := here.CreateFrom(context.Background(), "job/f", path)
	if err != nil {
		t.Fatal(err)
	}
	back := filepath.Join(there, "back")
	if err := here.Fetch(context.Background(), blob, back); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(back); err != nil || string(got) != "content" {
		t.Fatalf("fetched %q, %v", got, err)
	}
}

// TestDiskFull fills the disk under the store: the error says so, leaves nothing behind, and the next try does.
func TestDiskFull(t *testing.T) {
	root := tmpfs(t, "1m")
	d := newDir(t, root)
	filler := filepath.Join(root, "filler")
	if err := os.WriteFile(filler, make([]byte, 900<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 300<<10)
	for range 3 {
		if _, err := d.Create(context.Background(), "job/f", content); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("on a full disk: %v, want ENOSPC", err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(root, ".tmp")); err != nil || len(left) > 0 {
		t.Fatalf("failed writes left %v, %v", left, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(context.Background(), "job/f", content); err != nil {
		t.Fatal(err)
	}
}

// tmpfs mounts a file system of its own.
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

// TestOpenDirReadsWithoutWriting opens a store as one does that this process may not write to, and one that is not there.
func TestOpenDirReadsWithoutWriting(t *testing.T) {
	root := t.TempDir()
	if _, err := newDir(t, root).Create(t.Context(), "a/b", []byte("content")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, ".tmp")); err != nil {
		t.Fatal(err)
	}
	d, err := checkpoint.OpenDir(root)
	if err != nil {
		t.Fatal(err)
	}
	if names, err := d.List(t.Context(), "a"); err != nil || len(names) != 1 {
		t.Errorf("listed %v, error %v", names, err)
	}
	if _, err := os.Stat(filepath.Join(root, ".tmp")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opening a store for reading made a folder in it: %v", err)
	}
	if _, err := checkpoint.OpenDir(filepath.Join(root, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a store that is not there: %v", err)
	}
}
