package sidecar

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/statestore"
)

// lease is the right to use the state folder of a job, held by one process at a time: a second one would empty the folder under
// the first. The kernel takes the lock away with the process, so nothing is left of one that was killed.
type lease struct {
	file *os.File
	// id tells whoever holds the lease of one folder from those of others, over restarts.
	id string
}

// leaseContent is what the file of a lease says.
type leaseContent struct {
	ID string `json:"id"`
	// PID and Instance are of the process that took the lease last.
	PID      int    `json:"pid"`
	Instance string `json:"instance"`
}

const leaseFile = "instance.lock"

// takeLease fails with *AnotherInstanceError where another process has the lease.
func takeLease(s *Settings) (*lease, error) {
	l, err := openLease(s)
	if s.State.Backend == statestore.Memory && err != nil && !errors.As(err, new(*AnotherInstanceError)) {
		return &lease{id: newLeaseID()}, nil // it needs no folder, so none need be there
	}
	return l, err
}

func openLease(s *Settings) (*lease, error) {
	folder := filepath.Join(s.State.Dir, s.Job)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, placeError("state.dir", err)
	}
	f, err := os.OpenFile(filepath.Join(folder, leaseFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, placeError("state.dir", err)
	}
	l := &lease{file: f}
	if err := l.take(s); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// placeError names the key of a folder that cannot be used, and what may be done.
func placeError(key string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s: %w; let the user of this process write there, or name another folder", key, err)
	}
	return fmt.Errorf("%s: %w", key, err)
}

func (l *lease) take(s *Settings) error {
	err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	var content leaseContent
	if text, readErr := io.ReadAll(l.file); readErr == nil {
		_ = json.Unmarshal(text, &content) // what is not to be read is written anew
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return &AnotherInstanceError{
			Job: s.Job, Name: fmt.Sprintf("instance %s, process %d on this machine", content.Instance, content.PID),
			Evidence: "it uses the folder " + filepath.Dir(l.file.Name()), Local: true,
		}
	}
	if err != nil {
		return fmt.Errorf("state.dir: lock %s: %w", l.file.Name(), err)
	}
	if len(content.ID) != checkpoint.InstanceIDLength {
		content.ID = newLeaseID()
	}
	l.id, content.PID, content.Instance = content.ID, os.Getpid(), s.Instance
	text, err := json.Marshal(content)
	if err == nil {
		err = l.file.Truncate(0)
	}
	if err == nil {
		_, err = l.file.WriteAt(append(text, '\n'), 0)
	}
	return err
}

func newLeaseID() string { return strings.ToLower(rand.Text()[:checkpoint.InstanceIDLength]) }

// release lets the lease go.
func (l *lease) release() {
	if l.file != nil {
		_ = l.file.Close() // the lock goes with it
	}
}
