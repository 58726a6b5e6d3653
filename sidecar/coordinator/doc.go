// Package coordinator runs the checkpoints of one attempt: it drives the pure core barrier.Coordinator, carrying out its
// actions and telling it how they ended.
//
// One goroutine owns the core and everything gathered for open checkpoints. Each action that does I/O (open a
// transaction, write a manifest, commit, check markers) runs in a goroutine of its own and answers with an event; the core
// decides what may run at the same time as what. Nothing here is retried: what can be retried is, below, by those who
// know the error, and an error that gets here ends the attempt.
package coordinator
