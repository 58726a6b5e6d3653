package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFault29AFailedFsyncEndsTheProcess has the kernel answer EIO to the n-th fsync of a job, wherever that is: of state, of a
// manifest or of a folder. The process ends and says why, and the next start loses and repeats nothing.
func TestFault29AFailedFsyncEndsTheProcess(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skipf("failing an fsync from outside needs strace: %v", err)
	}
	for _, nth := range []int{1, 7, 20} {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			r := newRig(t)
			file := r.file()
			r.produce(100)
			fault := fmt.Sprintf("inject=fsync,fdatasync:error=EIO:when=%d+", nth)
			r.startUnder([]string{strace, "-f", "-qq", "-o", filepath.Join(r.dir, "trace"), "-e", "trace=fsync,fdatasync", "-e", fault}, "run", file)
			if status := r.ended(60 * time.Second); status != exitFailed || !strings.Contains(r.logged(), "input/output error") {
				t.Fatalf("status %d\n%s", status, r.logged())
			}
			r.produce(100)
			r.start("run", file)
			r.awaitCopies()
			if err := r.instance.Stop(20 * time.Second); err != nil {
				t.Error(err)
			}
		})
	}
}
