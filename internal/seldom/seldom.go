// Package seldom keeps a log readable while the same thing fails many times a second.
package seldom

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Every is the least time between two lines of one Log.
const Every = 5 * time.Second

// Log writes lines of one kind: the first at once, then at most one in Every, which tells how many were left out. The zero
// value is ready. Any goroutine may use it.
type Log struct {
	mu      sync.Mutex
	last    time.Time
	skipped int
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

func (l *Log) due(now time.Time) (skipped int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() && now.Sub(l.last) < Every {
		l.skipped++
		return 0, false
	}
	skipped, l.skipped, l.last = l.skipped, 0, now
	return skipped, true
}
