package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/internal/spans"
)

// Description is a plan for people and programs: everything in it that can be written down.
type Description struct {
	Job      string              `json:"job"`
	Groups   int                 `json:"groups"`
	Subtasks int                 `json:"subtasks"`
	Chains   []ChainDescription  `json:"chains"`
	Outputs  []OutputDescription `json:"outputs"`
}

// ChainDescription is what one goroutine runs in a row.
type ChainDescription struct {
	Name    string              `json:"name"`
	Inputs  []InputDescription  `json:"inputs,omitempty"`
	Sources []SourceDescription `json:"sources,omitempty"`
	Steps   []StepDescription   `json:"steps,omitempty"`
}

// InputDescription is an edge that ends in a chain.
type InputDescription struct {
	Name string `json:"name"`
	From string `json:"from"`
	// By is key for records that move to the owner of their key, forward for those that stay in their subtask.
	By string   `json:"by"`
	To []string `json:"to"`
}

// SourceDescription is a topic that is read.
type SourceDescription struct {
	Name  string `json:"name"`
	Topic string `json:"topic"`
	Start string `json:"start"`
	// Readers gives the partitions that each subtask reads.
	Readers [][]int  `json:"readers"`
	To      []string `json:"to"`
}

// StepDescription is one operator.
type StepDescription struct {
	Name  string   `json:"name"`
	Does  string   `json:"does"`
	Keyed bool     `json:"keyed,omitempty"`
	To    []string `json:"to"`
	// Rejects gives for each source what becomes of records that cannot be processed, where that is not to fail.
	Rejects map[string]string `json:"rejects,omitempty"`
}

// OutputDescription is a topic that is written.
type OutputDescription struct {
	Name       string `json:"name"`
	Topic      string `json:"topic"`
	Partitions int    `json:"partitions"`
	DeadLetter bool   `json:"dead_letter,omitempty"`
}

// Describe returns the description of p.
func (p *Plan) Describe() Description {
	d := Description{Job: p.Job, Groups: p.Groups, Subtasks: p.Subtasks}
	for i, c := range p.Chains {
		chain := ChainDescription{Name: c.Name}
		for _, e := range c.Inputs {
			chain.Inputs = append(chain.Inputs, p.describeEdge(e))
		}
		if i == 0 {
			chain.Sources = p.describeSources()
		}
		for _, s := range p.Steps {
			if s.Chain == i {
				chain.Steps = append(chain.Steps, p.describeStep(s))
			}
		}
		d.Chains = append(d.Chains, chain)
	}
	for _, o := range p.Outputs {
		d.Outputs = append(d.Outputs, OutputDescription{o.Name, o.Topic, int(o.Partitions), o.DeadLetter})
	}
	return d
}

func (p *Plan) describeEdge(e int) InputDescription {
	by := "key"
	if p.Edges[e].Route == nil {
		by = "forward"
	}
	return InputDescription{
		Name: p.Edges[e].Name, From: p.Chains[p.Edges[e].From].Name, By: by, To: p.targets(p.Edges[e].Out),
	}
}

func (p *Plan) describeSources() []SourceDescription {
	var list []SourceDescription
	for _, s := range p.Sources {
		readers := make([][]int, p.Subtasks)
		for partition, subtask := range s.Owner {
			readers[subtask] = append(readers[subtask], partition)
		}
		list = append(list, SourceDescription{s.Name, s.Topic, s.Start.String(), readers, p.targets(s.Out)})
	}
	return list
}

func (p *Plan) describeStep(s Step) StepDescription {
	d := StepDescription{Name: s.Name, Does: s.Does, Keyed: s.Keyed, To: p.targets(s.Out)}
	for source, r := range s.Rejections {
		if r.Policy == Fail {
			continue
		}
		if d.Rejects == nil {
			d.Rejects = map[string]string{}
		}
		d.Rejects[p.Sources[source].Name] = strings.Join(append([]string{r.Policy.String()}, p.targets(r.To)...), " ")
	}
	return d
}

// targets names where records go.
func (p *Plan) targets(targets []Target) []string {
	names := []string{}
	for _, t := range targets {
		switch t.Kind {
		case ToStep:
			names = append(names, p.Steps[t.Index].Name)
		case ToEdge:
			names = append(names, "chain "+p.Chains[p.Edges[t.Index].To].Name)
		case ToOutput:
			names = append(names, "topic "+p.Outputs[t.Index].Topic)
		}
	}
	return names
}

