// Package sidecar wires one instance: it builds the parts of a job from settings and a plan, starts them in order, and
// begins again from the last committed checkpoint when an attempt fails.
//
// # Attempts
//
// Job.Run takes the lease of the state folder (lease.go), connects to Kafka, and runs one attempt after another. An attempt
// (attempt.go) goes:
//
//  1. recover: settle what the attempt before left, learn the last committed checkpoint (recover.go);
//  2. restore: the state of each keyed operator, and where each partition goes on;
//  3. run: consumer, writer, subtasks and coordinator in one group. The first error ends all of them.
//
// A stop drains: the coordinator sends a final barrier, and its commit ends the attempt without an error. It is bounded
// (stop.go). Errors that only an operator can mend end the job, and so does another instance at work (rival.go); all others
// begin another attempt after a pause that grows. What fails to be written to the checkpoint store is no error as long as the
// transaction is open: it is written again (store_writes.go).
//
// # Start and stop
//
// Nothing is read before every transactional id has its transaction open and every state is restored. Ending goes the
// other way round by itself: each part ends when the group's context does, and Run returns when all have.
package sidecar
