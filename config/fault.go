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

func (f Fault) Error() string {
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

// Faults is everything that is wrong, in the order of the file. It is the error that Load returns for a wrong
// configuration; its text is one line for each fault.
type Faults []Fault

func (f Faults) Error() string {
	var lines []string
	for _, fault := range f {
		lines = append(lines, strings.ReplaceAll(fault.Error(), "\n", " "))
	}
	return strings.Join(lines, "\n")
}

// sorted orders the faults of the file by line, those of environment and flags before them, and drops repetitions.
func (f Faults) sorted() Faults {
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(f)
}
