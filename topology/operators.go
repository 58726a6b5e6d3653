package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology/aggregate"
	"github.com/weirstream/weir/topology/expression"
	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/row"
	"github.com/weirstream/weir/topology/step"
)

// operators compiles the operators in topological order.
func (c *compilation) operators() {
	for _, o := range c.sorted() {
		path := "operators." + o.Name
		in := c.inputs(path, o.From)
		node := OperatorNode{Name: o.Name, From: o.From, OnError: c.policy(path, o.OnError, o.DeadLetter)}
		// Where a fault leaves the input's shape open, JSON stands for it: every name is known there.
		node.In = format.Shape{Format: format.JSON}
		if in != nil {
			node.In = *in
		}
		c.streams[o.Name] = nil
		if c.verb(path, o, &node) && in != nil {
			c.streams[o.Name] = &node.Out
		}
		c.graph.Operators = append(c.graph.Operators, node)
	}
}

// sorted returns the operators so that each comes after those that it reads. Those on a cycle are reported.
func (c *compilation) sorted() []OperatorSpec {
	var done []string
	for _, s := range c.spec.Sources {
		done = append(done, s.Name)
	}
	var list []OperatorSpec
	left := slices.Clone(c.spec.Operators)
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(o OperatorSpec) bool {
			return !slices.ContainsFunc(o.From, func(f string) bool {
				return slices.Contains(c.known, f) && !slices.Contains(done, f)
			})
		})
		if i < 0 {
			c.cycle(left)
			return list
		}
		done = append(done, left[i].Name)
		list = append(list, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return list
}

func (c *compilation) cycle(left []OperatorSpec) {
	var names []string
	for _, o := range left {
		names = append(names, o.Name)
		c.streams[o.Name] = nil
	}
	c.fault("operators."+left[0].Name+".from", "the operators %s wait for each other in a circle, expected a way "+
		"that leads from sources to sinks", strings.Join(names, ", "))
}

// verb compiles what the operator does, and says whether that went without fault.
func (c *compilation) verb(path string, o OperatorSpec, node *OperatorNode) bool {
	var verbs []string
	for name, given := range map[string]bool{
		"filter": o.Filter != "", "map": len(o.Map) > 0, "flat_map": o.FlatMap != "", "aggregate": len(o.Aggregate) > 0,
	} {
		if given {
			verbs = append(verbs, name)
		}
	}
	slices.Sort(verbs)
	if len(verbs) != 1 {
		c.verbCount(path, verbs)
		return false
	}
	node.Verb = verbs[0]
	node.Does = describe(node.Verb, o)
	if o.Emit != "" && node.Verb != "aggregate" {
		c.fault(path+".emit", "%s has nothing to emit later, expected it beside an aggregate", node.Verb)
	}
	before := len(c.faults)
	node.Key = c.keyChange(path, o.Key, &node.In)
	switch node.Verb {
	case "filter":
		c.filter(path, o, node)
	case "map":
		c.mapping(path, o, node)
	case "flat_map":
		c.flatMap(path, o, node)
	case "aggregate":
		c.aggregate(path, o, node)
	}
	return len(c.faults) == before
}

// describe says what an operator does in the words of the file.
func describe(verb string, o OperatorSpec) string {
	named := func(list []NamedText) string {
		var parts []string
		for _, t := range list {
			parts = append(parts, strings.TrimPrefix(t.Name+": "+t.Text, ": "))
		}
		return strings.Join(parts, ", ")
	}
	switch verb {
	case "filter":
		return "filter " + o.Filter
	case "map":
		return "map " + named(o.Map)
	case "flat_map":
		return "flat_map " + o.FlatMap
	}
	if o.Emit == "on_checkpoint" {
		return "aggregate " + named(o.Aggregate) + ", emitted at checkpoints"
	}
	return "aggregate " + named(o.Aggregate)
}

func (c *compilation) verbCount(path string, verbs []string) {
	if len(verbs) == 0 {
		c.fault(path, "it does nothing, expected one of filter, map, flat_map, aggregate")
		return
	}
	c.fault(path, "it has %s, expected one verb; use an operator for each", strings.Join(verbs, " and "))
}

// keyChange compiles a new key. It is nil where the key stays what it is.
func (c *compilation) keyChange(path, source string, in *format.Shape) *KeyChange {
	if source == "" || source == "key" {
		return nil
	}
	if source == in.Key.Name && in.Fields.Index(source) < 0 {
		return nil
	}
	scope := expression.NewScope(*in)
	program := c.compile(path+".key", scope, source)
	if program == nil {
		return nil
	}
	return &KeyChange{scope: scope, program: program}
}

