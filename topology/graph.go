package topology

import (
	"github.com/weirstream/weir/topology/expression"
	"github.com/weirstream/weir/topology/format"
)

// Graph is a checked pipeline: every name is resolved, every expression compiled. Operators are in topological order.
type Graph struct {
	Job       string
	Sources   []SourceNode
	Operators []OperatorNode
	Sinks     []SinkNode
}

// SourceNode is a topic to read.
type SourceNode struct {
	Name, Topic string
	Start       Start
	Shape       format.Shape
	OnError     ErrorPolicy
}

// OperatorNode is one operator of the logical graph.
type OperatorNode struct {
	Name string
	From []string
	// Verb is what the operator does; Does says it for people.
	Verb, Does string
	// Key is set where the key changes before the operator sees the record.
	Key *KeyChange
	// Keyed is set where the operator has state by key.
	Keyed bool
	// Layout describes the bytes of its state; state written under another layout does not fit.
	Layout string
	// New builds the operator for one subtask.
	New func(OperatorContext) (Operator, error)
	// In and Out are the shapes of what it takes and yields.
	In, Out format.Shape
	// OnError is nil where the operator goes by what is set upstream.
	OnError *ErrorPolicy
}

// SinkNode is a topic to write.
type SinkNode struct {
	Name, Topic string
	From        []string
	// Inputs are what the sink does to each stream of From.
	Inputs []SinkInput
	Format format.Format
}

// SinkInput is what a sink does to one stream.
type SinkInput struct {
	// Key is nil where the record's key stays.
	Key   *KeyChange
	Shape format.Shape
	// Encode says whether values change their format.
	Encode bool
}

// KeyChange gives records a new key.
type KeyChange struct {
	scope   *expression.Scope
	program *expression.Program
}

// String returns the expression.
func (k *KeyChange) String() string { return k.program.Source() }

// Policy says what becomes of a record that an operator cannot process.
type Policy uint8

// The policies. Fail ends the attempt, and the job halts at this record; Drop goes on without it; DeadLetter writes it to
// another topic, in the same transaction.
const (
	Fail Policy = iota
	Drop
	DeadLetter
)

var policyNames = [...]string{Fail: "fail", Drop: "drop", DeadLetter: "dead_letter"}

// String returns the name in a pipeline file.
func (p Policy) String() string { return policyNames[p] }

// Policies lists the policies by their names in a pipeline file.
func Policies() []string { return policyNames[:] }

// ErrorPolicy is a policy with the topic that DeadLetter writes to.
type ErrorPolicy struct {
	Policy Policy
	Topic  string
}

// Topics lists the topics of g, inputs first, each once.
func (g *Graph) Topics() (inputs, outputs []string) {
	for _, s := range g.Sources {
		inputs = appendNew(inputs, s.Topic)
		if s.OnError.Policy == DeadLetter {
			outputs = appendNew(outputs, s.OnError.Topic)
		}
	}
	for _, o := range g.Operators {
		if o.OnError != nil && o.OnError.Policy == DeadLetter {
			outputs = appendNew(outputs, o.OnError.Topic)
		}
	}
	for _, s := range g.Sinks {
		outputs = appendNew(outputs, s.Topic)
	}
	return inputs, outputs
}

func appendNew(list []string, name string) []string {
	for _, n := range list {
		if n == name {
			return list
		}
	}
	return append(list, name)
}
