package statestore

import "github.com/weirstream/weir/record"

// A table larger than the processor's caches costs two waits for memory per record, one for the slot of the index and one for
// the entry. Waits for addresses that do not depend on each other overlap: so before a run of keys is worked on, all of their
// slots are loaded, and then all of the entries that those lead to. That changes nothing; the calls that follow find them in
// the caches.

const (
	// warmAhead is the number of addresses whose loads overlap.
	warmAhead = 32
	// warmFrom is the memory of a store from where on warming pays: below that, the caches hold it.
	warmFrom = 1 << 20
)

// warmer is the scratch memory of Warm.
type warmer struct {
	shards [warmAhead]*shard
	slots  [warmAhead]uint64
	places [warmAhead]uint32
	// sum depends on all that was loaded, so that no load is left out.
	sum uint64
}

// Warm brings what the next calls for the keys of the first records will touch into the caches of the processor, and returns how
// many records it looked at: all, where there is nothing to gain. Their key groups must be computed.
func (t *Table) Warm(records []record.Record) int {
	if t.store.bytes < warmFrom {
		return len(records)
	}
	w, n := &t.warm, 0
	records = records[:min(len(records), warmAhead)]
	for i := range records {
		r := &records[i]
		if uint(r.Group) >= uint(len(t.shards)) || t.shards[r.Group] == nil || r.Key == nil {
			continue
		}
		w.shards[n], w.places[n] = t.shards[r.Group], t.hash(r.Key)
		n++
	}
	for i, s := range w.shards[:n] {
		w.slots[i] = s.index[w.places[i]&uint32(len(s.index)-1)]
	}
	sum := w.sum
	for i, s := range w.shards[:n] {
		if ref := uint32(w.slots[i]); ref != 0 {
			sum += uint64(s.arena.entry(ref)[0])
		}
	}
	w.sum = sum
	return len(records)
}

// warmEntries does the same for entries that are to be read.
func warmEntries(chunks [][]byte, refs []uint32) (sum uint64) {
	for _, ref := range refs {
		sum += uint64(entryAt(chunks, ref)[0])
	}
	return sum
}
