package expression

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"

	"github.com/expr-lang/expr/ast"

	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/row"
)

// compiler turns a checked expression into closures. Every method returns nil for what only expr's machine can run.
type compiler struct {
	scope *Scope
}

func (c *compiler) compile(n ast.Node) evaluator {
	switch n := n.(type) {
	case *ast.NilNode:
		return constant(row.Value{})
	case *ast.BoolNode:
		return constant(row.OfBool(n.Value))
	case *ast.IntegerNode:
		return constant(row.OfInt(int64(n.Value)))
	case *ast.FloatNode:
		return constant(row.OfFloat(n.Value))
	case *ast.StringNode:
		return constant(row.OfString(n.Value))
	case *ast.IdentifierNode:
		if n.Value == "headers" || n.Value == "$env" {
			return nil
		}
		return c.scope.name(n.Value)
	case *ast.MemberNode:
		return c.member(n)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	}
	return nil
}

func constant(v row.Value) evaluator {
	return func(*Frame) (row.Value, error) { return v, nil }
}

// member reads value.NAME, which reaches fields whose name an attribute hides.
func (c *compiler) member(n *ast.MemberNode) evaluator {
	of, ok := n.Node.(*ast.IdentifierNode)
	name, named := n.Property.(*ast.StringNode)
	if !ok || !named || of.Value != "value" {
		return nil
	}
	switch f := c.scope.shape.Format; {
	case f == format.JSON && !n.Optional, f == format.Row && c.scope.shape.Fields.Index(name.Value) >= 0:
		return c.scope.field(name.Value)
	}
	return nil
}

func (c *compiler) unary(n *ast.UnaryNode) evaluator {
	operand := c.compile(n.Node)
	if operand == nil {
		return nil
	}
	switch n.Operator {
	case "not", "!":
		return func(f *Frame) (row.Value, error) {
			b, err := truth(operand, f)
			return row.OfBool(!b), err
		}
	case "-":
		return func(f *Frame) (row.Value, error) {
			v, err := operand(f)
			if err != nil {
				return v, err
			}
			return negate(v)
		}
	}
	return nil
}

func negate(v row.Value) (row.Value, error) {
	switch v.Kind() {
	case row.IsInt:
		n, err := subtract(0, v.Int())
		return row.OfInt(n), err
	case row.IsFloat:
		return row.OfFloat(-v.Float()), nil
	}
	return row.Value{}, fmt.Errorf("no negative of a value of type %s", v.Kind())
}

func (c *compiler) conditional(n *ast.ConditionalNode) evaluator {
	cond, yes, no := c.compile(n.Cond), c.compile(n.Exp1), c.compile(n.Exp2)
	if cond == nil || yes == nil || no == nil {
		return nil
	}
	return func(f *Frame) (row.Value, error) {
		b, err := truth(cond, f)
		if err != nil {
			return row.Value{}, err
		}
		if b {
			return yes(f)
		}
		return no(f)
	}
}

func (c *compiler) binary(n *ast.BinaryNode) evaluator {
	left, right := c.compile(n.Left), c.compile(n.Right)
	if left == nil || right == nil {
		return nil
	}
	switch n.Operator {
	case "and", "&&":
		return logic(left, right, false)
	case "or", "||":
		return logic(left, right, true)
	case "??":
		return otherwise(left, right)
	}
	apply := operation(n.Operator)
	if apply == nil {
		return nil
	}
	return func(f *Frame) (row.Value, error) {
		l, err := left(f)
		if err != nil {
			return l, err
		}
		r, err := right(f)
		if err != nil {
			return r, err
		}
		return apply(l, r)
	}
}

// logic is "or" where decided is true, "and" where it is false: a left side of that value decides alone.
func logic(left, right evaluator, decided bool) evaluator {
	return func(f *Frame) (row.Value, error) {
		b, err := truth(left, f)
		if err == nil && b != decided {
			b, err = truth(right, f)
		}
		return row.OfBool(b), err
	}
}

func otherwise(left, right evaluator) evaluator {
	return func(f *Frame) (row.Value, error) {
		v, err := left(f)
		if err == nil && v.IsNull() {
			return right(f)
		}
		return v, err
	}
}

// truth runs a condition.
func truth(e evaluator, f *Frame) (bool, error) {
	v, err := e(f)
	if err != nil {
		return false, err
	}
	if v.Kind() != row.IsBool {
		return false, &conditionError{v.Kind()}
	}
	return v.Bool(), nil
}

// conditionError is a condition that is neither true nor false. The machine lets some of them pass: the right side of an
// `and` whose result nobody uses as a condition.
type conditionError struct{ kind row.Kind }

// Error implements error.
func (e *conditionError) Error() string {
	return fmt.Sprintf("a condition is of type %s, want bool", e.kind)
}

