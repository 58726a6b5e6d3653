package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/topology"
)

// partitionsOf asks the cluster for the partition counts of topics.
type partitionsOf func(ctx context.Context, c *config.Config, topics []string) (topology.Partitions, error)

func newPlan(ask partitionsOf) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show how a pipeline is laid out over subtasks",
		Long: `Shows the physical plan: the chains that each subtask runs, how records move between subtasks, and who reads
and writes which partitions. The partition counts come from the brokers, unless --partitions gives them all.`,
		Example: `  weir init pipeline.yaml
  weir plan pipeline.yaml --partitions page-views=8,page-view-counts=4,page-views-dead=1 --output mermaid`,
		Args: arguments(cobra.MaximumNArgs(1)),
	}
	fileFlag(cmd)
	config.AddFlags(cmd.Flags())
	given := cmd.Flags().StringSlice("partitions", nil, "partition counts, TOPIC=COUNT, instead of asking the brokers")
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
		partitions, err := parsePartitions(*given)
		if err != nil {
			return err
		}
		if err := complete(cmd.Context(), c, partitions, ask); err != nil {
			return err
		}
		plan, err := topology.NewPlan(c.Graph, partitions, c.Subtasks())
		if err != nil {
			return err
		}
		return writePlan(cmd.OutOrStdout(), plan.Describe(), *output)
	}
	output = outputFlag(cmd, "text", "mermaid", "json")
	return cmd
}

func writePlan(w io.Writer, d topology.Description, output string) error {
	switch output {
	case "json":
		return writeJSON(w, d)
	case "mermaid":
		_, err := io.WriteString(w, d.Mermaid())
		return err
	}
	_, err := io.WriteString(w, d.Text())
	return err
}

func parsePartitions(given []string) (topology.Partitions, error) {
	partitions := topology.Partitions{}
	for _, g := range given {
		topic, count, _ := strings.Cut(g, "=")
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || topic == "" {
			return nil, usageError{fmt.Errorf("--partitions %s is no count, expected TOPIC=COUNT", g)}
		}
		partitions[topic] = n
	}
	return partitions, nil
}

// complete asks the brokers for the counts that are not given.
func complete(ctx context.Context, c *config.Config, partitions topology.Partitions, ask partitionsOf) error {
	inputs, outputs := c.Graph.Topics()
	var missing []string
	for _, t := range append(inputs, outputs...) {
		if partitions[t] == 0 {
			missing = append(missing, t)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	hint := "give them with --partitions " + strings.Join(missing, "=COUNT,") + "=COUNT"
	known, err := ask(ctx, c, missing)
	if err != nil {
		return fmt.Errorf("the brokers did not tell the partition counts, %s: %w", hint, err)
	}
	for topic, n := range known {
		partitions[topic] = n
	}
	return nil
}
