package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/config"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config FILE",
		Short: "Show the settings that hold, and where each comes from",
		Long: `Shows every setting with its value and where it comes from: a flag, the environment (WEIR__KAFKA__BROKERS for
kafka.brokers), the file with the line, or the default. Secrets show as stars.`,
		Example: `  weir init pipeline.yaml
  WEIR__CHECKPOINT__INTERVAL=250ms weir config pipeline.yaml`,
		Args: arguments(cobra.MaximumNArgs(1)),
	}
	fileFlag(cmd)
	config.AddFlags(cmd.Flags())
	var output *string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := namedFile(cmd, args)
		if err != nil {
			return err
		}
		c, err := load(cmd, file)
		if err != nil {
			return err
		}
		if *output == "json" {
			return writeJSON(cmd.OutOrStdout(), c.Settings())
		}
		var table strings.Builder
		table.WriteString("KEY\tVALUE\tORIGIN\n")
		for _, s := range c.Settings() {
			fmt.Fprintf(&table, "%s\t%s\t%s\n", s.Key, s.Value, s.Origin)
		}
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		_, err = io.WriteString(w, table.String())
		return errors.Join(err, w.Flush())
	}
	output = outputFlag(cmd, "text", "json")
	return cmd
}

// load reads the configuration of a command that has the flags of the settings.
func load(cmd *cobra.Command, file string) (*config.Config, error) {
	c, err := config.Load(config.Options{File: file, Flags: cmd.Flags()})
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// fileFlag adds the flag that names the pipeline file, for namedFile.
func fileFlag(cmd *cobra.Command) {
	cmd.Flags().StringP("file", "f", "", "pipeline file, instead of the argument")
}

// namedFile is the pipeline file that the argument, or else the flag --file, names.
func namedFile(cmd *cobra.Command, args []string) (string, error) {
	file, _ := cmd.Flags().GetString("file") // fileFlag has added it
	if file != "" && len(args) > 0 {
		return "", usageError{fmt.Errorf("the pipeline file is named twice, %s and --file %s", args[0], file)}
	}
	if len(args) > 0 {
		file = args[0]
	}
	if file == "" {
		return "", usageError{fmt.Errorf("which pipeline? name its file; see %s --help", cmd.CommandPath())}
	}
	return file, nil
}
