// Package task runs subtasks: the loop that takes batches, passes them through chains of operators, aligns barriers,
// freezes state and reports checkpoints.
//
// # One goroutine, never blocked
//
// A subtask is one goroutine that runs every chain of the plan on its own share of partitions and key groups. It does no
// I/O and never waits for one particular thing. Each turn it looks at its chains from the last to the first and takes
// a message where there is one and where the results have room: room in the channels that lead away and room in the
// sink. When nothing can be done it sleeps on its Waker, which sources, channels, sink and coordinator all touch. Work
// nearer to the sinks comes first and never waits for work nearer to the sources, so with bounds of any size some chain
// can always move on until the sink itself is the one that waits, for Kafka.
//
// # Barriers
//
// A trigger makes chain 0 pass the barrier between two batches. Passing means: the operators emit what they owe at a
// checkpoint, their state is frozen, and the barrier is appended to every channel that leads away. A later chain passes
// it when all its input channels have delivered it; those that were first are held meanwhile. Chains that write to
// sinks wait for each other within the subtask, since the sink changes its transaction once for all of them.
//
// # Goroutines
//
//   - Subtask.Run: the loop, owner of everything in chain.go and edge.go.
//   - Subtask.snapshots: writes frozen state out, in order, waits until the sink has everything acknowledged, reports.
//     It gets each checkpoint through a channel whose capacity is the number of checkpoints in flight.
package task
