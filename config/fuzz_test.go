package config

import (
	"errors"
	"os"
	"testing"
)

// FuzzPipelineFile looks for files that break the reader: whatever is in a file, it is accepted with a graph or refused with
// faults that have a line.
func FuzzPipelineFile(f *testing.F) {
	for _, file := range []string{"../cmd/sidecar/starter.yaml", "testdata/mistakes"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(small))
	f.Add([]byte("a: &a [*a]\nsources: *a\nkafka: {brokers: *a}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("p.yaml", text, nil)
		var faults *InvalidError
		switch {
		case err == nil && c.Graph == nil:
			t.Fatal("no fault and no graph")
		case err != nil && !errors.As(err, &faults):
			t.Fatalf("%v is no list of faults", err)
		}
		if faults == nil {
			return
		}
		for _, fault := range faults.Faults {
			if fault.Place == "p.yaml" && fault.Line < 1 {
				t.Fatalf("%v has no line", fault)
			}
		}
	})
}