// compile compiles one expression, nil with a fault.
func (c *compilation) compile(path string, scope *expression.Scope, source string) *expression.Program {
	program, err := scope.Compile(source)
	if err == nil {
		return program
	}
	var at *expression.CompileError
	if !errors.As(err, &at) {
		at = &expression.CompileError{Line: 1, Column: 1, Message: err.Error()}
	}
	c.faults = append(c.faults, Fault{Path: path, Line: at.Line, Column: at.Column, Message: at.Message})
	return nil
}

func (k *KeyChange) build(ctx OperatorContext) (Operator, error) {
	return step.NewEach(&step.Rekey{Frame: frame(k.scope, ctx), Key: k.program}, ctx.Reject), nil
}

// frame returns a frame that knows the names of topics.
func frame(scope *expression.Scope, ctx OperatorContext) *expression.Frame {
	return scope.Frame(func(source int32) string {
		if source < 0 {
			return ""
		}
		return ctx.TopicName(source)
	})
}

func (c *compilation) filter(path string, o OperatorSpec, node *OperatorNode) {
	scope := expression.NewScope(node.In)
	condition := c.compile(path+".filter", scope, o.Filter)
	if condition == nil {
		return
	}
	if t := condition.Type(); t != row.Bool && t != row.Any {
		c.fault(path+".filter", "the expression is of type %s, expected a condition", t)
	}
	node.Out = node.In
	node.New = func(ctx OperatorContext) (Operator, error) {
		return step.NewEach(&step.Filter{Frame: frame(scope, ctx), Condition: condition}, ctx.Reject), nil
	}
}

func (c *compilation) mapping(path string, o OperatorSpec, node *OperatorNode) {
	scope := expression.NewScope(node.In)
	if len(o.Map) == 1 && o.Map[0].Name == "" {
		c.replace(path, o.Map[0].Text, scope, node)
		return
	}
	node.Out = format.Shape{Format: format.Row, Key: node.In.Key}
	var programs []*expression.Program
	for _, m := range o.Map {
		program := c.compile(path+".map."+m.Name, scope, m.Text)
		if program == nil {
			continue
		}
		programs = append(programs, program)
		node.Out.Fields.Columns = append(node.Out.Fields.Columns, row.Column{Name: m.Name, Type: program.Type()})
	}
	schema := node.Out.Fields
	node.New = func(ctx OperatorContext) (Operator, error) {
		return step.NewEach(&step.Project{Frame: frame(scope, ctx), Values: programs, Schema: schema}, ctx.Reject), nil
	}
}

// replace is a map to a single expression.
func (c *compilation) replace(path, source string, scope *expression.Scope, node *OperatorNode) {
	value := c.compile(path+".map", scope, source)
	if value == nil {
		return
	}
	f := format.OfType(value.Type())
	node.Out = format.Shape{Format: f, Key: node.In.Key}
	node.New = func(ctx OperatorContext) (Operator, error) {
		return step.NewEach(&step.Replace{Frame: frame(scope, ctx), Value: value, Format: f}, ctx.Reject), nil
	}
}

func (c *compilation) flatMap(path string, o OperatorSpec, node *OperatorNode) {
	scope := expression.NewScope(node.In)
	list := c.compile(path+".flat_map", scope, o.FlatMap)
	if list == nil {
		return
	}
	if t := list.Type(); t != row.Any {
		c.fault(path+".flat_map", "the expression is of type %s, expected a list", t)
	}
	node.Out = format.Shape{Format: format.JSON, Key: node.In.Key}
	node.New = func(ctx OperatorContext) (Operator, error) {
		return step.NewFlatMap(frame(scope, ctx), list, format.JSON, ctx.Reject), nil
	}
}

func (c *compilation) aggregate(path string, o OperatorSpec, node *OperatorNode) {
	node.Keyed = true
	if o.Key == "" {
		c.fault(path+".key", "is missing, expected what to aggregate by; key: key keeps the record's key")
	}
	scope := expression.NewScope(node.In)
	columns := c.columns(path, o.Aggregate, scope)
	later := o.Emit == "on_checkpoint"
	if emits := []string{"every_update", "on_checkpoint"}; o.Emit != "" && !slices.Contains(emits, o.Emit) {
		c.fault(path+".emit", "%q is no way to emit%s", o.Emit, oneOf(o.Emit, emits))
	}
	node.Layout = aggregate.Layout(columns, later)
	node.Out = format.Shape{Format: format.Row, Fields: aggregate.Schema(columns), Key: c.keyColumn(o, node)}
	node.New = func(ctx OperatorContext) (Operator, error) {
		return aggregate.New(aggregate.Options{
			Columns: columns, Frame: frame(scope, ctx), OnCheckpoint: later, Reject: ctx.Reject,
			Group: func(r *record.Record) record.KeyGroup { return EnsureGroup(r, ctx.Groups) },
			Open:  func(name string) (aggregate.Table, error) { return ctx.State(name) },
		})
	}
}

