package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/internal/demo"
)

func newDemo() *cobra.Command {
	o := demo.Options{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See a job survive being killed, and the proof that nothing is lost or doubled",
		Long: `Generates page views, runs a pipeline on them in a process that is killed with SIGKILL every few seconds, and
compares what a read_committed reader sees with a plain fold over the input. Nothing else is needed: broker and
views are inside this process, unless --brokers names a cluster.`,
		Example: `  weir demo
  weir demo --duration 20s --rate 10000 --kill-every 2s
  weir demo --brokers localhost:9092`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd, o) },
	}
	f := cmd.Flags()
	f.DurationVar(&o.Duration, "duration", 45*time.Second, "how long views are generated")
	f.IntVar(&o.Rate, "rate", 2000, "views a second")
	f.DurationVar(&o.KillEvery, "kill-every", 4*time.Second, "about how often the process is killed")
	f.StringSliceVar(&o.Brokers, "brokers", nil, "a cluster to use, host:port; topics of its own are created there, and deleted at the end")
	f.BoolVar(&o.Keep, "keep", false, "leave pipeline file, checkpoints and log of the process behind")
	return cmd
}

func runDemo(cmd *cobra.Command, o demo.Options) error {
	if o.Duration <= 0 || o.Rate <= 0 || o.KillEvery <= 0 {
		return usageError{errors.New("--duration, --rate and --kill-every must be above 0")}
	}
	for _, b := range o.Brokers {
		if !config.IsAddress(b) {
			return usageError{fmt.Errorf("--brokers %s: expected host:port", b)}
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program to run it again: %w", err)
	}
	o.Command, o.Out = []string{exe, "run"}, cmd.OutOrStdout()
	o.Live = isTerminal(o.Out)
	o.Color = o.Live && os.Getenv("NO_COLOR") == ""
	r, err := demo.Run(cmd.Context(), o)
	if r.Verdict.Input > 0 {
		fmt.Fprintf(o.Out, "\n%v\n%d times the process was killed with SIGKILL\n", r.Verdict, r.Kills)
	}
	if r.Dir != "" {
		fmt.Fprintf(o.Out, "pipeline file, checkpoints and log: %s\n", r.Dir)
	}
	if err == nil && !r.Verdict.OK() {
		err = errors.New("the results are not right")
	}
	return err
}

// isTerminal says whether what is written to w is shown on a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
