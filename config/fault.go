package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong, with where it is.
type Fault struct {
	// Place is the file, the environment variable or the flag.
	Place string `json:"place"`
	// Line and Column count from 1; both are 0 outside of a file, and Column where the line says enough.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Key is the key concerned, from the top of the file.
	Key string `json:"key"`
	// Message says what is wrong and what is expected.
	Message string `json:"message"`
}

// String is the fault in one line.
func (f Fault) String() string {
	place := f.Place
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, f.Line)
	}
	if f.Column > 0 {
		place = fmt.Sprintf("%s:%d", place, f.Column)
	}
	if f.Key == "" {
		return place + ": " + f.Message
	}
	return place + ": " + f.Key + ": " + f.Message
}

// InvalidError is a wrong configuration, with everything that is wrong about it in the order of the file. Its text is one
// line for each fault.
type InvalidError struct {
	Faults []Fault
}

// Error implements error.
func (e *InvalidError) Error() string {
	var lines []string
	for _, f := range e.Faults {
		lines = append(lines, strings.ReplaceAll(f.String(), "\n", " "))
	}
	return strings.Join(lines, "\n")
}

// invalid orders the faults of the file by line, those of environment and flags before them, and drops repetitions.
func invalid(faults []Fault) *InvalidError {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &InvalidError{slices.Compact(faults)}
}
