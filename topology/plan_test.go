package topology

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestPlans compares how pipelines are laid out with testdata/plans, which -rewrite writes anew.
func TestPlans(t *testing.T) {
	specs := map[string]Spec{"count": countSpec(), "views": viewsSpec(), "wide": wideSpec(), "pass": {
		Job: "pass", Sources: []SourceSpec{{Name: "in", Topic: "a"}},
		Sinks: []SinkSpec{{Name: "out", Topic: "b", From: []string{"in"}}, {Name: "again", Topic: "c", From: []string{"in"}}},
	}}
	datadriven.RunTest(t, "testdata/plans", func(t *testing.T, d *datadriven.TestData) string {
		spec, ok := specs[d.Cmd]
		if !ok {
			t.Fatalf("no pipeline %s", d.Cmd)
		}
		partitions := Partitions{}
		subtasks := 0
		for _, arg := range d.CmdArgs {
			var n int
			arg.Scan(t, 0, &n)
			if arg.Key == "subtasks" {
				subtasks = n
			} else {
				partitions[arg.Key] = n
			}
		}
		p, err := NewPlan(compile(t, spec), partitions, subtasks)
		if err != nil {
			return err.Error()
		}
		return p.Describe().Text()
	})
}

func TestPlanRefuses(t *testing.T) {
	graph := compile(t, countSpec())
	for want, c := range map[string]struct {
		partitions Partitions
		subtasks   int
	}{
		"at least one subtask": {Partitions{"words": 1, "counts": 1}, 0}, "topic words": {Partitions{"counts": 1}, 1},
	} {
		if _, err := NewPlan(graph, c.partitions, c.subtasks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func TestGroupsStayWithTheJob(t *testing.T) {
	graph := compile(t, countSpec())
	for _, c := range []struct {
		words, counts int
		want          string
	}{{4, 4, ""}, {7, 4, ""}, {5, 8, ""}, {4, 6, "topic counts has 6 partitions"}} {
		p, err := NewPlanWithGroups(graph, Partitions{"words": c.words, "counts": c.counts}, 2, 128)
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, want an error with %q", c, err, c.want)
			}
		case err != nil:
			t.Errorf("%+v: %v", c, err)
		case p.Groups != 128 || len(p.Sources[0].Owner) != c.words:
			t.Errorf("%+v: %d key groups, %d partitions read", c, p.Groups, len(p.Sources[0].Owner))
		}
	}
}

func TestDescriptionForPrograms(t *testing.T) {
	p := plan(t, viewsSpec(), Partitions{"page-views": 6, "page-counts": 3, "dead": 1}, 3)
	text, err := json.Marshal(p.Describe())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"job":"views"`, `"readers":[[0,3],[1,4],[2,5]]`, `"keyed":true`, `"dead_letter":true`, `"by":"key"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	chart := p.Describe().Mermaid()
	for _, want := range []string{"flowchart LR\n", "n_views --> n_valid\n", "n_valid -. at fault .-> ", "--> n_topic_page_counts\n"} {
		if !strings.Contains(chart, want) {
			t.Errorf("no %q in\n%s", want, chart)
		}
	}
}
