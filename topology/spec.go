package topology

import (
	"fmt"
	"time"
)

// Spec is a pipeline as it is written: the logical graph before anything is checked. Lists keep the order of the file.
type Spec struct {
	// Job names consumer group, transactional ids and ledger.
	Job       string
	Sources   []SourceSpec
	Operators []OperatorSpec
	Sinks     []SinkSpec
}

// SourceSpec is a topic to read.
type SourceSpec struct {
	Name  string
	Topic string
	// Format is raw where it is empty.
	Format string
	// Fields declares the types of members of JSON values; other members are of any type.
	Fields []NamedText
	// Start says where a partition is read from that no checkpoint knows.
	Start Start
	// OnError and DeadLetter hold for everything downstream, until an operator has its own.
	OnError, DeadLetter string
}

// OperatorSpec is one step, with exactly one of the verbs Filter, Map, FlatMap and Aggregate.
type OperatorSpec struct {
	Name string
	// From names sources and operators.
	From []string
	// Key is the expression of the new key, set before the verb is applied; empty keeps the record's key.
	Key    string
	Filter string
	// Map is a row of named expressions, or with one entry without a name a single expression.
	Map                 []NamedText
	FlatMap             string
	Aggregate           []NamedText
	Emit                string
	OnError, DeadLetter string
}

// SinkSpec is a topic to write.
type SinkSpec struct {
	Name, Topic string
	From        []string
	// Key is the expression of the key; empty keeps the record's key.
	Key string
	// Format is that of the stream where it is empty; rows become json.
	Format string
}

// NamedText is an expression, or a type, under a name.
type NamedText struct {
	Name, Text string
}

// Start says where to begin reading.
type Start struct {
	// Latest is the end of the partition; without it and with a zero At the beginning is meant.
	Latest bool
	// At is the time of the first record to read.
	At time.Time
}

// ParseStart reads earliest, latest or a time in RFC 3339.
func ParseStart(text string) (Start, error) {
	switch text {
	case "", "earliest":
		return Start{}, nil
	case "latest":
		return Start{Latest: true}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return Start{}, fmt.Errorf("%q is no start, expected earliest, latest or a time such as 2026-01-31T00:00:00Z", text)
	}
	return Start{At: at}, nil
}

// String returns the form that ParseStart reads.
func (s Start) String() string {
	switch {
	case s.Latest:
		return "latest"
	case s.At.IsZero():
		return "earliest"
	}
	return s.At.Format(time.RFC3339)
}

// Fault is one thing that is wrong with a spec.
type Fault struct {
	// Path is where it lies, from the top of the pipeline file: operators.valid.filter, or sinks.counts.from[1].
	Path string
	// Line and Column count from 1 within the expression at Path. They are 0 where the fault lies in no expression.
	Line, Column int
	// Message says what is wrong and what is expected.
	Message string
}

// String is the fault in one line.
func (f Fault) String() string { return f.Path + ": " + f.Message }
