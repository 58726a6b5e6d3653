//go:build failpoints

package failpoint

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// passes counts those of the chosen moment.
var passes atomic.Int64 //nolint:gochecknoglobals // the calls have nothing else in common

// Pass is called at a moment.
func Pass(p Point) {
	if Point(os.Getenv("WEIR_FAILPOINT")) != p {
		return
	}
	survived, _ := strconv.ParseInt(os.Getenv("WEIR_FAILPOINT_AFTER"), 10, 64) // absent: none
	if passes.Add(1) > survived {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}
