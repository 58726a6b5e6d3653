package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/sidecar"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a pipeline",
		Long: `Runs a pipeline until it is told to end. SIGTERM and SIGINT take a last checkpoint, commit it, and leave no
transaction open. Where that is not done within shutdown_timeout, or at a second signal, the process ends with status 1,
which loses nothing: the next start goes on from the last committed checkpoint.`,
		Example: `  weir init pipeline.yaml
  weir run pipeline.yaml --brokers localhost:9092`,
		Args: arguments(cobra.MaximumNArgs(1)),
	}
	fileFlag(cmd)
	takeOver := cmd.Flags().Bool("take-over", false, "do not look whether another instance of the job is at work; it is fenced, and ends")
	acceptLoss := cmd.Flags().StringSlice("accept-loss", nil, "sources, topics and operators of which the job said that something "+
		"is lost: go on without it")
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := namedFile(cmd, args)
		if err != nil {
			return err
		}
		c, err := load(cmd, file)
		if err != nil {
			return err
		}
		settings, err := sidecar.FromConfig(c, built().Version, newLogger(c.Log, cmd.ErrOrStderr()))
		if err != nil {
			return err
		}
		settings.TakeOver, settings.AcceptLoss = *takeOver, *acceptLoss
		if err := knownLosses(c, *acceptLoss); err != nil {
			return err
		}
		return runJob(cmd.Context(), c, settings)
	}
	return cmd
}

// knownLosses checks that each name is one of a source, an output topic or the ledger, or that of an operator, which the pipeline
// need not have any more.
func knownLosses(c *config.Config, names []string) error {
	_, known := c.Graph.Topics()
	known = append(known, c.LedgerTopic())
	for _, s := range c.Spec.Sources {
		known = append(known, s.Name)
	}
	for _, n := range names {
		if !slices.Contains(known, n) && !strings.HasPrefix(n, "operators.") {
			return usageError{fmt.Errorf("--accept-loss %s: the pipeline has no such source or output topic, expected operators.NAME or one of %s", n,
				strings.Join(known, ", "))}
		}
	}
	return nil
}

// newLogger writes lines of the configured form.
func newLogger(c config.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // validation lets no other in
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// runJob runs until a signal has drained the job or it fails for good.
func runJob(ctx context.Context, c *config.Config, settings sidecar.Settings) error {
	sidecar.LimitBatches()
	logger := settings.Logger
	job, err := sidecar.New(settings)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	hurried := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- supervise(ctx, c, job, &stopper{signals, hurried, logger}) }()
	select {
	case err = <-ended:
	case <-hurried:
		select {
		case err = <-ended:
		case <-time.After(hurriedWait):
			err = errHurried // something hangs, and the process is to end now
		}
	}
	if !errors.Is(err, errStopped) {
		return err
	}
	logger.Info("stopped; the last checkpoint is committed")
	return nil
}

// hurriedWait is how long the end may take after a second signal.
const hurriedWait = time.Second

// supervise runs a job with what is around it. HTTP answers before Kafka does.
func supervise(ctx context.Context, c *config.Config, job *sidecar.Job, stop *stopper) error {
	defer job.Close()
	if err := job.Claim(); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	if c.HTTP.Listen != "off" {
		server, err := admin.Listen(ctx, admin.Options{Listen: c.HTTP.Listen, Job: job, Metrics: job.Metrics(),
			ReadyWithin: max(admin.DefaultReadyWithin, readyIntervals*c.Checkpoint.Interval), Logger: stop.logger})
		if err != nil {
			return err
		}
		stop.logger.Info("health, metrics and status", "address", "http://"+server.Addr())
		g.Go(func() error { return server.Run(ctx) })
	}
	g.Go(func() error {
		err := job.Run(ctx)
		if err == nil {
			err = errStopped
		}
		return err
	})
	g.Go(func() error { return stop.obey(ctx, job) })
	return g.Wait()
}

// readyIntervals is the number of checkpoint intervals without a commit from which on a job is not ready.
const readyIntervals = 3

// errStopped ends the parts around a job that was drained.
var errStopped = errors.New("stopped")

// errHurried ends the process at a second signal.
var errHurried = errors.New("ended by a second signal before the last checkpoint was committed; nothing is lost: the next start goes on from " +
	"the last committed checkpoint")

// stopper drains a job at the first signal and ends it at the second.
type stopper struct {
	signals <-chan os.Signal
	// hurried is closed at the second signal.
	hurried chan struct{}
	logger  *slog.Logger
}

func (s *stopper) obey(ctx context.Context, job *sidecar.Job) error {
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return nil
		case sig := <-s.signals:
			if !first {
				close(s.hurried)
				return errHurried
			}
			s.logger.Info("taking a last checkpoint; another signal ends the process at once", "signal", sig.String())
			job.Stop()
		}
	}
}
