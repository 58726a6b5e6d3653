package config

import (
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestMistakes compares what is said of wrong files with testdata/mistakes, which -rewrite writes anew.
func TestMistakes(t *testing.T) {
	wrong := 0
	datadriven.RunTest(t, "testdata/mistakes", func(t *testing.T, d *datadriven.TestData) string {
		c, err := Parse("p.yaml", []byte(d.Input), nil)
		if err == nil {
			if c.Graph == nil {
				t.Fatal("no fault and no graph")
			}
			return "fine"
		}
		wrong++
		return err.Error()
	})
	if wrong < 30 {
		t.Errorf("%d mistakes, want at least 30", wrong)
	}
}
