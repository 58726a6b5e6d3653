// Package statestore keeps keyed state: tables in memory, a Pebble database beneath, and snapshots at barriers. A Store
// belongs to one operator in one subtask, since a barrier reaches the operators of a subtask at different moments.
//
// # Data flow
//
//	operator ── Upsert ──▶ Table ─▶ shard (one per key group): index + arena          owner goroutine
//	                                  │ barrier n: Freeze
//	                                  ▼
//	                               Snapshot: slices of index, chunks and dirty list    background goroutine
//	                                  │ Persist
//	                                  ├─ pebble: delta of what changed ─▶ upload; now and then all deltas as one, or a base:
//	                                  │          sorted table ─▶ Ingest ─▶ Checkpoint ─▶ upload of new files
//	                                  ├─ fs:     dump in one file ─▶ upload
//	                                  └─ memory: dump inside the handle
//
// Two goroutines take part: the owner, which is the subtask's loop, and one that runs Persist for one snapshot after the
// other. Open reads handles of any back end, so a job may change its back end through a checkpoint.
//
// # Why the background needs no lock
//
// Every change belongs to a generation, which Freeze ends. An entry carries the generation that last changed it. The
// owner changes bytes of an entry in place in two cases only: the entry is of the current generation, which no snapshot
// contains; or its generation is persisted, that is, the snapshot's last read has happened (persisted is raised after it,
// atomically, and the owner reads it before the change). In any other case the owner writes a new entry and points the
// index at it. A base and a full dump (memory, fs) read entries of older generations too, so while one is pending only
// the current generation changes in place (memory.walked).
//
// What surrounds the entries is safe too. A snapshot holds the slices of chunks and dirty list as they were: appends
// land behind their length, rebuilds make new ones. Within a chunk the owner writes only behind the entries that were
// there. A base goes through the chunks instead of the index, in which the owner marks what is in use. A full dump walks
// the index as it was, hence the owner copies the index before the first change of a slot after a freeze (shard.walker).
//
// # Bases and deltas
//
// A checkpoint over Pebble is a base, the files of a Pebble checkpoint, and the deltas since (pebble_chain.go). A delta is
// a dump of the entries that one generation changed, in the order in which they lie there. A base moves all that memory
// has and Pebble has not into Pebble: the newest version of each key once, however often it changed since the base
// before. Sorting, filters and compaction are paid for bases only, so a counter that changes in every interval costs a few
// bytes for each. Where the state fits well into memory, not even that: the deltas are folded into one (pebble_fold.go),
// which is written as memory lies, at a tenth of the price.
//
// Freeze makes a base of every snapshot until one is stored after a restore. Later it makes one when memory fills up and much
// of it is not in Pebble; and whenever the deltas have grown to Options.DeltaBytes or maxDeltas it makes a base or a fold,
// whichever is cheaper in the long run (Store.nextExtent). Which files a checkpoint needs is in its handle, so files shared
// by checkpoints stay as long as a manifest names them.
//
// # Why a miss may ask Pebble
//
// An entry leaves memory only when Pebble has its generation (Store.absorbed), so for a key that is not in memory Pebble
// has the newest value, however far the background lags behind. A deleted key stays in memory as a tombstone until then.
// A shard that has never lost a key answers "absent" by itself (shard.incomplete).
//
// Eviction and garbage collection are one operation, the rebuild of a shard, done between two calls when memory has
// grown: a clock hand goes over the shards, and entries that were not touched since it last came by are left out.
//
// # Traps
//
//   - Restore reads checkpoints only. Open empties the folder, since what a crash left there may be newer, older or
//     torn; a table in it is used only if its digest is the checkpoint's. The folder carries a marker file, so that a wrong
//     path in a configuration does not cost somebody's files.
//   - Pebble has no log here (durability comes from checkpoints) and changes reach it as ingested tables only, so that a
//     Pebble checkpoint never misses what sits in a memtable.
//   - Pebble's file names repeat after a restore with other content: uploads carry the name of the run.
//   - A slice from Upsert or Get is valid until the next call on the same table. An operator uses several tables for one
//     record, so nothing moves entries but Tidy, which the subtask calls between two batches.
//   - A failed fsync makes the store unusable (Err): the kernel may have dropped the pages and report success next time.
package statestore
