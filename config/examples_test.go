package config

import (
	"path/filepath"
	"testing"
)

func TestExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("../examples/*/pipeline.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples found: %v", err)
	}
	for _, file := range files {
		if _, err := Load(Options{File: file}); err != nil {
			t.Errorf("%v", err)
		}
	}
}
