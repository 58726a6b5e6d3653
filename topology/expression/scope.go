// Package expression compiles the expressions of a pipeline file. They are written in the language of expr-lang/expr and
// checked by it against what is known of the stream. Expressions built of fields, constants, comparisons, logic and
// arithmetic are then run by closures over unboxed values, which allocate nothing; the others run in expr's machine. The two
// agree, and a test compares them.
package expression

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/weirstream/weir/internal/nearest"
	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/row"
)

// CompileError says what is wrong with an expression, and where.
type CompileError struct {
	// Line and Column count from 1 within the expression; the column is in characters.
	Line, Column int
	Message      string
}

// Error implements error.
func (f *CompileError) Error() string { return f.Message }

// Scope is what the expressions of one operator see: the record's attributes and the fields of its value. Members of JSON
// values that any expression of the scope names are found in one pass over the value.
type Scope struct {
	shape   format.Shape
	members []string
}

// NewScope returns a scope for records of the given shape.
func NewScope(shape format.Shape) *Scope { return &Scope{shape: shape} }

// Program is a compiled expression. It may be used by the frames of its scope, from several goroutines.
type Program struct {
	source string
	result row.Type
	// native is nil where only the machine can run the expression.
	native  evaluator
	machine *vm.Program
	// names are the names that the machine needs, with how each is had from a record.
	names   []binding
	literal bool
}

// Type is what is known of the result.
func (p *Program) Type() row.Type { return p.result }

// Source is the text that was compiled.
func (p *Program) Source() string { return p.source }

// Constant says whether the expression names nothing of the record.
func (p *Program) Constant() bool { return p.literal }

// attributes are the names that every record has, with their types.
func (s *Scope) attributes() types.Map {
	value := types.Type(types.Any)
	switch s.shape.Format {
	case format.Raw, format.String:
		value = types.String
	case format.Int64:
		value = types.Int
	}
	return types.Map{
		"key": types.String, "value": value, "headers": types.TypeOf(map[string]string{}), "timestamp": types.Int,
		"topic": types.String, "partition": types.Int, "offset": types.Int,
	}
}

// environment gives the type of every name. Where values are JSON and the source declares no fields, any name may be a
// member, of any type.
func (s *Scope) environment() types.Map {
	env := types.Map{}
	if s.shape.Key.Name != "" {
		env[s.shape.Key.Name] = goType(s.shape.Key.Type)
	}
	for _, c := range s.shape.Fields.Columns {
		env[c.Name] = goType(c.Type)
	}
	for name, t := range s.attributes() {
		env[name] = t
	}
	if s.shape.Format == format.JSON && len(s.shape.Fields.Columns) == 0 {
		env[types.Extra] = types.Any
	}
	return env
}

func goType(t row.Type) types.Type {
	switch t {
	case row.Bool:
		return types.Bool
	case row.Int:
		return types.Int
	case row.Float:
		return types.Float64
	case row.String:
		return types.String
	}
	return types.Any
}

// names lists what a mistyped name may have been meant to be.
func (s *Scope) names() []string {
	names := slices.Sorted(maps.Keys(s.environment()))
	return slices.DeleteFunc(names, func(name string) bool { return name == types.Extra })
}

// Compile checks source and makes it ready to run. Its error is a *CompileError.
func (s *Scope) Compile(source string) (*Program, error) {
	env := s.environment()
	typed, err := expr.Compile(source, expr.Env(env))
	if err != nil {
		return nil, s.fault(err)
	}
	// The machine's program knows no types: a field that a record lacks is nil there, whatever was declared.
	for name := range env {
		env[name] = types.Any
	}
	machine, err := expr.Compile(source, expr.Env(env), expr.Function(checkedName, checked), expr.Patch(checkInts{}))
	if err != nil {
		return nil, s.fault(err)
	}
	p := &Program{source: source, machine: machine, result: resultType(typed.Node())}
	c := compiler{scope: s}
	p.native = c.compile(typed.Node())
	p.names = s.bindings(typed.Node())
	p.literal = len(p.names) == 0
	return p, nil
}

func resultType(n ast.Node) row.Type {
	t := n.Type()
	if t == nil {
		return row.Any
	}
	switch t.Kind() {
	case reflect.Bool:
		return row.Bool
	case reflect.Int, reflect.Int64:
		return row.Int
	case reflect.Float64:
		return row.Float
	case reflect.String:
		return row.String
	}
	return row.Any
}

func (s *Scope) fault(err error) error {
	var at *file.Error
	if !errors.As(err, &at) {
		return &CompileError{Line: 1, Column: 1, Message: err.Error()}
	}
	message := at.Message
	if name, ok := strings.CutPrefix(message, "unknown name "); ok {
		message += nearest.Hint(name, s.names())
		if nearest.Match(name, s.names()) == "" {
			message += fmt.Sprintf(" (there are %s)", strings.Join(s.names(), ", "))
		}
	}
	return &CompileError{Line: max(at.Line, 1), Column: at.Column + 1, Message: message}
}

// member returns the index of the JSON member called name among those looked for.
func (s *Scope) member(name string) int {
	if i := slices.Index(s.members, name); i >= 0 {
		return i
	}
	s.members = append(s.members, name)
	return len(s.members) - 1
}
