package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/config"
)

func newValidate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check pipeline files without running them",
		Long: `Checks pipeline files: keys, values, names, expressions and their types. Everything that is wrong is reported at
once, a line each, with where it is. Kafka is not asked.`,
		Example: `  weir init pipeline.yaml
  weir validate pipeline.yaml`,
	}
	named := cmd.Flags().StringArrayP("file", "f", nil, "pipeline file, instead of an argument")
	var output *string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		files := append(args, *named...)
		if len(files) == 0 {
			return usageError{errors.New("which pipeline? name its file; see weir validate --help")}
		}
		return validate(cmd.OutOrStdout(), files, *output)
	}
	output = outputFlag(cmd, "text", "json")
	return cmd
}

// checked is the verdict on one file, for programs.
type checked struct {
	File   string         `json:"file"`
	Valid  bool           `json:"valid"`
	Faults []config.Fault `json:"faults"`
}

func validate(out io.Writer, files []string, output string) error {
	var all config.InvalidError
	var text strings.Builder
	verdicts := []checked{}
	for _, file := range files {
		c, err := config.Load(config.Options{File: file})
		verdict := checked{File: file, Valid: err == nil, Faults: []config.Fault{}}
		var invalid *config.InvalidError
		switch {
		case errors.As(err, &invalid):
			verdict.Faults = invalid.Faults
			all.Faults = append(all.Faults, invalid.Faults...)
		case err != nil:
			return usageError{err}
		default:
			fmt.Fprintf(&text, "%s: fine: job %s, %s, %s, %s\n", file, c.Job, count(len(c.Spec.Sources), "source"),
				count(len(c.Spec.Operators), "operator"), count(len(c.Spec.Sinks), "sink"))
		}
		verdicts = append(verdicts, verdict)
	}
	if output == "json" {
		text.Reset()
		if err := writeJSON(&text, verdicts); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(out, text.String()); err != nil {
		return err
	}
	if len(all.Faults) > 0 {
		return &all
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
