// Package barrier holds the protocol cores of a job: the alignment of barriers, the coordination of checkpoints and the
// life of their transactions.
//
// # Pure cores
//
// A core is a state machine: an event in, a new state and a list of actions out. There is no goroutine, clock,
// randomness or I/O inside, and no lock: one goroutine owns a core, carries its actions out and reports back with
// events. So every interleaving can be explored at small sizes (explore_test.go) and every rule replayed from text
// (testdata).
//
// # What the cores guarantee
//
// Checkpoint N covers the records between barrier N-1 and barrier N, and its results are one Kafka transaction. A
// Permit is the only way to commit it, and the Coordinator hands a permit out only when every subtask has acknowledged
// N, the manifest of N is durable, and N-1 is known to be committed. Nothing is ever skipped: where N cannot go on, the
// attempt ends, and recovery decides from what Kafka holds.
//
// # Traps
//
//   - The sources begin when every transactional id has an open transaction, not when the first has: see Coordinator.opened.
//   - Barrier N carries the identity of the transaction after it. A trigger needs that transaction to be open already.
//   - The end of an attempt is one action, once. Events that arrive later find silence, so a driver may let what is under
//     way finish without asking whether it still matters.
package barrier
