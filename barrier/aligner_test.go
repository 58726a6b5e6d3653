package barrier

import (
	"testing"

	"github.com/weirstream/weir/record"
)

func TestAlignerNeverAllocates(t *testing.T) {
	a, n := NewAligner(4, Aligned), record.CheckpointID(0)
	if allocs := testing.AllocsPerRun(100, func() {
		n++
		b := record.Barrier{Checkpoint: n, Attempt: 1, Next: record.Identity{TransactionalID: "weir-0", ProducerID: 1}}
		for channel := range 4 {
			if done, err := a.Arrive(channel, b); err != nil || done != (channel == 3) {
				t.Fatalf("channel %d: done %v, error %v", channel, done, err)
			}
		}
	}); allocs != 0 {
		t.Errorf("%v allocations for a barrier on four channels", allocs)
	}
}
