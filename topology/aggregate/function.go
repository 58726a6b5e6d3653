package aggregate

import (
	"github.com/weirstream/weir/topology/expression"
	"github.com/weirstream/weir/topology/row"
)

// Function folds the values of a key into one.
type Function uint8

// The functions.
const (
	Count Function = iota
	Sum
	Min
	Max
	Avg
	First
	Last
	CountDistinct
)

var names = [...]string{
	Count: "count", Sum: "sum", Min: "min", Max: "max", Avg: "avg", First: "first", Last: "last",
	CountDistinct: "count_distinct",
}

// String returns the name in a pipeline file.
func (f Function) String() string { return names[f] }

// Names lists the functions.
func Names() []string { return names[:] }

// Parse returns the function called name.
func Parse(name string) (Function, bool) {
	for i, n := range names {
		if n == name {
			return Function(i), true
		}
	}
	return Count, false
}

// Accepts says whether arguments of type t can be folded, and what is wanted if not.
func (f Function) Accepts(t row.Type) (ok bool, want string) {
	switch f {
	case Count:
		return t == row.Bool || t == row.Any, "a condition"
	case Sum, Avg:
		return t == row.Int || t == row.Float || t == row.Any, "a number"
	}
	return true, ""
}

// result is the type of what f yields.
func (f Function) result(argument *expression.Program) row.Type {
	switch f {
	case Count, CountDistinct:
		return row.Int
	case Avg:
		return row.Float
	}
	return argument.Type()
}

const (
	countSize = 8
	avgSize   = 16 // how many, and their sum
)

// size is the number of bytes of an accumulator.
func (f Function) size() int {
	switch f {
	case Count, CountDistinct:
		return countSize
	case Avg:
		return avgSize
	}
	return row.FixedSize
}

// side names the table for what has no fixed size, "" where everything has.
func (f Function) side(argument *expression.Program) string {
	switch f {
	case CountDistinct:
		return "distinct"
	case Min, Max, First, Last:
		if t := argument.Type(); t == row.Any || t == row.String {
			return "text"
		}
	}
	return ""
}
