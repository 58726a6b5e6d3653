// Package checkpoint keeps checkpoints where they outlive the instances: files in a store, and a manifest for each
// checkpoint that names them.
//
// # Data flow
//
//	statestore ── Upload ──▶ Catalog ──▶ Store: <job>/shared/<run>/…                 (state, shared by checkpoints)
//	coordinator ─ Write ───▶ Catalog ──▶ Store: <job>/chk-<id>-<run>/manifest.json   (positions, state handles)
//	              location and digest of the manifest ──▶ the witness in Kafka's transaction
//	recovery ──── Read, Verify, Download ◀── Catalog ◀── Store
//	after commits ── Collect ──▶ Catalog: manifests beyond the retention first, then blobs that none refers to
//
// A manifest says what a checkpoint would be; only the witness in Kafka says that it happened. So everything here may be
// ahead of the truth, and nothing of what the truth may need is ever taken away.
//
// # What is durable when
//
// Store.Create returns when content and name survive a power cut: content first (written under another name, fsync), then
// the name (hard link, which fails if the name is taken), then the folder (fsync). Readers therefore see a file whole or
// not at all, and two writers of one name cannot both win.
//
// # Traps
//
//   - A hard link shares bytes. Uploads link files that their owner promises never to change; Pebble keeps that promise
//     for its tables and unlinks them when obsolete, which leaves the link intact. Files that Pebble appends to are
//     copied by it for each of its checkpoints.
//   - Names of Pebble's files repeat after a restore with other content, hence the run in every name. Create refuses
//     other content under a taken name, so a slip shows at once.
//   - Nobody can know that a run is dead, least of all a process that was stopped for an hour and goes on collecting. A
//     run carries its attempt; a collector touches blobs without a reference only of attempts before its own.
//   - A blob that is live in a checkpoint under way was live in every checkpoint of that run before it. So what no
//     retained manifest refers to, but a removed one does, is dead for good; what no manifest ever referred to may belong
//     to a checkpoint under way.
package checkpoint
