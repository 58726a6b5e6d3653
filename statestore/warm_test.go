package statestore_test

import (
	"testing"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/statestore"
)

// TestWarmChangesNothing and takes any record, also those that no call will be for.
func TestWarmChangesNothing(t *testing.T) {
	_, c := openBench(t, statestore.Options{})
	const keys = 1 << 15 // beyond what is taken to fit into the caches
	for n := range keys {
		count(t, c, n)
	}
	records := []record.Record{{Group: record.NoGroup, Key: []byte("x")}, {Group: benchGroups, Key: []byte("x")}, {Group: 0}, {Group: 1, Key: []byte("absent")}}
	for n := range keys {
		key := make([]byte, 8)
		records = append(records, record.Record{Group: benchKey(n, key), Key: key})
	}
	for rest := records; len(rest) > 0; {
		n := c.Warm(rest)
		if n < 1 || n > len(rest) {
			t.Fatalf("Warm took notice of %d of %d records", n, len(rest))
		}
		rest = rest[n:]
	}
	if n := testing.AllocsPerRun(10, func() { c.Warm(records) }); n > 0 {
		t.Errorf("Warm allocates %v times", n)
	}
	for _, r := range records[4:] {
		if v, found, err := c.Get(r.Group, r.Key); err != nil || !found || v[7] != 1 {
			t.Fatalf("key %x after Warm: %x, %v, %v", r.Key, v, found, err)
		}
	}
	if _, found, err := c.Get(1, []byte("absent")); found || err != nil {
		t.Errorf("Warm made a key: %v, %v", found, err)
	}
}
