package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/internal/nearest"
	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/row"
)

// Compile checks a spec as a whole and turns it into a graph. It returns all faults at once; with any, the graph is nil.
func Compile(spec Spec) (*Graph, []Fault) {
	c := compilation{spec: spec, graph: &Graph{Job: spec.Job}, streams: map[string]*format.Shape{}}
	c.names()
	c.sources()
	c.operators()
	c.sinks()
	c.loops()
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	return c.graph, nil
}

// compilation gathers the graph and the faults of one spec.
type compilation struct {
	spec   Spec
	graph  *Graph
	faults []Fault
	// streams are the shapes of sources and operators done so far; nil where a fault leaves the shape unknown, so that
	// one fault does not cause others downstream.
	streams map[string]*format.Shape
	known   []string
}

func (c *compilation) fault(path, message string, args ...any) {
	c.faults = append(c.faults, Fault{Path: path, Message: fmt.Sprintf(message, args...)})
}

// names finds names that are used twice among sources and operators, and among sinks.
func (c *compilation) names() {
	for _, s := range c.spec.Sources {
		c.known = append(c.known, s.Name)
	}
	for _, o := range c.spec.Operators {
		if slices.Contains(c.known, o.Name) {
			c.fault("operators."+o.Name, "the name is taken by a source, expected another")
		}
		c.known = append(c.known, o.Name)
	}
	if len(c.spec.Sources) == 0 {
		c.fault("sources", "there is none, expected at least one topic to read")
	}
	if len(c.spec.Sinks) == 0 {
		c.fault("sinks", "there is none, expected at least one topic to write")
	}
}

func (c *compilation) sources() {
	for _, s := range c.spec.Sources {
		path := "sources." + s.Name
		shape, ok := c.sourceShape(path, s)
		node := SourceNode{Name: s.Name, Topic: s.Topic, Start: s.Start, Shape: shape}
		if s.Topic == "" {
			c.fault(path+".topic", "is missing, expected the topic to read")
		}
		if p := c.policy(path, s.OnError, s.DeadLetter); p != nil {
			node.OnError = *p
		}
		c.graph.Sources = append(c.graph.Sources, node)
		c.streams[s.Name] = nil
		if ok {
			c.streams[s.Name] = &shape
		}
	}
}

func (c *compilation) sourceShape(path string, s SourceSpec) (format.Shape, bool) {
	f, ok := format.Raw, true
	if s.Format != "" {
		if f, ok = format.Parse(s.Format); !ok {
			c.fault(path+".format", "%q is no format%s", s.Format, oneOf(s.Format, format.Names()))
		}
	}
	shape := format.Shape{Format: f}
	if len(s.Fields) > 0 && f != format.JSON && ok {
		c.fault(path+".fields", "format %s has no fields, expected format: json", f)
	}
	for _, field := range s.Fields {
		t, known := row.ParseType(field.Text)
		if !known {
			c.fault(path+".fields."+field.Name, "%q is no type%s", field.Text, oneOf(field.Text, row.TypeNames()))
			ok = false
		}
		shape.Fields.Columns = append(shape.Fields.Columns, row.Column{Name: field.Name, Type: t})
	}
	return shape, ok
}

// oneOf names the nearest of the possible values, and all of them.
func oneOf(name string, known []string) string {
	return nearest.Hint(name, known) + " (expected " + strings.Join(known, ", ") + ")"
}

// policy reads on_error and dead_letter; nil where neither is given.
func (c *compilation) policy(path, onError, topic string) *ErrorPolicy {
	i := slices.Index(Policies(), onError)
	switch {
	case onError == "" && topic == "":
		return nil
	case onError != "" && i < 0:
		c.fault(path+".on_error", "%q is no policy%s", onError, oneOf(onError, Policies()))
	case Policy(i) == DeadLetter && topic == "":
		c.fault(path+".dead_letter", "is missing, expected the topic for what on_error: dead_letter rejects")
	case Policy(i) != DeadLetter && topic != "":
		c.fault(path+".dead_letter", "has no effect, expected on_error: dead_letter beside it")
	}
	return &ErrorPolicy{Policy: Policy(max(i, 0)), Topic: topic}
}

// inputs resolves from to the one shape that the streams have. It is nil where a fault, here or upstream, leaves it open.
func (c *compilation) inputs(path string, from []string) *format.Shape {
	if len(from) == 0 {
		c.fault(path+".from", "is missing, expected the name of a source or an operator")
		return nil
	}
	var shape *format.Shape
	complete := true
	for i, name := range from {
		at := path + ".from"
		if len(from) > 1 {
			at = fmt.Sprintf("%s[%d]", at, i)
		}
		c.once(at, from[:i], name)
		in := c.input(at, name)
		switch {
		case in == nil:
			complete = false
		case shape == nil:
			shape = in
		default:
			if shape = merge(shape, in); shape == nil {
				c.fault(at, "%s and %s have values of different shape, expected the same; bring them in line with a map",
					from[0], name)
				return nil
			}
		}
	}
	if !complete {
		return nil
	}
	return shape
}

// once refuses a name that from has before.
func (c *compilation) once(path string, before []string, name string) {
	if slices.Contains(before, name) {
		c.fault(path, "%s is there before, and each of its records would come twice", name)
	}
}

func (c *compilation) input(path, name string) *format.Shape {
	if !slices.Contains(c.known, name) {
		c.fault(path, "there is no source or operator called %q%s", name, nearest.Hint(name, c.known))
		return nil
	}
	return c.streams[name]
}

// merge returns the shape of two streams in one, nil where there is none.
func merge(a, b *format.Shape) *format.Shape {
	if a.Same(b) {
		return a
	}
	both := *a
	if a.Key != b.Key {
		both.Key = row.Column{}
	}
	if a.Format != b.Format {
		return nil
	}
	if a.Format == format.JSON {
		both.Fields.Columns = slices.DeleteFunc(slices.Clone(a.Fields.Columns),
			func(column row.Column) bool { return !slices.Contains(b.Fields.Columns, column) })
		return &both
	}
	if !slices.Equal(a.Fields.Columns, b.Fields.Columns) {
		return nil
	}
	return &both
}

// loops refuses a sink that writes to a topic which a source reads: the job would feed itself for ever.
func (c *compilation) loops() {
	for _, sink := range c.spec.Sinks {
		for _, source := range c.spec.Sources {
			if sink.Topic == source.Topic && sink.Topic != "" {
				c.fault("sinks."+sink.Name+".topic", "source %s reads %s as well and the job would feed itself, "+
					"expected another topic", source.Name, sink.Topic)
			}
		}
	}
}
