package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write docs/configuration.md and docs/pipeline.schema.json anew")

// TestReference compares the generated documents with what the Config struct says now.
func TestReference(t *testing.T) {
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]byte{
		"../docs/configuration.md": []byte(Reference()), "../docs/pipeline.schema.json": schema,
	} {
		if *update {
			if err := os.WriteFile(file, want, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale (%v): run go test ./config -run TestReference -update", file, err)
		}
	}
}

func TestEveryKeyIsDescribed(t *testing.T) {
	for _, k := range Keys() {
		if !strings.HasSuffix(k.Meaning, ".") {
			t.Errorf("%s has no meaning, or one that is no sentence: %q", k.Path, k.Meaning)
		}
		c := &Config{}
		if err := k.assign(c, split(k.Default)); err != nil && k.Default != "" {
			t.Errorf("the default of %s: %v", k.Path, err)
		}
		if _, ok := k.bound(k.Min); k.Min != "" && !ok {
			t.Errorf("the bound %s of %s cannot be read", k.Min, k.Path)
		}
		if _, ok := k.bound(k.Max); k.Max != "" && !ok {
			t.Errorf("the bound %s of %s cannot be read", k.Max, k.Path)
		}
	}
}

// pipelineSchema compiles the schema as an editor would.
func pipelineSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("pipeline.json", doc); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("pipeline.json")
}

func TestSchema(t *testing.T) {
	schema := pipelineSchema(t)
	files, err := filepath.Glob("../examples/*/pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../cmd/sidecar/starter.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := againstSchema(schema, text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for name, text := range map[string]string{
		"an unknown key":  strings.Replace(small, "brokers", "brokrs", 1),
		"a wrong word":    strings.Replace(small, "PLAIN", "PLANE", 1),
		"a bad duration":  strings.Replace(small, "2s", "2 parsecs", 1),
		"a missing topic": strings.Replace(small, "topic: b", "", 1),
		"two verbs":       small + "operators:\n  x: {from: in, filter: a, map: b}\n",
	} {
		if againstSchema(schema, []byte(text)) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func againstSchema(schema *jsonschema.Schema, text []byte) error {
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	return schema.Validate(doc)
}
