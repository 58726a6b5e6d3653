package expression

import (
	"fmt"
	"math/bits"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

// Ints in Go and in expr wrap around. A sum of money must not: what does not fit is a fault of the record.

type overflowError struct {
	operator string
	a, b     int64
}

// Error implements error.
func (e *overflowError) Error() string {
	return fmt.Sprintf("%d %s %d is outside the range of an int (64 bits)", e.a, e.operator, e.b)
}

func add(a, b int64) (int64, error) {
	sum := a + b
	if (sum > a) != (b > 0) && b != 0 {
		return 0, &overflowError{"+", a, b}
	}
	return sum, nil
}

func subtract(a, b int64) (int64, error) {
	difference := a - b
	if (difference < a) != (b > 0) && b != 0 {
		return 0, &overflowError{"-", a, b}
	}
	return difference, nil
}

func multiply(a, b int64) (int64, error) {
	high, low := bits.Mul64(magnitude(a), magnitude(b))
	limit := uint64(1) << 63 // of negative products; positive ones must stay below
	if (a < 0) == (b < 0) {
		limit--
	}
	if high != 0 || low > limit {
		return 0, &overflowError{"*", a, b}
	}
	return a * b, nil
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// checkInts has the machine call checked for what may overflow.
type checkInts struct{}

const checkedName = "$checked"

// Visit implements ast.Visitor.
func (checkInts) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if !ok || n.Operator != "+" && n.Operator != "-" && n.Operator != "*" {
		return
	}
	ast.Patch(node, &ast.CallNode{
		Callee: &ast.IdentifierNode{Value: checkedName}, Arguments: []ast.Node{&ast.StringNode{Value: n.Operator}, n.Left, n.Right},
	})
}

// checked applies an operator: with care to ints, as expr does to everything else.
func checked(params ...any) (any, error) {
	operator, l, r := params[0].(string), params[1], params[2]
	a, leftInt := asInt(l)
	b, rightInt := asInt(r)
	if leftInt && rightInt {
		n, err := map[string]func(a, b int64) (int64, error){"+": add, "-": subtract, "*": multiply}[operator](a, b)
		return int(n), err
	}
	switch operator {
	case "+":
		return runtime.Add(l, r), nil
	case "-":
		return runtime.Subtract(l, r), nil
	}
	return runtime.Multiply(l, r), nil
}

func asInt(x any) (int64, bool) {
	switch n := x.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	}
	return 0, false
}