func operation(operator string) func(l, r row.Value) (row.Value, error) {
	switch operator {
	case "==":
		return func(l, r row.Value) (row.Value, error) { return row.OfBool(equal(l, r)), nil }
	case "!=":
		return func(l, r row.Value) (row.Value, error) { return row.OfBool(!equal(l, r)), nil }
	case "<":
		return comparison(func(order int) bool { return order < 0 })
	case "<=":
		return comparison(func(order int) bool { return order <= 0 })
	case ">":
		return comparison(func(order int) bool { return order > 0 })
	case ">=":
		return comparison(func(order int) bool { return order >= 0 })
	case "contains":
		return textual(bytes.Contains)
	case "startsWith":
		return textual(bytes.HasPrefix)
	case "endsWith":
		return textual(bytes.HasSuffix)
	}
	return arithmetic(operator)
}

func equal(l, r row.Value) bool {
	switch {
	case l.IsNumber() && r.IsNumber():
		if l.Kind() == row.IsInt && r.Kind() == row.IsInt {
			return l.Int() == r.Int()
		}
		return l.Float() == r.Float()
	case l.Kind() != r.Kind():
		return false
	case l.Kind() == row.IsString:
		return bytes.Equal(l.Text(), r.Text())
	case l.Kind() == row.IsJSON:
		return reflect.DeepEqual(l.Go(), r.Go())
	}
	return l.Kind() == row.Null || l.Bool() == r.Bool()
}

// comparison orders numbers and strings. A NaN is on neither side of anything.
func comparison(holds func(order int) bool) func(l, r row.Value) (row.Value, error) {
	return func(l, r row.Value) (row.Value, error) {
		switch {
		case l.Kind() == row.IsInt && r.Kind() == row.IsInt:
			return row.OfBool(holds(cmp.Compare(l.Int(), r.Int()))), nil
		case l.IsNumber() && r.IsNumber():
			a, b := l.Float(), r.Float()
			return row.OfBool(a == a && b == b && holds(cmp.Compare(a, b))), nil
		case l.Kind() == row.IsString && r.Kind() == row.IsString:
			return row.OfBool(holds(bytes.Compare(l.Text(), r.Text()))), nil
		}
		return row.Value{}, fmt.Errorf("a value of type %s cannot be compared with one of type %s", l.Kind(), r.Kind())
	}
}

// textual is false where a side is missing, as in expr.
func textual(holds func(text, part []byte) bool) func(l, r row.Value) (row.Value, error) {
	return func(l, r row.Value) (row.Value, error) {
		switch {
		case l.IsNull() || r.IsNull():
			return row.OfBool(false), nil
		case l.Kind() == row.IsString && r.Kind() == row.IsString:
			return row.OfBool(holds(l.Text(), r.Text())), nil
		}
		return row.Value{}, fmt.Errorf("values of type %s and %s, want strings", l.Kind(), r.Kind())
	}
}

var errModuloZero = errors.New("remainder of a division by zero")

// arithmetic computes with ints where both sides are, else with floats. A quotient is a float, as in expr.
func arithmetic(operator string) func(l, r row.Value) (row.Value, error) {
	var ints func(a, b int64) (int64, error)
	var floats func(a, b float64) row.Value
	switch operator {
	case "+":
		return plus
	case "-":
		ints = subtract
		floats = func(a, b float64) row.Value { return row.OfFloat(a - b) }
	case "*":
		ints = multiply
		floats = func(a, b float64) row.Value { return row.OfFloat(a * b) }
	case "/":
		floats = func(a, b float64) row.Value { return row.OfFloat(a / b) }
	case "%":
		return remainder
	default:
		return nil
	}
	return func(l, r row.Value) (row.Value, error) {
		switch {
		case ints != nil && l.Kind() == row.IsInt && r.Kind() == row.IsInt:
			n, err := ints(l.Int(), r.Int())
			return row.OfInt(n), err
		case l.IsNumber() && r.IsNumber():
			return floats(l.Float(), r.Float()), nil
		}
		return row.Value{}, noResult(operator, l, r)
	}
}

func noResult(operator string, l, r row.Value) error {
	return fmt.Errorf("no %s of values of type %s and %s", operator, l.Kind(), r.Kind())
}

func remainder(l, r row.Value) (row.Value, error) {
	switch {
	case l.Kind() != row.IsInt || r.Kind() != row.IsInt:
		return row.Value{}, noResult("%", l, r)
	case r.Int() == 0:
		return row.Value{}, errModuloZero
	}
	return row.OfInt(l.Int() % r.Int()), nil
}

func plus(l, r row.Value) (row.Value, error) {
	switch {
	case l.Kind() == row.IsInt && r.Kind() == row.IsInt:
		n, err := add(l.Int(), r.Int())
		return row.OfInt(n), err
	case l.IsNumber() && r.IsNumber():
		return row.OfFloat(l.Float() + r.Float()), nil
	case l.Kind() == row.IsString && r.Kind() == row.IsString:
		return row.OfText(append(append([]byte{}, l.Text()...), r.Text()...)), nil
	}
	return row.Value{}, noResult("+", l, r)
}
