package checkpoint_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/record"
)

var errCrash = errors.New("the process is gone")

// life makes checkpoints and collects the older ones, and reports each commit. It returns how it ended.
func life(d *checkpoint.Dir, attempt record.Attempt, from record.CheckpointID, dir string, committed func(record.CheckpointID, string)) error {
	c, err := checkpoint.NewCatalog(d, "job")
	if err != nil {
		return err
	}
	j := newJob(c, attempt, dir)
	for n := from + 1; n <= from+4; n++ {
		blob, err := j.checkpoint(n)
		if err != nil {
			return err
		}
		committed(n, blob.Name)
		if _, err := c.Collect(context.Background(), checkpoint.Retention{Keep: 2, Committed: n, Run: j.run}, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// TestCrashAnywhere ends a life before each of its calls to the operating system in turn. Whatever the moment, the last
// committed checkpoint must be whole, and a next life must go on and leave nothing of the dead one.
func TestCrashAnywhere(t *testing.T) {
	for step := 1; ; step++ {
		root, scratch := t.TempDir(), t.TempDir()
		var last record.CheckpointID
		var location string
		note := func(n record.CheckpointID, at string) { last, location = n, at }
		if err := life(newDir(t, root), 1, 0, scratch, note); err != nil {
			t.Fatal(err)
		}
		left := step
		d, err := checkpoint.FaultyDir(root, func(string) error {
			if left--; left <= 0 {
				return errCrash
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = life(d, 2, last, scratch, note)
		if err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		finished := err == nil
		c := newCatalog(t, newDir(t, root))
		intact(t, c, location)
		if err := life(newDir(t, root), 3, last, scratch, note); err != nil {
			t.Fatalf("after a crash at step %d: %v", step, err)
		}
		listed(t, c, last, last-1)
		files, err := filepath.Glob(filepath.Join(root, "job", "shared", "*", "*"))
		if err != nil || len(files) != 4 { // those of the last checkpoint and of the one before
			t.Fatalf("after a crash at step %d these files are left: %v, %v", step, files, err)
		}
		if finished {
			t.Logf("%d steps", step-1)
			return
		}
	}
}

// TestEveryCallFails lets each call fail once: the error comes out, and the same work done again succeeds.
func TestEveryCallFails(t *testing.T) {
	for step := 1; ; step++ {
		left := 0
		d, err := checkpoint.FaultyDir(t.TempDir(), func(string) error {
			if left--; left == 0 {
				return syscall.EIO
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		left = step
		scratch := t.TempDir()
		c := newCatalog(t, d)
		j := newJob(c, 1, scratch)
		_, err = j.checkpoint(1)
		if left > 0 && err == nil {
			return // no call is left to fail
		}
		if !errors.Is(err, syscall.EIO) {
			t.Fatalf("call %d failed, the answer is %v", step, err)
		}
		if _, err := j.checkpoint(1); err != nil {
			t.Fatalf("again after call %d failed: %v", step, err)
		}
		listed(t, c, 1)
	}
}

const killedEnv = "WEIR_TEST_KILLED"

// killed is the process that TestSIGKILL starts: it kills itself before the given call.
func killed(args string) {
	var root, scratch string
	var step int
	var from record.CheckpointID
	if _, err := fmt.Sscan(args, &root, &scratch, &step, &from); err != nil {
		panic(err)
	}
	d, err := checkpoint.FaultyDir(root, func(string) error {
		if step--; step == 0 {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	})
	if err == nil {
		err = life(d, 2, from, scratch, func(n record.CheckpointID, at string) { fmt.Println(n, at) })
	}
	if err != nil {
		panic(err)
	}
}

// TestSIGKILL does as TestCrashAnywhere with a process that really dies.
func TestSIGKILL(t *testing.T) {
	for step := 3; step < 55; step += 9 {
		t.Run(strconv.Itoa(step), func(t *testing.T) { testSIGKILL(t, step) })
	}
}

func testSIGKILL(t *testing.T, step int) {
	root, scratch := t.TempDir(), t.TempDir()
	var last record.CheckpointID
	var location string
	note := func(n record.CheckpointID, at string) { last, location = n, at }
	if err := life(newDir(t, root), 1, 0, scratch, note); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %d", killedEnv, root, scratch, step, last))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(out); in.Scan(); {
		if _, err := fmt.Sscan(in.Text(), &last, &location); err != nil {
			t.Fatal(err)
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v, want SIGKILL", err)
	}
	c := newCatalog(t, newDir(t, root))
	intact(t, c, location)
	if err := life(newDir(t, root), 3, last, scratch, note); err != nil {
		t.Fatal(err)
	}
	listed(t, c, last, last-1)
}
