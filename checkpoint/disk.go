package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// disk is the calls to the operating system on whose order durability rests. Tests put faults between them.
type disk interface {
	create(path string) (*os.File, error)
	sync(f *os.File) error
	link(from, to string) error
	remove(path string) error
	// syncFolder makes the names in a folder durable.
	syncFolder(path string) error
}

type system struct{}

func (system) create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

func (system) sync(f *os.File) error { return syncError(f.Sync()) }

// syncError marks a failed fsync, after which the process must not go on. A full disk is told apart: then the file is
// thrown away and written anew.
func syncError(err error) error {
	if err == nil || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrSync, err)
}

func (system) link(from, to string) error { return os.Link(from, to) }

func (system) remove(path string) error { return os.Remove(path) }

func (s system) syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(s.sync(f), f.Close())
}
