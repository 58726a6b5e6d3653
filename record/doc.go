// Package record holds the value types that every other package speaks: records and the batches they travel in,
// barriers, key groups, partitions and positions. It imports nothing of the project and does no I/O.
package record
