package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/task"
)

// storeWrites carries out the writes to the checkpoint store, again and again while they fail. A checkpoint cannot be skipped,
// since its results are in Kafka already: so a write is tried until it succeeds or the attempt ends, which happens when the
// checkpoint's transaction comes near its timeout. Any goroutine may use it.
type storeWrites struct {
	path   string
	logger *slog.Logger
	mu     struct {
		sync.Mutex
		retries int64
		// failing are the writes under way that failed at least once, oldest first.
		failing []*storeWrite
	}
}

// storeWrite is a write that failed and is tried again.
type storeWrite struct {
	what  string
	since time.Time
	// tries is how many have failed, the last one with last. The writer changes them under the lock.
	tries int
	last  error
}

// StoreError says what could not be written to the checkpoint store.
type StoreError struct {
	// Path is the folder of the store, What what should have been written.
	Path, What string
	// Tries is how often it was tried since Since.
	Tries int
	Since time.Time
	// Last is the error of the last try.
	Last error
}

// Error names what was to be written and where, how often it was tried, and a cure where one is known.
func (e *StoreError) Error() string {
	tried := ""
	if e.Tries > 1 {
		tried = fmt.Sprintf(" in %d tries since %s", e.Tries, e.Since.Format(time.TimeOnly))
	}
	return fmt.Sprintf("%s could not be written to the checkpoint store %s%s: %v%s", e.What, e.Path, tried, e.Last, storeCure(e.Last))
}

// Unwrap returns the error of the last try.
func (e *StoreError) Unwrap() error { return e.Last }

// Final says that writing it again, in another attempt too, would fail the same way.
func (e *StoreError) Final() bool {
	return errors.Is(e.Last, fs.ErrPermission) || errors.Is(e.Last, checkpoint.ErrSync) || errors.Is(e.Last, statestore.ErrSync) ||
		errors.Is(e.Last, statestore.ErrInlineLimit)
}

// storeCure is what a person can do about an error of the store, where there is something.
func storeCure(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "; give the user of this process the right to write there"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "; free some space there"
	case errors.Is(err, checkpoint.ErrSync), errors.Is(err, statestore.ErrSync):
		return "; the disk does not keep what it is given, replace it before the next start"
	}
	return fileCure(err)
}

// fileCure is what a person can do where a process has too many files open, "" for other errors.
func fileCure(err error) string {
	var limit syscall.Rlimit
	switch {
	case errors.Is(err, syscall.ENFILE):
		return "; this machine has too many files open: raise fs.file-max"
	case !errors.Is(err, syscall.EMFILE):
		return ""
	case syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil:
		return "; raise the number of files that this process may have open (ulimit -n)"
	}
	return fmt.Sprintf("; this process may have %d files open, connections among them: raise that (ulimit -n, LimitNOFILE= of systemd, "+
		"--ulimit nofile= of docker run)", limit.Cur)
}

// repeatable says whether a failed write may succeed when it is tried again: a full disk, a store that is not mounted or only
// for reading, anything that is not known to last.
func repeatable(err error) bool {
	final := &StoreError{Last: err}
	var corrupt *checkpoint.CorruptError
	return !final.Final() && !errors.Is(err, task.ErrStateLost) && !errors.Is(err, statestore.ErrOrder) &&
		!errors.Is(err, checkpoint.ErrExists) && !errors.Is(err, checkpoint.ErrInvalid) && !errors.As(err, &corrupt)
}

// Pauses between two tries.
const (
	storePauseMin = 50 * time.Millisecond
	storePauseMax = 5 * time.Second
)

// write tries until it succeeds, fails for good (*StoreError), or ctx ends.
func (s *storeWrites) write(ctx context.Context, what string, try func(context.Context) error) error {
	w := &storeWrite{what: what, since: time.Now()}
	for pause := storePauseMin; ; pause = min(2*pause, storePauseMax) {
		err := try(ctx)
		switch {
		case err == nil:
			s.succeeded(w)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if !repeatable(err) {
			return &StoreError{s.path, w.what, w.tries + 1, w.since, err}
		}
		s.failed(w, err)
		if err := kafka.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// failed notes a failed try. The log tells of the first, not of each: what fails is the store, for all that write to it.
func (s *storeWrites) failed(w *storeWrite, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.failing) == 0 {
		s.logger.Warn("the checkpoint store fails, trying again until the transaction nears its timeout", "store", s.path, "writing", w.what,
			"error", err)
	}
	if w.tries == 0 {
		s.mu.failing = append(s.mu.failing, w)
	}
	w.last = err
	w.tries++
	s.mu.retries++
}

func (s *storeWrites) succeeded(w *storeWrite) {
	if w.tries == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.mu.failing {
		if f == w {
			s.mu.failing = append(s.mu.failing[:i], s.mu.failing[i+1:]...)
			break
		}
	}
	if len(s.mu.failing) == 0 {
		s.logger.Info("the checkpoint store takes what is written again", "store", s.path, "after", time.Since(w.since).Round(time.Millisecond),
			"tries", w.tries+1)
	}
}

// begin forgets the writes of the attempt before.
func (s *storeWrites) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.failing = nil
}

// failure is what has been failing longest, nil where nothing does.
func (s *storeWrites) failure() *StoreError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.failing) == 0 {
		return nil
	}
	w := s.mu.failing[0]
	return &StoreError{s.path, w.what, w.tries, w.since, w.last}
}

// fill adds the store to a status.
func (s *storeWrites) fill(to *admin.Status) {
	to.Store = admin.Store{Path: s.path}
	if f := s.failure(); f != nil {
		to.Store.FailingSince, to.Store.Error = f.Since, f.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	to.Store.Retries = s.mu.retries
}
