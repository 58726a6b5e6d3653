package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/config"
)

// listenVariable gives http.listen where no file does.
const listenVariable = "WEIR__HTTP__LISTEN"

// statusOptions are the flags of weir status.
type statusOptions struct {
	address  string
	json     bool
	watch    bool
	interval time.Duration
}

// statusTimeout bounds one question to a job.
const statusTimeout = 5 * time.Second

func newStatus() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status [FILE]",
		Short: "Show how a running job is doing",
		Long: `Shows the state of a running job, its checkpoints, open transactions, sources and outputs, as its HTTP address tells
them: that of --address, or http.listen of the pipeline file or of WEIR__HTTP__LISTEN, or the default. It ends with 0 when the job has answered, in whatever state it is, and with 1 when not.`,
		Example: `  weir status
  weir status pipeline.yaml --watch
  weir status --address 127.0.0.1:8470 --output json`,
		Args: arguments(cobra.MaximumNArgs(1)),
	}
	fileFlag(cmd)
	cmd.Flags().StringVar(&o.address, "address", admin.DefaultListen, "http.listen of the job, host:port")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "show it again and again, until interrupted")
	cmd.Flags().DurationVar(&o.interval, "interval", time.Second, "time between two pictures with --watch")
	var output *string
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if o.address, err = o.where(cmd, args); err != nil {
			return err
		}
		o.json = *output == "json"
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		return o.run(ctx, cmd.OutOrStdout())
	}
	output = outputFlag(cmd, "text", "json")
	return cmd
}

// where finds the address to ask.
func (o *statusOptions) where(cmd *cobra.Command, args []string) (string, error) {
	file, _ := cmd.Flags().GetString("file")
	switch {
	case cmd.Flags().Changed("address"):
		return o.address, nil
	case file == "" && len(args) == 0:
		return cmp.Or(os.Getenv(listenVariable), o.address), nil
	}
	file, err := namedFile(cmd, args)
	if err != nil {
		return "", err
	}
	c, err := config.Load(config.Options{File: file})
	if err != nil {
		return "", usageError{err}
	}
	if c.HTTP.Listen == "off" {
		return "", usageError{fmt.Errorf("http.listen of %s is off, so the job tells nothing", file)}
	}
	return c.HTTP.Listen, nil
}

func (o *statusOptions) run(ctx context.Context, w io.Writer) error {
	if o.interval < minWatch {
		return usageError{fmt.Errorf("--interval %v is too short, expected at least %v", o.interval, minWatch)}
	}
	client := &http.Client{Timeout: statusTimeout}
	defer client.CloseIdleConnections()
	v := &statusView{w: w, screen: newScreen(w), json: o.json, watch: o.watch}
	s, err := admin.Fetch(ctx, client, o.address)
	if err != nil {
		return err
	}
	if err := v.show(s); err != nil || !o.watch {
		return err
	}
	return o.follow(ctx, client, v)
}

const minWatch = 100 * time.Millisecond

// follow shows one picture after another until ctx ends. A job that does not answer may be on its way back.
func (o *statusOptions) follow(ctx context.Context, client *http.Client, v *statusView) error {
	tick := time.NewTicker(o.interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		s, err := admin.Fetch(ctx, client, o.address)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			err = v.lost(err)
		} else {
			err = v.show(s)
		}
		if err != nil {
			return err
		}
	}
}

// statusView shows pictures of a job, one after another.
type statusView struct {
	w      io.Writer
	screen screen
	json   bool
	watch  bool
	// before is the picture before, for rates.
	before *admin.Status
}

func (v *statusView) show(s admin.Status) error {
	defer func() { v.before = &s }()
	if v.json {
		if v.watch {
			return json.NewEncoder(v.w).Encode(s) // a line each
		}
		return writeJSON(v.w, s)
	}
	if v.watch {
		if err := v.screen.clear(); err != nil {
			return err
		}
	}
	return writeStatus(v.w, v.screen, s, v.before)
}

// lost tells that there is no picture. In JSON there is nothing to show then.
func (v *statusView) lost(cause error) error {
	v.before = nil
	if v.json {
		return nil
	}
	err := v.screen.clear()
	if err == nil {
		_, err = fmt.Fprintln(v.w, v.screen.paint(red, "no answer:"), cause)
	}
	return err
}
