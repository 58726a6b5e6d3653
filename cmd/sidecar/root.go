package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/sidecar"
)

// newRoot returns the whole command.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Process Kafka topics exactly once, next to your service",
		Long: `Weir reads Kafka topics, filters, maps and aggregates their records, and writes the results to other
topics. A read_committed reader of the results sees the effect of each record exactly once, whatever is killed.

Exit status: 0 fine, 1 failed at run time, 2 wrong command line or configuration, 3 stopped because only an
operator may decide how to go on.`,
		Example: `  weir init pipeline.yaml
  weir validate pipeline.yaml`,
		Version:       built().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          arguments(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(newValidate(), newConfig(), newPlan(sidecar.Partitions), newInit(), newDemo(), newDev(), newRun(), newStatus(),
		newCheckpoint(), newTxn(), newVersion())
	return root
}

// arguments makes the faults that check finds faults of usage.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
		}
		return nil
	}
}

// outputFlag adds --output with the given forms, the first of which is the default.
func outputFlag(cmd *cobra.Command, forms ...string) *string {
	output := cmd.Flags().StringP("output", "o", forms[0], "form of the output: "+strings.Join(forms, ", "))
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(forms, *output) {
			return usageError{fmt.Errorf("--output %s is not known, expected %s", *output, strings.Join(forms, ", "))}
		}
		return inner(cmd, args)
	}
	return output
}

// writeJSON writes a document for programs.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
