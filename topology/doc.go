// Package topology turns a pipeline file into a logical graph and that into a physical plan, and holds the operator and
// state interfaces. Built-in operators live in its sub-packages.
//
//	Spec (as written)  --Compile-->  Graph (checked)  --NewPlan-->  Plan (chains, steps, edges, for one number of subtasks)
//
// Compile reports every fault at once, with the place of each. The plan follows three rules:
//
//   - An output partition has one writer. The records of a sink therefore move, by key group, to the subtask that owns the
//     partition, and are encoded there. Streams that were moved by the same route before stay where they are.
//   - Keyed state is owned by key group, by one main route for the whole job. The groups that are equal modulo the greatest
//     common divisor of the partition counts belong together, so that what arrives partitioned by its key, and leaves by
//     it, stays in its subtask. An output whose partition count the main route cannot follow has a route of its own.
//   - Whoever changes a key does so ahead of the edge, and the record's group is computed anew.
//
// A trap: between operators the value of a record is either opaque bytes of a format or a row (package row), and which of
// the two is known only to the plan. Whatever leaves the job, dead letters included, goes through an encoder.
//
// Another: an empty value is no tombstone. Operators take care never to turn one into the other.
package topology
