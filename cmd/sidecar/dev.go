package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/internal/dev"
	"github.com/weirstream/weir/internal/embedded"
	"github.com/weirstream/weir/topology"
)

func newDev() *cobra.Command {
	var inputs []string
	o := dev.Options{}
	cmd := &cobra.Command{
		Use:   "dev FILE --input SOURCE=PATH...",
		Short: "Try a pipeline on files, without Kafka",
		Long: `Runs a pipeline until it has read its inputs, and prints what it wrote. The broker is inside this process. Each line
of an input file becomes the value of a record; in a .tsv file the record's key comes before a tab.`,
		Example: `  weir dev examples/page-views/pipeline.yaml --input views=examples/page-views/views.jsonl`,
		Args:    arguments(cobra.MaximumNArgs(1)),
	}
	f := cmd.Flags()
	f.StringVarP(&o.Pipeline, "file", "f", "", "the pipeline file, where it is not an argument")
	f.StringArrayVar(&inputs, "input", nil, "file with the records of a source, SOURCE=PATH")
	f.Int32Var(&o.Partitions, "partitions", 1, "partitions of each topic; with one, results come in the same order each time")
	f.DurationVar(&o.Within, "within", time.Minute, "how long the pipeline may take")
	var output *string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			o.Pipeline = args[0]
		}
		return runDev(cmd, o, inputs, *output)
	}
	output = outputFlag(cmd, "text", "json")
	return cmd
}

func runDev(cmd *cobra.Command, o dev.Options, inputs []string, output string) error {
	if o.Pipeline == "" {
		return usageError{errors.New("which pipeline file? see weir dev --help")}
	}
	c, err := config.Load(config.Options{File: o.Pipeline})
	if err != nil {
		return err
	}
	if o.Inputs, err = inputTopics(c, inputs); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program to run it again: %w", err)
	}
	_, o.Outputs = c.Graph.Topics()
	o.Command, o.Group, o.Ledger = []string{exe, "run"}, c.ConsumerGroup(), c.LedgerTopic()
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	results, err := dev.Run(ctx, o)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	return writeResults(cmd.OutOrStdout(), o.Outputs, results, output)
}

var errInterrupted = errors.New("interrupted")

// inputTopics gives each source's topic its file.
func inputTopics(c *config.Config, inputs []string) (map[string]string, error) {
	topics := map[string]string{}
	var names []string
	for _, s := range c.Spec.Sources {
		topics[s.Topic] = ""
		names = append(names, s.Name)
	}
	if len(inputs) == 0 {
		return nil, usageError{fmt.Errorf("no input: give records to sources of the pipeline (%s), as in --input %s=FILE.jsonl",
			strings.Join(names, ", "), names[0])}
	}
	for _, in := range inputs {
		name, path, found := strings.Cut(in, "=")
		i := slices.IndexFunc(c.Spec.Sources, func(s topology.SourceSpec) bool { return s.Name == name })
		if !found || i < 0 {
			return nil, usageError{fmt.Errorf("--input %s names no source of the pipeline, expected SOURCE=PATH with one of %s", in,
				strings.Join(names, ", "))}
		}
		if _, err := os.Stat(path); err != nil {
			return nil, usageError{fmt.Errorf("--input %s: %w", in, err)}
		}
		topics[c.Spec.Sources[i].Topic] = path
	}
	return topics, nil
}

// result is a record that the pipeline wrote, for programs.
type result struct {
	Topic   string            `json:"topic"`
	Key     *string           `json:"key"`
	Value   *string           `json:"value"`
	Headers map[string]string `json:"headers,omitempty"`
}

func writeResults(w io.Writer, topics []string, results map[string][]embedded.Record, output string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, topic := range topics {
		for _, r := range results[topic] {
			if output == "json" {
				line := result{Topic: topic, Key: text(r.Key), Value: text(r.Value)}
				for _, h := range r.Headers {
					if line.Headers == nil {
						line.Headers = map[string]string{}
					}
					line.Headers[h.Key] = *text(append([]byte{}, h.Value...))
				}
				if err := json.NewEncoder(w).Encode(line); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\n", topic, readable(r.Key), readable(r.Value))
		}
	}
	return table.Flush()
}

func readable(b []byte) string {
	if t := text(b); t != nil {
		return *t
	}
	return "-"
}

// text returns bytes as text, in hexadecimal where they are none, and nil for nil.
func text(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	if !utf8.Valid(b) || strings.ContainsFunc(s, unicode.IsControl) {
		s = fmt.Sprintf("0x%x", b)
	}
	return &s
}
