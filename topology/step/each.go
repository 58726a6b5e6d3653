// Package step holds the operators that look at one record at a time: filter, map, flat_map, the change of a key and the
// encoding for a sink, and the loop that they share.
package step

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/weirstream/weir/record"
)

// Func is what an operator does with one record.
type Func interface {
	// Apply changes r in place; memory for a new key or value comes from b. Without keep the record goes no further. An error
	// is a fault of this record, to which the on_error policy applies, unless it is wrapped by Fatal.
	Apply(b *record.Batch, r *record.Record) (keep bool, err error)
}

// Ahead is a Func that wants to see records before it is given them one by one.
type Ahead interface {
	// Ahead looks at the first of the records to come, and returns how many it has looked at, at least one. Apply is then called
	// for those.
	Ahead(records []record.Record) int
}

// Reject applies the on_error policy to a record: nil means that it is dealt with, an error ends the attempt.
type Reject func(r *record.Record, cause error) error

// Each runs a Func over batches.
type Each struct {
	apply  Func
	ahead  Ahead // nil where apply does not look ahead
	reject Reject
	// read is the record under work, write the place of the next one that is kept, seen that of the next to look ahead at.
	read, write, seen int
}

// NewEach returns an operator that applies f to every record.
func NewEach(f Func, reject Reject) *Each {
	ahead, _ := f.(Ahead)
	return &Each{apply: f, ahead: ahead, reject: reject}
}

// Process implements topology.Operator.
func (e *Each) Process(b *record.Batch) error {
	e.read, e.write, e.seen = 0, 0, 0
	for e.read < len(b.Records) {
		cause := e.run(b)
		if cause == nil {
			break
		}
		if err := refuse(e.reject, &b.Records[e.read], cause); err != nil {
			return err
		}
		e.read++
	}
	clear(b.Records[e.write:])
	b.Records = b.Records[:e.write]
	return nil
}

// run goes on until the end of the batch or the first record at fault, a panic included.
func (e *Each) run(b *record.Batch) (cause error) {
	defer func() {
		if p := recover(); p != nil {
			cause = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	for ; e.read < len(b.Records); e.read++ {
		if e.ahead != nil && e.read >= e.seen {
			e.seen = e.read + e.ahead.Ahead(b.Records[e.read:])
		}
		r := &b.Records[e.read]
		keep, err := e.apply.Apply(b, r)
		if err != nil {
			return err
		}
		if !keep {
			continue
		}
		if e.write != e.read {
			b.Records[e.write] = *r
		}
		e.write++
	}
	return nil
}

// Barrier implements topology.Operator: nothing is held back.
func (e *Each) Barrier(record.CheckpointID, *record.Batch) error { return nil }

// PanicError is a panic in an operator, as the fault of the record under work.
type PanicError struct {
	Value any
	// Stack is where it happened.
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// fatal marks an error that no record is to blame for.
type fatal struct{ error }

// Unwrap returns the error itself.
func (f fatal) Unwrap() error { return f.error }

// Fatal marks err as no fault of the record, such as a failure of the state: it ends the attempt whatever the policy. It
// returns nil for nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return fatal{err}
}

func refuse(reject Reject, r *record.Record, cause error) error {
	var f fatal
	if errors.As(cause, &f) {
		return f.error
	}
	return reject(r, cause)
}
