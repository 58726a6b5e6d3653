package sidecar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/task"
)

// failingStore is the tries of a write: it fails with each of the errors, then succeeds.
func failingStore(errs ...error) (try func(context.Context) error, tries *int) {
	tries = new(int)
	return func(context.Context) error {
		*tries++
		if *tries > len(errs) {
			return nil
		}
		return errs[*tries-1]
	}, tries
}

func newStoreWrites() (*storeWrites, *bytes.Buffer) {
	var log bytes.Buffer
	return &storeWrites{path: "/checkpoints", logger: slog.New(slog.NewTextHandler(&log, nil))}, &log
}

func TestAFullStoreIsTriedAgain(t *testing.T) {
	w, log := newStoreWrites()
	full := &fs.PathError{Op: "write", Path: "/checkpoints/x", Err: syscall.ENOSPC}
	try, tries := failingStore(full, full, syscall.EROFS)
	var during admin.Status
	err := w.write(t.Context(), "the manifest of checkpoint 7", func(ctx context.Context) error {
		w.fill(&during)
		return try(ctx)
	})
	if err != nil || *tries != 4 {
		t.Fatalf("%d tries, error %v", *tries, err)
	}
	if s := during.Store; s.Retries != 3 || s.FailingSince.IsZero() || !strings.Contains(s.Error, "the manifest of checkpoint 7") ||
		!strings.Contains(s.Error, "/checkpoints in 3 tries") || !strings.Contains(s.Error, "read-only") {
		t.Errorf("while it fails: %+v", s)
	}
	var after admin.Status
	if w.fill(&after); after.Store.Retries != 3 || after.Store.Error != "" || !after.Store.FailingSince.IsZero() {
		t.Errorf("afterwards: %+v", after.Store)
	}
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines for one outage:\n%s", n, log)
	}
}

func TestTooManyOpenFilesNameTheLimit(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{syscall.EMFILE: "LimitNOFILE=", syscall.ENFILE: "fs.file-max", syscall.EIO: ""} {
		cure := fileCure(fmt.Errorf("restore: %w", &fs.PathError{Op: "open", Path: "x", Err: errno}))
		if !strings.Contains(cure, want) || want == "" && cure != "" {
			t.Errorf("%v: %q, want %q", errno, cure, want)
		}
	}
}

func TestAFolderThatCannotBeUsedNamesItsKey(t *testing.T) {
	for cause, want := range map[error]bool{fs.ErrPermission: true, syscall.EACCES: true, syscall.ENOTDIR: false} {
		err := placeError("state.dir", &fs.PathError{Op: "mkdir", Path: "/var/lib/weir", Err: cause})
		if !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "state.dir: ") || strings.Contains(err.Error(), "another folder") != want {
			t.Errorf("%v: %v", cause, err)
		}
	}
}

func TestWhatLastsIsNotTriedAgain(t *testing.T) {
	for _, c := range []struct {
		err   error
		final bool
		cure  string
	}{
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, true, "give the user of this process the right"},
		{fmt.Errorf("%w: broken", task.ErrStateLost), false, ""},
	} {
		w, log := newStoreWrites()
		try, tries := failingStore(c.err, c.err)
		err := w.write(t.Context(), "the manifest of checkpoint 7", try)
		var store *StoreError
		if !errors.As(err, &store) || !errors.Is(err, c.err) || *tries != 1 {
			t.Errorf("%v: %d tries, error %v", c.err, *tries, err)
			continue
		}
		if final(err) != c.final || !strings.Contains(err.Error(), c.cure) || log.Len() > 0 {
			t.Errorf("final %t, %v\n%s", final(err), err, log)
		}
	}
}

func TestTheEndOfAnAttemptEndsTheTries(t *testing.T) {
	w, _ := newStoreWrites()
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	err := w.write(ctx, "the manifest of checkpoint 7", func(context.Context) error {
		cancel(over)
		return syscall.ENOSPC
	})
	if !errors.Is(err, over) {
		t.Errorf("error %v", err)
	}
	cancelled, stop := context.WithCancelCause(t.Context())
	_ = w.write(cancelled, "the manifest of checkpoint 8", func(context.Context) error {
		if w.failure() != nil {
			stop(over)
		}
		return syscall.ENOSPC
	})
	if f := w.failure(); f == nil || f.What != "the manifest of checkpoint 8" || !errors.Is(f, syscall.ENOSPC) {
		t.Errorf("what failed is not known any more: %v", f)
	}
}
