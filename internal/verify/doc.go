// Package verify says whether a job did its work exactly once. It generates page views, reads the topics that a job writes,
// and compares them with what a plain single-threaded fold over the input gives.
//
// It is independent on purpose: it imports nothing of the job's own reading and writing, and takes the truth from the input
// topic itself. A View carries its user's sequence number, so that loss, repetition and reordering show on their own.
//
// # What is compared
//
// The job under test has up to three branches, each written to a topic of its own (see Branch): the valid views as they
// are, running totals by user and running totals by page. Every valid view has one effect in each branch. All effects of a
// view must be in one Kafka transaction, so a checkpoint that is torn between branches shows as well.
//
// # Parts
//
//   - Generator makes views from a seed; Feeder writes them to a topic.
//   - Tail reads topics with read_committed, keeping the boundaries of transactions and the last stable offsets.
//   - Verifier is the comparison. It is pure, and holds only what is not settled yet.
//   - Check ties Tail and Verifier together, up to a Verdict.
package verify
