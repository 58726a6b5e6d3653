package sidecar

import "testing"

// TestTheLimitInProgressCanBeReached, or an alert for it would never fire: one transactional id is always written to.
func TestTheLimitInProgressCanBeReached(t *testing.T) {
	for _, c := range []struct{ ids, max, want int }{{3, 3, 2}, {2, 3, 1}, {8, 3, 3}, {0, 3, 3}} {
		s := Checkpointing{InFlight: c.max, Transactions: c.ids}
		if got := s.inFlight(); got != c.want {
			t.Errorf("%d ids, max_in_flight %d: %d, want %d", c.ids, c.max, got, c.want)
		}
	}
}
