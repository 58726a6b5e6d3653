package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirstream/weir/topology"
	"github.com/weirstream/weir/topology/aggregate"
	"github.com/weirstream/weir/topology/format"
	"github.com/weirstream/weir/topology/row"
)

// form is what the value of a pipeline key looks like.
type form string

const (
	oneText    form = "text"
	someTexts  form = "text or list of texts"
	namedTexts form = "section of texts"
	anyTexts   form = "text or section of texts"
)

// property describes one key of a source, an operator or a sink.
type property struct {
	name     string
	form     form
	enum     []string
	required bool
	// verb marks the keys of which an operator has exactly one.
	verb    bool
	meaning string
}

func sourceProperties() []property {
	return []property{
		{name: "topic", form: oneText, required: true, meaning: "Topic to read."},
		{name: "format", form: oneText, enum: format.Names(), meaning: "Form of the values; raw by default: bytes of which nothing is known. int64 is eight bytes, big endian."},
		{name: "fields", form: namedTexts, meaning: "Types of members of JSON values: " + strings.Join(row.TypeNames(), ", ") + ". Expressions are checked against them at start, and the members that an expression names in each record: one of another type is a fault of the record. Without this section expressions may name any member, of any type; with it only those named here."},
		{name: "start", form: oneText, meaning: "Where a partition is read from that no checkpoint knows: earliest (the default), latest, or a time such as 2026-01-31T00:00:00Z."},
		onErrorProperty("Holds for everything downstream, until an operator says otherwise."),
		deadLetterProperty(),
	}
}

func onErrorProperty(scope string) property {
	return property{name: "on_error", form: oneText, enum: topology.Policies(),
		meaning: "What becomes of a record that cannot be processed: fail (the default) halts the job at it, drop goes on without it, dead_letter writes it to a topic within the same transaction. " + scope}
}

func deadLetterProperty() property {
	return property{name: "dead_letter", form: oneText, meaning: "Topic for what on_error: dead_letter rejects. Headers weir.error, weir.operator, weir.source, weir.topic, weir.partition and weir.offset tell where it came from."}
}

func operatorProperties() []property {
	return []property{
		{name: "from", form: someTexts, required: true, meaning: "Source or operator to read, or a list of them."},
		{name: "key", form: oneText, meaning: "Expression of a new key, set before the verb is applied; key keeps the record's. An aggregate needs it."},
		{name: "filter", form: oneText, verb: true, meaning: "Condition; records for which it is false go no further."},
		{name: "map", form: anyTexts, verb: true, meaning: "Named expressions that make up the new value, or one expression that is it. A single expression that yields null makes a tombstone; named ones let tombstones pass."},
		{name: "flat_map", form: oneText, verb: true, meaning: "Expression that yields a list; each element becomes the value of a record."},
		{name: "aggregate", form: namedTexts, verb: true, meaning: "Named functions over the records of a key: " + strings.Join(aggregate.Names(), ", ") + ". count takes a condition or nothing. Null arguments are left out and tombstones passed over."},
		{name: "emit", form: oneText, enum: []string{"every_update", "on_checkpoint"}, meaning: "When an aggregate hands on its row: for every record (the default), or the last one of each key at a checkpoint."},
		onErrorProperty("By default as upstream."),
		deadLetterProperty(),
	}
}

func sinkProperties() []property {
	return []property{
		{name: "from", form: someTexts, required: true, meaning: "Source or operator to write, or a list of them."},
		{name: "topic", form: oneText, required: true, meaning: "Topic to write."},
		{name: "key", form: oneText, meaning: "Expression of the key; the record's by default."},
		{name: "format", form: oneText, enum: format.Names(), meaning: "Form of the values; by default that of the stream, and json for rows."},
	}
}

// sections are the parts of a pipeline whose names are the user's own.
func sections() map[string][]property {
	return map[string][]property{
		"sources": sourceProperties(), "operators": operatorProperties(), "sinks": sinkProperties(),
	}
}

// item is a source, an operator or a sink as it is written.
type item struct {
	name   string
	texts  map[string]string
	lists  map[string][]string
	named  map[string][]topology.NamedText
	broken bool
}

var itemName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// items reads one section.
func (d *document) items(n *yaml.Node, section string, properties []property) []item {
	var items []item
	for _, e := range d.section(n, section) {
		path := join(section, e.name)
		if !itemName.MatchString(e.name) {
			d.fault(e.key, path, "%q is no name, expected letters, digits, underscore and dash, not starting with a digit", e.name)
		}
		items = append(items, d.item(e, path, properties))
	}
	return items
}

