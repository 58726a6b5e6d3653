package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/weirstream/weir/record"
)

// Errors of a store, by what the caller can do.
var (
	// ErrExists means that a name is taken by other content. Trying again does not help.
	ErrExists = errors.New("exists with other content")
	// ErrNotFound means that a name is not there.
	ErrNotFound = errors.New("not found in the checkpoint store")
	// ErrInvalid means that a manifest has faults: of the program, not of the store.
	ErrInvalid = errors.New("the manifest is not valid")
	// ErrSync means that the operating system could not make a file durable. The process must end: the next fsync may
	// succeed although the content is lost.
	ErrSync = errors.New("fsync failed")
)

// CorruptError means that a file of a checkpoint is missing or is not what was written. Another checkpoint must be used.
type CorruptError struct {
	// File is its name in the store.
	File  string
	Cause error
}

// Error names the file and what to do.
func (c *CorruptError) Error() string {
	return fmt.Sprintf("checkpoint file %s is damaged (%v): restore from another checkpoint", c.File, c.Cause)
}

// Unwrap returns the cause.
func (c *CorruptError) Unwrap() error { return c.Cause }

// Store keeps immutable files by name. Names are paths with forward slashes, see ValidName. All methods may be called by
// any goroutine, and by several processes on one store. Errors other than those above may pass: try again.
type Store interface {
	// Create makes content durable under a name. If the name is taken by the same content, it succeeds; by other
	// content, it fails with ErrExists.
	Create(ctx context.Context, name string, content []byte) (record.Blob, error)
	// CreateFrom does the same with a file that never changes again, and may link to it.
	CreateFrom(ctx context.Context, name, path string) (record.Blob, error)
	// Open reads a file; ErrNotFound if it is not there.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Fetch puts a blob at path, where nothing is yet, after checking size and digest (CorruptError). The file may share its
	// storage with the store and must not be written to.
	Fetch(ctx context.Context, blob record.Blob, path string) error
	// List returns the names below a folder, sorted; none if there is no such folder.
	List(ctx context.Context, folder string) ([]string, error)
	// Remove takes a name away durably; it is no error if it is not there.
	Remove(ctx context.Context, name string) error
	// Sweep removes what writers that died before the given time have left behind outside of any name.
	Sweep(ctx context.Context, before time.Time) error
}

var nameElement = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$`)

const maxNameLength = 1000

// ValidName says whether name may be used in a store: elements of letters, digits, dots, dashes and underscores that do
// not begin with a dot, separated by slashes.
func ValidName(name string) bool {
	if len(name) > maxNameLength {
		return false
	}
	for element := range strings.SplitSeq(name, "/") {
		if !nameElement.MatchString(element) {
			return false
		}
	}
	return true
}
