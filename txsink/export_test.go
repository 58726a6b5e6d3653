package txsink

import (
	"testing"

	"github.com/weirstream/weir/barrier"
	"github.com/weirstream/weir/record"
)

// PermitFor takes a coordinator core through one checkpoint, the only way to get a permit.
func PermitFor(t *testing.T, n record.CheckpointID, id record.Identity) barrier.Permit {
	t.Helper()
	core, err := barrier.NewCoordinator(barrier.CoordinatorOptions{Subtasks: 1, Next: n, Slots: 2, MaxInFlight: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []barrier.Event{
		barrier.Begin{}, barrier.TransactionOpened{Slot: 0, Identity: id},
		barrier.TransactionOpened{Slot: 1, Identity: record.Identity{TransactionalID: "other"}}, barrier.IntervalElapsed{},
		barrier.Acknowledged{Checkpoint: n}, barrier.Prepared{Checkpoint: n},
	} {
		for _, a := range core.Step(e) {
			if c, ok := a.(barrier.Commit); ok {
				return c.Permit
			}
		}
	}
	t.Fatal("no permit")
	return barrier.Permit{}
}
