package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and commit are set by the linker: -X main.version=… -X main.commit=…. They are only read.
var version, commit string

// build tells what this binary was built from.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

// String is what weir version prints.
func (b build) String() string {
	return fmt.Sprintf("weir %s (commit %s, %s)", b.Version, b.Commit, b.Go)
}

// built reads the linker's values and, where there are none, what the Go tool noted.
func built() build {
	b := build{Version: version, Commit: commit, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && b.Commit == "" {
			b.Commit = s.Value
		}
	}
	if b.Commit == "" {
		b.Commit = "unknown"
	}
	return b
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show version and commit",
		Example: "  weir version --output json",
		Args:    arguments(cobra.NoArgs),
	}
	var output *string
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		b := built()
		if *output == "json" {
			return writeJSON(cmd.OutOrStdout(), b)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), b)
		return err
	}
	output = outputFlag(cmd, "text", "json")
	return cmd
}
