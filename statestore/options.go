package statestore

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Backend says where keyed state lies and how it is snapshot.
type Backend string

// The back ends.
const (
	// Pebble keeps hot keys in memory over a Pebble database; checkpoints are incremental.
	Pebble Backend = "pebble"
	// Memory keeps all in memory; a snapshot travels inside the manifest and is limited to InlineLimit.
	Memory Backend = "memory"
	// FS keeps all in memory; a snapshot is a full dump in one file.
	FS Backend = "fs"
)

// InlineLimit bounds the snapshot of one subtask with the Memory back end, in bytes.
const InlineLimit = 5 << 20

// DefaultCacheBytes is the memory for tables where Options names none.
const DefaultCacheBytes = 256 << 20

// Options configures the store of one operator in one subtask.
type Options struct {
	// Backend is Pebble by default.
	Backend Backend
	// Dir is the folder of this store alone; Open empties it. Memory needs none.
	Dir string
	// CacheBytes is the memory for tables beyond which Pebble evicts clean entries; the other back ends keep all.
	CacheBytes int64
	// DirtyBytes is the size of changes not yet persisted at which Full reports true; half of CacheBytes by default.
	DirtyBytes int64
	// DeltaBytes is the size of changes, with Pebble, that are stored as deltas before they are folded into one or the
	// database takes them up; half of that when the tables fill half of CacheBytes. It is half of CacheBytes by default. It
	// bounds what a restore has to read one entry after the other, and what eviction has to leave in memory.
	DeltaBytes int64
	// Groups is the number of key groups of the job.
	Groups int
	// Subtask is the number of the subtask in the job, Operator the name of the operator.
	Subtask  int
	Operator string
	// Run names this run of the job. Uploads are named Run/Operator/Subtask/…, so it is different for each Open of a
	// store: the names of Pebble's files repeat after a restore with other content.
	Run string
	// Log is slog.Default() by default.
	Log *slog.Logger

	fs vfs.FS // under Pebble; tests put faults there
}

var uploadName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$`)

// String names the store in messages.
func (o Options) String() string {
	return fmt.Sprintf("state of operator %s in subtask %d", o.Operator, o.Subtask)
}

func (o Options) withDefaults() Options {
	if o.Backend == "" {
		o.Backend = Pebble
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.DirtyBytes == 0 {
		o.DirtyBytes = o.CacheBytes / 2
	}
	if o.DeltaBytes == 0 {
		o.DeltaBytes = o.CacheBytes / 2
	}
	if o.Backend == Memory {
		o.Dir = "" // a restore from files of another back end goes through the system's temporary folder
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.fs == nil {
		o.fs = vfs.Default
	}
	return o
}

// Validate reports every fault of o at once; nil means that Open accepts it.
func (o Options) Validate() error {
	o = o.withDefaults()
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	switch o.Backend {
	case Pebble, FS:
		fault(o.Dir == "", "state back end %s needs a folder: set state.dir", o.Backend)
	case Memory:
	default:
		fault(true, "unknown state back end %q: use pebble, memory or fs", o.Backend)
	}
	fault(o.CacheBytes < 1<<20, "state cache of %d bytes is too small: give at least 1 MiB", o.CacheBytes)
	fault(o.DirtyBytes < 0, "limit of %d dirty bytes is negative", o.DirtyBytes)
	fault(o.DeltaBytes < 0, "limit of %d bytes in deltas is negative", o.DeltaBytes)
	fault(o.Groups < 1 || o.Groups > 1<<16, "%d key groups: must be between 1 and 65536", o.Groups)
	fault(o.Subtask < 0, "subtask %d is negative", o.Subtask)
	for what, name := range map[string]string{"run": o.Run, "operator": o.Operator} {
		fault(!uploadName.MatchString(name), "%s %q: must be 1 to 128 letters, digits, dots, dashes or underscores", what, name)
	}
	return errors.Join(faults...)
}
