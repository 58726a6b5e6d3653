package topology

import "github.com/weirstream/weir/record"

// Plan is the physical plan of a job: what each subtask runs, and how records move between subtasks. Every subtask runs
// every chain, on its own share of the partitions and key groups. Sources, Steps, Edges and Outputs refer to each other
// by index; the lists are in topological order.
type Plan struct {
	Job string
	// Groups is the number of key groups, at least 128: a multiple of the partition counts of all outputs and, where that
	// is within reach and for as long as no partitions are added, of all inputs.
	Groups int
	// Subtasks is the number of subtasks over all instances.
	Subtasks int
	Sources  []Source
	Chains   []Chain
	Steps    []Step
	Edges    []Edge
	Outputs  []Output
}

// Source is a topic to read. Sources belong to chain 0.
type Source struct {
	Name, Topic string
	// Start is where a partition is read from that no checkpoint knows.
	Start Start
	// Owner is the subtask that reads each partition.
	Owner []int32
	Out   []Target
}

// Chain is a run of operators that pass batches on by a call within one goroutine. A chain has several inputs where
// streams meet or records change their subtask; barriers are aligned there.
type Chain struct {
	Name string
	// Inputs are the edges that end here. Chain 0 has none: it is fed by the sources.
	Inputs []int
}

// Step is one operator in a chain.
type Step struct {
	Name string
	// Does says for people what the step does.
	Does  string
	Chain int
	// New builds the operator for one subtask.
	New func(OperatorContext) (Operator, error)
	Out []Target
	// Keyed is set where the operator has state by key; its records then arrive through an edge with a route, and it owns
	// the key groups that the route sends to its subtask.
	Keyed bool
	// Layout describes the bytes of the state of a keyed step: state of another layout must not be restored into it.
	Layout string
	// Rejections say what becomes of a record that the step cannot process, by the source that the record comes from.
	Rejections []Rejection
}

// Rejection is what becomes of a record that a step cannot process.
type Rejection struct {
	Policy Policy
	// To is where the record goes, wrapped by Plan.DeadLetter, where the policy is DeadLetter.
	To []Target
}

// Rejection returns what becomes of a record of the given source. Results that no single record caused (source -1) end
// the attempt.
func (s *Step) Rejection(source int32) Rejection {
	if source < 0 || int(source) >= len(s.Rejections) {
		return Rejection{}
	}
	return s.Rejections[source]
}

// Edge carries records from chain From to chain To.
type Edge struct {
	Name     string
	From, To int
	// Route gives the subtask of each key group. It is nil for a forward edge, which stays in its subtask.
	Route []int32
	Out   []Target
}

// Output is a topic to write, of a sink or for dead letters. Each partition has exactly one writer: records reach an output
// in the subtask that owns the partition, which is the record's key group mod Partitions.
type Output struct {
	Name, Topic string
	Partitions  int32
	// DeadLetter is set where only rejected records arrive.
	DeadLetter bool
}

// TargetKind tells what a Target's index refers to.
type TargetKind uint8

// The kinds of target.
const (
	ToStep TargetKind = iota
	ToEdge
	ToOutput
)

// Target is where the records of a source, step or edge go next. Several targets each get all records.
type Target struct {
	Kind  TargetKind
	Index int
}

// EnsureGroup computes the key group of r if nobody has. Records without a key follow the partition they came from.
func EnsureGroup(r *record.Record, groups int) record.KeyGroup {
	if r.Group == record.NoGroup {
		if r.Key == nil {
			r.Group = record.KeyGroup(int(r.Partition) % groups)
		} else {
			r.Group = record.GroupOf(r.Key, groups)
		}
	}
	return r.Group
}