// Text writes the description for a terminal.
func (d Description) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "job %s: %d subtasks, %d key groups\n", d.Job, d.Subtasks, d.Groups)
	for i, c := range d.Chains {
		fmt.Fprintf(&b, "\nchain %d %s\n", i, c.Name)
		for _, in := range c.Inputs {
			fmt.Fprintf(&b, "  from chain %s, %s%s\n", in.From, map[string]string{
				"key": "each record to the owner of its key", "forward": "within the subtask"}[in.By], arrow(in.To))
		}
		for _, s := range c.Sources {
			fmt.Fprintf(&b, "  source %s: topic %s, %s%s\n", s.Name, s.Topic, partitions(s.Readers), arrow(s.To))
		}
		for _, s := range c.Steps {
			fmt.Fprintf(&b, "  %s: %s%s\n", s.Name, s.Does, arrow(s.To))
			for _, source := range sortedKeys(s.Rejects) {
				fmt.Fprintf(&b, "    at fault, from %s: %s\n", source, s.Rejects[source])
			}
		}
	}
	b.WriteString("\noutputs\n")
	for _, o := range d.Outputs {
		fmt.Fprintf(&b, "  %s: topic %s, partitions: %d\n", o.Name, o.Topic, o.Partitions)
	}
	return b.String()
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func arrow(to []string) string {
	if len(to) == 0 {
		return ""
	}
	return " -> " + strings.Join(to, ", ")
}

// partitions says which subtask reads what.
func partitions(readers [][]int) string {
	var parts []string
	for subtask, list := range readers {
		parts = append(parts, fmt.Sprintf("subtask %d reads %s", subtask, cmp.Or(spans.Text(list), "nothing")))
	}
	return strings.Join(parts, ", ")
}

// Mermaid writes the description as a flow chart.
func (d Description) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, c := range d.Chains {
		fmt.Fprintf(&b, "  subgraph c%d [\"chain %s\"]\n", i, quoteMermaid(c.Name))
		for _, s := range c.Sources {
			fmt.Fprintf(&b, "    %s[/\"%s: %s\"/]\n", nodeID(s.Name), quoteMermaid(s.Name), quoteMermaid(s.Topic))
		}
		for _, s := range c.Steps {
			fmt.Fprintf(&b, "    %s[\"%s: %s\"]\n", nodeID(s.Name), quoteMermaid(s.Name), quoteMermaid(s.Does))
		}
		for _, in := range c.Inputs {
			fmt.Fprintf(&b, "    %s([\"by %s\"])\n", nodeID(in.Name), in.By)
		}
		b.WriteString("  end\n")
	}
	for _, o := range d.Outputs {
		fmt.Fprintf(&b, "  %s[\\\"%s\"\\]\n", nodeID("topic "+o.Topic), quoteMermaid(o.Topic))
	}
	d.mermaidLinks(&b)
	return b.String()
}

func (d Description) mermaidLinks(b *strings.Builder) {
	link := func(from string, to []string) {
		for _, t := range to {
			if !strings.HasPrefix(t, "chain ") {
				fmt.Fprintf(b, "  %s --> %s\n", nodeID(from), nodeID(t))
			}
		}
	}
	inputs := map[string][]string{}
	for _, c := range d.Chains {
		for _, in := range c.Inputs {
			inputs["chain "+c.Name+"/"+in.From] = append(inputs["chain "+c.Name+"/"+in.From], in.Name)
			link(in.Name, in.To)
		}
	}
	for _, c := range d.Chains {
		outward := func(from string, to []string) {
			link(from, to)
			for _, t := range to {
				link(from, inputs[t+"/"+c.Name])
			}
		}
		for _, s := range c.Sources {
			outward(s.Name, s.To)
		}
		for _, s := range c.Steps {
			outward(s.Name, s.To)
			for _, source := range sortedKeys(s.Rejects) {
				_, to, _ := strings.Cut(s.Rejects[source], " ")
				for _, in := range inputs[to+"/"+c.Name] {
					fmt.Fprintf(b, "  %s -. at fault .-> %s\n", nodeID(s.Name), nodeID(in))
				}
			}
		}
	}
}

func quoteMermaid(s string) string { return strings.ReplaceAll(s, `"`, "#quot;") }

// nodeID makes a name into an identifier of a flow chart.
func nodeID(name string) string {
	return "n_" + strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}
