package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/record"
)

func newCheckpoint() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Look into the checkpoint store of a job, running or not",
		Long: `Looks into the checkpoint store that the pipeline file names. Neither Kafka nor a running job is needed. A manifest
in the store is a checkpoint that was prepared; whether it was committed is written in the job's ledger topic.`,
		Example: "  weir checkpoint list pipeline.yaml",
		Args:    arguments(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCheckpointList(), newCheckpointInspect())
	return cmd
}

// openCatalog returns the catalog of the job in the pipeline file.
func openCatalog(cmd *cobra.Command, file string) (*checkpoint.Catalog, error) {
	c, err := load(cmd, file)
	if err != nil {
		return nil, err
	}
	dir := c.CheckpointDir()
	store, err := checkpoint.OpenDir(dir)
	if err != nil {
		return nil, fmt.Errorf("there is no checkpoint store: %w; the job has not run yet, or checkpoint.store names another folder", err)
	}
	return checkpoint.NewCatalog(store, c.Job)
}

func newCheckpointList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list FILE",
		Short: "List the checkpoints in the store, newest first",
		Example: `  weir checkpoint list pipeline.yaml
  weir checkpoint list pipeline.yaml --output json`,
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
		catalog, err := openCatalog(cmd, file)
		if err != nil {
			return err
		}
		list, err := listCheckpoints(cmd.Context(), catalog)
		if err != nil {
			return err
		}
		if *output == "json" {
			return writeJSON(cmd.OutOrStdout(), list)
		}
		return writeCheckpoints(cmd.OutOrStdout(), list)
	}
	output = outputFlag(cmd, "text", "json")
	return cmd
}

func newCheckpointInspect() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect FILE [CHECKPOINT]",
		Short: "Show a checkpoint and verify all its files",
		Long: `Shows the manifest of a checkpoint, the newest if none is given, reads every file that it refers to and compares
sizes and SHA-256 digests. Where several attempts have tried the same checkpoint, all are shown. It ends with 1 when
something is missing or damaged.`,
		Example: `  weir checkpoint inspect pipeline.yaml
  weir checkpoint inspect pipeline.yaml 41 --output json`,
		Args: arguments(cobra.MaximumNArgs(2)),
	}
	fileFlag(cmd)
	config.AddFlags(cmd.Flags())
	var output *string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		named := min(len(args), 1) // unless the flag names the file, and the number is all there is
		if cmd.Flags().Changed("file") && len(args) < 2 {
			named = 0
		}
		file, err := namedFile(cmd, args[:named])
		if err != nil {
			return err
		}
		id, err := checkpointNumber(args[named:])
		if err != nil {
			return err
		}
		catalog, err := openCatalog(cmd, file)
		if err != nil {
			return err
		}
		list, err := inspectCheckpoints(cmd.Context(), catalog, id)
		if err != nil {
			return err
		}
		if *output == "json" {
			err = writeJSON(cmd.OutOrStdout(), list)
		} else {
			err = writeInspections(cmd.OutOrStdout(), list)
		}
		return errors.Join(err, verdict(list))
	}
	output = outputFlag(cmd, "text", "json")
	return cmd
}

// checkpointNumber returns the number of a checkpoint, 0 where none is given.
func checkpointNumber(args []string) (record.CheckpointID, error) {
	if len(args) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || n < 1 {
		return 0, usageError{fmt.Errorf("%q is no number of a checkpoint; weir checkpoint list shows them", args[0])}
	}
	return record.CheckpointID(n), nil
}

// inspectCheckpoints reads all manifests of one checkpoint, of the newest for 0, and their files.
func inspectCheckpoints(ctx context.Context, catalog *checkpoint.Catalog, id record.CheckpointID) ([]inspection, error) {
	refs, err := refsOf(ctx, catalog, id)
	if err != nil {
		return nil, err
	}
	var list []inspection
	for _, ref := range refs {
		i, err := inspectCheckpoint(ctx, catalog, ref)
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, nil
}

// verdict fails where a manifest cannot be restored from.
func verdict(list []inspection) error {
	damaged := 0
	for _, i := range list {
		if len(i.Faults) > 0 {
			damaged++
		}
	}
	if damaged == 0 {
		return nil
	}
	return fmt.Errorf("%s of %d cannot be restored from", count(damaged, "manifest"), len(list))
}

// refsOf returns the manifests of one checkpoint, of the newest for 0.
func refsOf(ctx context.Context, catalog *checkpoint.Catalog, id record.CheckpointID) ([]checkpoint.Ref, error) {
	all, err := catalog.List(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("the store has no checkpoint of this job")
	}
	if id == 0 {
		id = all[0].Checkpoint
	}
	var refs []checkpoint.Ref
	for _, r := range all {
		if r.Checkpoint == id {
			refs = append(refs, r)
		}
	}
	if len(refs) == 0 {
		return nil, fmt.Errorf("the store has no checkpoint %d; it has %d to %d, see weir checkpoint list",
			id, all[len(all)-1].Checkpoint, all[0].Checkpoint)
	}
	return refs, nil
}
