package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/cobra"
)

// starter is the pipeline that init writes.
//
//go:embed starter.yaml
var starter []byte

func newInit() *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented pipeline file to start from",
		Long:  "Writes a pipeline with comments, pipeline.yaml unless another file is named. A file that exists stays as it is.",
		Example: `  weir init pipeline.yaml
  weir validate pipeline.yaml`,
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := "pipeline.yaml"
			if len(args) == 1 {
				file = args[0]
			}
			if err := writeNew(file, starter); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s; next: weir validate %s\n", file, file)
			return err
		},
	}
}

// writeNew writes a file that must not exist yet.
func writeNew(file string, text []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usageError{fmt.Errorf("%s exists and stays as it is; name another file", file)}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return usageError{fmt.Errorf("the folder of %s is not there; make it first, or name another file", file)}
	}
	if err != nil {
		return fmt.Errorf("the pipeline file cannot be written: %w", err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
