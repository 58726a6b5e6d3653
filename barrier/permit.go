package barrier

import (
	"fmt"

	"github.com/weirstream/weir/record"
)

// Permit allows the transaction of one checkpoint to be committed. Only the cores of this package make one, when the
// checkpoint may become visible: a function that commits asks for a Permit, so no other path can lead there. The zero
// Permit allows nothing.
type Permit struct {
	checkpoint record.CheckpointID
	identity   record.Identity
}

// Checkpoint returns the checkpoint that may be committed, 0 for the zero Permit.
func (p Permit) Checkpoint() record.CheckpointID { return p.checkpoint }

// Identity returns the transaction that holds the results of the checkpoint.
func (p Permit) Identity() record.Identity { return p.identity }

// String names the checkpoint and its transaction, for logs.
func (p Permit) String() string {
	return fmt.Sprintf("permit for checkpoint %d in %v", p.checkpoint, p.identity)
}
