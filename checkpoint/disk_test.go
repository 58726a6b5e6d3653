package checkpoint

import (
	"errors"
	"os"
	"syscall"
)

// FaultyDir returns a store in a folder, where each call to the operating system is announced before it is made. An
// error from before is what the call then answers, without being made.
func FaultyDir(root string, before func(call string) error) (*Dir, error) {
	return newDir(root, faulty{before})
}

type faulty struct{ before func(call string) error }

func (f faulty) create(path string) (*os.File, error) {
	if err := f.before("create"); err != nil {
		return nil, err
	}
	return system{}.create(path)
}

func (f faulty) sync(file *os.File) error {
	if err := f.before("sync"); err != nil {
		return syncError(err)
	}
	return system{}.sync(file)
}

func (f faulty) link(from, to string) error {
	if err := f.before("link"); err != nil {
		return err
	}
	return system{}.link(from, to)
}

func (f faulty) remove(path string) error {
	if err := f.before("remove"); err != nil {
		return err
	}
	return system{}.remove(path)
}

func (f faulty) syncFolder(path string) error {
	if err := f.before("sync folder"); err != nil {
		return syncError(err)
	}
	return system{}.syncFolder(path)
}

// SyncErrorIsFatal tells how a failed fsync is classed.
func SyncErrorIsFatal(err syscall.Errno) bool { return errors.Is(syncError(err), ErrSync) }
