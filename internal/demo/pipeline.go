package demo

import (
	_ "embed" // for the pipeline's text
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/weirstream/weir/internal/verify"
)

//go:embed pipeline.yaml
var pipelineText string

// pipeline is what the pipeline file is made from.
type pipeline struct {
	Job     string
	Brokers []string
	Dir     string
	Topics  verify.Topics
}

// topicsOf names the topics of a job.
func topicsOf(job string) verify.Topics {
	return verify.Topics{Input: job + "-views", Passed: job + "-valid-views", ByUser: job + "-user-totals", ByPage: job + "-page-totals",
		Ledger: job + "-weir-ledger"}
}

const partitions = 4

func (p pipeline) partitions() map[string]int32 {
	t := p.Topics
	return map[string]int32{t.Input: partitions, t.Passed: partitions, t.ByUser: partitions, t.ByPage: partitions, t.Ledger: 0}
}

// write writes the pipeline file into the pipeline's folder and returns its path.
func (p pipeline) write() (path string, err error) {
	t, err := template.New("pipeline").Parse(pipelineText)
	if err != nil {
		return "", fmt.Errorf("demo pipeline: %w", err)
	}
	path = filepath.Join(p.Dir, "pipeline.yaml")
	f, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("demo pipeline: %w", err)
	}
	if err := t.Execute(f, p); err != nil {
		return "", fmt.Errorf("demo pipeline: %w", err)
	}
	return path, f.Close()
}
