// Package seldom keeps a log readable while the same thing fails many times a second.
package seldom

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Every is the least time between two lines of one Log.
const Every = 5 * time.Second

// Log writes lines of one kind: the first at once, then at most one in Every, which tells how many were left out. The zero
// value is ready. Any goroutine may use it.
type Log struct {
	// told says that a line was written and Over was not called since.
	told    atomic.Bool
	mu      sync.Mutex
	last    time.Time
	skipped int
	// began is when the trouble that is told of began, tries how often it came.
	began time.Time
	tries int
}

// Warn is what a slog.Logger's is.
func (l *Log) Warn(logger *slog.Logger, msg string, args ...any) {
	skipped, due := l.due(time.Now())
	if !due {
		return
	}
	if skipped > 0 {
		args = append(args, "left_out", skipped)
	}
	logger.Log(context.Background(), slog.LevelWarn, msg, args...)
}

// Over tells, once, that what Warn has told of is over: for how long it lasted, and how often it was tried. It costs next to
// nothing where nothing was told, so whoever succeeds may call it each time.
func (l *Log) Over(logger *slog.Logger, msg string, args ...any) {
	if !l.told.Load() || !l.told.CompareAndSwap(true, false) {
		return
	}
	l.mu.Lock()
	after, tries := time.Since(l.began), l.tries
	l.skipped, l.began, l.tries = 0, time.Time{}, 0
	l.mu.Unlock()
	logger.Log(context.Background(), slog.LevelInfo, msg, append(args, "after", after.Round(time.Millisecond), "tries", tries)...)
}

func (l *Log) due(now time.Time) (skipped int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		l.began = now
	}
	l.tries++
	if !l.last.IsZero() && now.Sub(l.last) < Every {
		l.skipped++
		return 0, false
	}
	skipped, l.skipped, l.last = l.skipped, 0, now
	l.told.Store(true)
	return skipped, true
}
