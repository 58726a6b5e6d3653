package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirstream/weir/internal/nearest"
)

// document is a pipeline file on its way into a Config: its nodes by key, and what is wrong so far.
type document struct {
	name string
	root *yaml.Node
	// nodes are the values by key, lines the lines of the keys themselves.
	nodes  map[string]*yaml.Node
	lines  map[string]int
	faults []Fault
}

// maxFile bounds the size of a pipeline file.
const maxFile = 4 << 20

// parseDocument reads YAML. Faults of its form are gathered in the document, whose root is then nil.
func parseDocument(name string, text []byte) *document {
	d := &document{name: name, nodes: map[string]*yaml.Node{}, lines: map[string]int{}}
	if len(text) > maxFile {
		d.fault(nil, "", "the file is larger than %s", Size(maxFile))
		return d
	}
	var top yaml.Node
	if err := yaml.Unmarshal(text, &top); err != nil {
		d.syntax(err)
		return d
	}
	if top.Kind != yaml.DocumentNode || len(top.Content) == 0 {
		d.fault(nil, "", "the file is empty, expected a pipeline; weir init writes one to start from")
		return d
	}
	d.root = top.Content[0]
	if d.root.Kind != yaml.MappingNode {
		d.fault(d.root, "", "the file holds %s, expected keys such as job, sources and sinks", kind(d.root))
		d.root = nil
	}
	return d
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)

// syntax turns an error of the YAML parser into a fault. Its line is only to be had from its text.
func (d *document) syntax(err error) {
	f := Fault{Place: d.name, Line: 1, Message: "not YAML: " + err.Error()}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		f.Message = "not YAML: " + m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			f.Line = n
		}
	}
	d.faults = append(d.faults, f)
}

func (d *document) fault(n *yaml.Node, key, message string, args ...any) {
	f := Fault{Place: d.name, Line: 1, Key: key, Message: fmt.Sprintf(message, args...)}
	if n != nil {
		f.Line = n.Line
	}
	d.faults = append(d.faults, f)
}

// kind names what a node holds.
func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return "a single value"
}

// entry is one key of a section with its value.
type entry struct {
	name  string
	key   *yaml.Node
	value *yaml.Node
}

// section returns the entries of a mapping, in order. Keys that are there twice are faults.
func (d *document) section(n *yaml.Node, path string) []entry {
	n = resolve(n)
	if n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n, path, "holds %s, expected a section of keys", kind(n))
		return nil
	}
	var entries []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		e := entry{name: n.Content[i].Value, key: n.Content[i], value: resolve(n.Content[i+1])}
		at := join(path, e.name)
		if slices.ContainsFunc(entries, func(o entry) bool { return o.name == e.name }) {
			d.fault(e.key, at, "is there twice, expected once")
			continue
		}
		d.nodes[at], d.lines[at] = e.value, e.key.Line
		entries = append(entries, e)
	}
	return entries
}

// resolve follows an alias to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// unknown reports a key that nobody knows.
func (d *document) unknown(e entry, path string, known []string) {
	hint := nearest.Hint(e.name, known)
	if hint == "" {
		hint = " (expected " + strings.Join(known, ", ") + ")"
	}
	d.fault(e.key, join(path, e.name), "unknown key%s", hint)
}

// text returns a scalar with its variables replaced.
func (d *document) text(n *yaml.Node, path string) (string, bool) {
	n = resolve(n)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.fault(n, path, "holds %s, expected a single value", kind(n))
		return "", false
	}
	text, err := expand(n.Value)
	if err != nil {
		d.fault(n, path, "%v", err)
		return "", false
	}
	return text, true
}

// texts returns the entries of a list; a single value is a list of one.
func (d *document) texts(n *yaml.Node, path string) ([]string, bool) {
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		text, ok := d.text(n, path)
		return []string{text}, ok
	}
	var list []string
	all := true
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.nodes[at], d.lines[at] = resolve(item), item.Line
		text, ok := d.text(item, at)
		list, all = append(list, text), all && ok
	}
	return list, all
}

var (
	variable    = regexp.MustCompile(`\$?\$\{[^}]*\}`)
	variableIn  = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:[^}]*)?\}$`)
	errVariable = errors.New("expected ${NAME} or ${NAME:default}; $${ stands for ${ itself")
)

// expand replaces ${NAME} and ${NAME:default} by the environment's values; $${ stands for ${ itself.
func expand(text string) (string, error) {
	var fault error
	out := variable.ReplaceAllStringFunc(text, func(ref string) string {
		if strings.HasPrefix(ref, "$$") {
			return ref[1:]
		}
		m := variableIn.FindStringSubmatch(ref)
		if m == nil {
			fault = fmt.Errorf("%s is no variable, %w", ref, errVariable)
			return ref
		}
		if value, set := os.LookupEnv(m[1]); set {
			return value
		}
		if m[2] == "" {
			fault = fmt.Errorf("the environment has no variable %s, expected it or a default, ${%s:value}", m[1], m[1])
			return ref
		}
		return m[2][1:]
	})
	return out, fault
}