// keyColumn is the name under which the key goes on: that of the field it was set from.
func (c *compilation) keyColumn(o OperatorSpec, node *OperatorNode) row.Column {
	if node.Key == nil {
		return node.In.Key
	}
	if !isName(o.Key) {
		return row.Column{}
	}
	t := node.Key.program.Type()
	if t == row.Any {
		t = row.String
	}
	return row.Column{Name: o.Key, Type: t}
}

func (c *compilation) columns(path string, texts []NamedText, scope *expression.Scope) []aggregate.Column {
	var columns []aggregate.Column
	for _, t := range texts {
		if column, ok := c.column(path+".aggregate."+t.Name, t, scope); ok {
			columns = append(columns, column)
		}
	}
	return columns
}

// column compiles one aggregate, NAME(EXPRESSION).
func (c *compilation) column(path string, t NamedText, scope *expression.Scope) (aggregate.Column, bool) {
	name, rest, called := strings.Cut(t.Text, "(")
	rest = strings.TrimRight(rest, " ")
	f, known := aggregate.Parse(strings.TrimSpace(name))
	switch {
	case !called || !strings.HasSuffix(rest, ")"):
		c.fault(path, "%q is no aggregate, expected a function of an expression such as sum(amount)", t.Text)
		return aggregate.Column{}, false
	case !known:
		name = strings.TrimSpace(name)
		c.fault(path, "%q is no aggregate function%s", name, oneOf(name, aggregate.Names()))
		return aggregate.Column{}, false
	}
	argument := strings.TrimSuffix(rest, ")")
	column := aggregate.Column{Name: t.Name, Function: f}
	if strings.TrimSpace(argument) == "" {
		if f != aggregate.Count {
			c.fault(path, "%s of nothing, expected %s(EXPRESSION)", f, f)
		}
		return column, f == aggregate.Count
	}
	before := len(c.faults)
	column.Argument = c.compile(path, scope, argument)
	if column.Argument == nil {
		shift(&c.faults[before], len([]rune(t.Text[:strings.Index(t.Text, "(")+1])))
		return column, false
	}
	if ok, want := f.Accepts(column.Argument.Type()); !ok {
		c.fault(path, "%s of an expression of type %s, expected %s", f, column.Argument.Type(), want)
		return column, false
	}
	return column, true
}

// shift moves a fault of an argument to where it lies in the whole text.
func shift(f *Fault, by int) {
	if f.Line == 1 {
		f.Column += by
	}
}

// isName says whether an expression is a single name.
func isName(source string) bool {
	for i, r := range source {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return source != ""
}

// sinks compiles the sinks.
func (c *compilation) sinks() {
	for _, s := range c.spec.Sinks {
		path := "sinks." + s.Name
		node := SinkNode{Name: s.Name, Topic: s.Topic, From: s.From}
		if s.Topic == "" {
			c.fault(path+".topic", "is missing, expected the topic to write")
		}
		if len(s.From) == 0 {
			c.fault(path+".from", "is missing, expected the name of a source or an operator")
		}
		f, known := format.Parse(s.Format)
		if s.Format != "" && !known {
			c.fault(path+".format", "%q is no format%s", s.Format, oneOf(s.Format, format.Names()))
		}
		for i, from := range s.From {
			at := path + ".from"
			if len(s.From) > 1 {
				at = fmt.Sprintf("%s[%d]", at, i)
			}
			c.once(at, s.From[:i], from)
			if in := c.input(at, from); in != nil && (known || s.Format == "") {
				c.sinkInput(path, s, f, in, &node)
			}
		}
		c.graph.Sinks = append(c.graph.Sinks, node)
	}
}

func (c *compilation) sinkInput(path string, s SinkSpec, f format.Format, in *format.Shape, node *SinkNode) {
	if s.Format == "" {
		f = in.Format
		if f == format.Row {
			f = format.JSON
		}
	}
	encoder, err := format.NewEncoder(*in, f)
	if err != nil {
		c.fault(path+".format", "%v", err)
	}
	node.Format = f
	node.Inputs = append(node.Inputs, SinkInput{
		Key: c.keyChange(path, s.Key, in), Shape: *in, Encode: encoder != nil,
	})
}