func (d *document) item(e entry, path string, properties []property) item {
	it := item{
		name: e.name, texts: map[string]string{}, lists: map[string][]string{}, named: map[string][]topology.NamedText{},
	}
	var names []string
	for _, p := range properties {
		names = append(names, p.name)
	}
	for _, p := range d.section(e.value, path) {
		i := slices.Index(names, p.name)
		if i < 0 {
			d.unknown(p, path, names)
			it.broken = true
			continue
		}
		d.property(&it, properties[i], p.value, join(path, p.name))
	}
	return it
}

func (d *document) property(it *item, p property, n *yaml.Node, path string) {
	before := len(d.faults)
	switch {
	case p.form == someTexts:
		it.lists[p.name], _ = d.texts(n, path)
	case p.form == namedTexts, p.form == anyTexts && n.Kind == yaml.MappingNode:
		it.named[p.name] = d.named(n, path)
	case p.form == anyTexts:
		text, _ := d.text(n, path)
		it.named[p.name] = []topology.NamedText{{Text: text}}
	default:
		it.texts[p.name], _ = d.text(n, path)
	}
	it.broken = it.broken || len(d.faults) > before
}

func (d *document) named(n *yaml.Node, path string) []topology.NamedText {
	var list []topology.NamedText
	for _, e := range d.section(n, path) {
		at := join(path, e.name)
		if !itemName.MatchString(e.name) || strings.Contains(e.name, "-") {
			d.fault(e.key, at, "%q is no name of a field, expected letters, digits and underscore, not starting with a digit", e.name)
		}
		text, _ := d.text(e.value, at)
		list = append(list, topology.NamedText{Name: e.name, Text: text})
	}
	return list
}

// pipeline reads the sections of the user's own names.
func (d *document) pipeline(entries []entry) topology.Spec {
	var spec topology.Spec
	for _, e := range entries {
		properties, ok := sections()[e.name]
		if !ok {
			continue
		}
		for _, it := range d.items(e.value, e.name, properties) {
			switch e.name {
			case "sources":
				spec.Sources = append(spec.Sources, d.source(it))
			case "operators":
				spec.Operators = append(spec.Operators, it.operator())
			case "sinks":
				spec.Sinks = append(spec.Sinks, it.sink())
			}
		}
	}
	return spec
}

func (d *document) source(it item) topology.SourceSpec {
	path := "sources." + it.name + ".start"
	start, err := topology.ParseStart(it.texts["start"])
	if err != nil {
		d.fault(d.nodes[path], path, "%v", err)
	}
	return topology.SourceSpec{
		Name: it.name, Topic: it.texts["topic"], Format: it.texts["format"], Fields: it.named["fields"], Start: start,
		OnError: it.texts["on_error"], DeadLetter: it.texts["dead_letter"],
	}
}

func (it *item) operator() topology.OperatorSpec {
	return topology.OperatorSpec{
		Name: it.name, From: it.lists["from"], Key: it.texts["key"], Filter: it.texts["filter"], Map: it.named["map"],
		FlatMap: it.texts["flat_map"], Aggregate: it.named["aggregate"], Emit: it.texts["emit"],
		OnError: it.texts["on_error"], DeadLetter: it.texts["dead_letter"],
	}
}

func (it *item) sink() topology.SinkSpec {
	return topology.SinkSpec{
		Name: it.name, Topic: it.texts["topic"], From: it.lists["from"], Key: it.texts["key"], Format: it.texts["format"],
	}
}

// compile checks the pipeline and says where in the file its faults lie.
func (d *document) compile(spec topology.Spec) *topology.Graph {
	graph, faults := topology.Compile(spec)
	for _, f := range faults {
		d.faults = append(d.faults, d.locate(f))
	}
	return graph
}

// locate finds the place of a fault: that of its key or, where the key is missing, of what it is missing in.
func (d *document) locate(f topology.Fault) Fault {
	fault := Fault{Place: d.name, Line: 1, Key: f.Path, Message: f.Message}
	path := f.Path
	for d.lines[path] == 0 {
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return fault
		}
		path = path[:cut]
	}
	fault.Line = d.lines[path]
	if f.Line > 0 && path == f.Path {
		d.locateWithin(&fault, f, d.nodes[path])
	}
	return fault
}

// locateWithin adds the place within an expression.
func (d *document) locateWithin(fault *Fault, f topology.Fault, n *yaml.Node) {
	fault.Line = n.Line
	at := fmt.Sprintf("character %d", f.Column)
	if strings.Contains(strings.TrimSpace(n.Value), "\n") {
		at = fmt.Sprintf("line %d, %s", f.Line, at)
	}
	fault.Message += " (at " + at + " of the expression)"
	switch {
	case n.Style&yaml.LiteralStyle != 0:
		fault.Line += f.Line // the text starts on the line after the bar
	case n.Style&yaml.FoldedStyle != 0 || f.Line > 1:
		// Where a folded text broke its lines is not known.
	default:
		fault.Column = n.Column + f.Column - 1
		if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			fault.Column++
		}
	}
}
