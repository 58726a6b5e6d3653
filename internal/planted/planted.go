// Package planted holds the switches of bugs that are planted on purpose, to show that the checks find them. A build tag plants
// one; without a tag Is is constant and false, so nothing of a bug is left in the binary. tests/planted builds each and
// runs it until the checker is red.
package planted

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"time"

	"github.com/weirstream/weir/record"
)

// Bug is a fault that a build tag plants.
type Bug uint8

// The bugs, each with its build tag.
const (
	// None is what an ordinary build has.
	None Bug = iota
	// CommitBeforeDurable commits a checkpoint while its manifest is still being written. Tag bug_commit_before_durable.
	CommitBeforeDurable
	// SkipAlignment does not hold a channel that has delivered its barrier. Tag bug_skip_alignment.
	SkipAlignment
	// DropBuffered loses a record on its way between subtasks now and then. Tag bug_drop_buffered.
	DropBuffered
	// ReuseLocalStore goes on with the state that a killed process left, instead of the checkpoint's. Tag
	// bug_reuse_local_store.
	ReuseLocalStore
	// IgnoreFencing takes new transactional ids at each start and leaves the old ones alone. Tag bug_ignore_fencing.
	IgnoreFencing
	// InvalidStateIsSuccess takes any answer to EndTxn for a commit. Tag bug_invalid_state_is_success.
	InvalidStateIsSuccess
	// LoseDelta leaves the last change out of a snapshot. Tag bug_lose_delta.
	LoseDelta
	// WriteAhead sends what belongs to the next transaction before this one's is acknowledged. Tag bug_write_ahead.
	WriteAhead
)

// Is says whether bug b is planted in this binary.
func Is(b Bug) bool { return active == b }

// Later does something after a while, too late for a kill that comes first, and returns the blob that it will be.
func Later(name string, content []byte, do func()) record.Blob {
	time.AfterFunc(2*time.Second, do)
	digest := sha256.Sum256(content)
	return record.Blob{Name: name, Size: int64(len(content)), SHA256: hex.EncodeToString(digest[:])}
}

// Now is true once in a while, at random.
func Now() bool { return rand.IntN(500) == 0 }
