// Package demo is weir demo: a job that is killed again and again while an independent check watches its output.
//
// It generates page views, runs the pipeline in a child process, ends that with SIGKILL every few seconds, and compares
// what a read_committed reader sees with a plain fold over the input (package verify). Broker and views are in this process
// (package embedded), unless a cluster is given.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/internal/embedded"
	"github.com/weirstream/weir/internal/instance"
	"github.com/weirstream/weir/internal/verify"
)

// Options of a demo.
type Options struct {
	// Brokers is the cluster to use; empty for one inside the process.
	Brokers []string
	// Duration is how long views are generated, Rate how many a second, KillEvery about how often the instance is killed.
	Duration, KillEvery time.Duration
	Rate                int
	// Command runs an instance with the pipeline file that is appended to it: weir run -f.
	Command []string
	// Out gets the live view. Live says that it is a terminal whose lines can be written over; Color that it shows colours.
	Out         io.Writer
	Live, Color bool
	// Keep leaves the instance's folder behind, to look at.
	Keep bool
}

// Result of a demo.
type Result struct {
	Verdict verify.Verdict
	Kills   int64
	// Dir is the instance's folder, where it was kept.
	Dir string
}

const (
	drainWithin = time.Minute
	stopWithin  = 20 * time.Second
	replication = 3
)

// Run runs the demo. The result is worth something even where there is an error.
func Run(ctx context.Context, o Options) (r Result, err error) {
	brokers, stop, err := brokersOf(o)
	if err != nil {
		return r, err
	}
	defer stop()
	p := pipeline{Job: fmt.Sprintf("weir-demo-%x", time.Now().UnixNano()&0xffffffff), Brokers: brokers}
	if p.Dir, err = os.MkdirTemp("", "weir-demo-"); err != nil {
		return r, fmt.Errorf("folder for the instance: %w", err)
	}
	p.Topics = topicsOf(p.Job)
	conf := verify.Config("weir-demo")
	if err := verify.CreateTopics(brokers, conf, replication, p.partitions()); err != nil {
		return r, err
	}
	r, err = run(ctx, o, p)
	if o.Keep || err != nil || !r.Verdict.OK() {
		r.Dir = p.Dir
		return r, err
	}
	return r, errors.Join(p.cleanUp(o), os.RemoveAll(p.Dir))
}

// brokersOf starts a broker where no cluster is given.
func brokersOf(o Options) (brokers []string, stop func(), err error) {
	if len(o.Brokers) > 0 {
		return o.Brokers, func() {}, nil
	}
	b, err := embedded.Start()
	if err != nil {
		return nil, nil, err
	}
	return b.Brokers(), b.Close, nil
}

// cleanUp deletes the topics from a cluster that stays.
func (p pipeline) cleanUp(o Options) error {
	if len(o.Brokers) == 0 {
		return nil
	}
	t := p.Topics
	return verify.DeleteTopics(p.Brokers, verify.Config("weir-demo"), t.Input, t.Passed, t.ByUser, t.ByPage, t.Ledger)
}

// run has the instance run, be killed and checked.
func run(ctx context.Context, o Options, p pipeline) (r Result, err error) {
	file, err := p.write()
	if err != nil {
		return r, err
	}
	i, err := instance.New(filepath.Join(p.Dir, "weir.log"), nil, append(o.Command, file)...)
	if err != nil {
		return r, err
	}
	v := &victim{Instance: i}
	view := newView(o, &v.kills)
	if err := v.Start(); err != nil {
		return r, errors.Join(err, v.Close())
	}
	g, checking := errgroup.WithContext(ctx)
	g.Go(func() error {
		tormenting, cancel := context.WithTimeout(checking, o.Duration)
		defer cancel()
		return v.torment(tormenting, o.KillEvery, uint64(time.Now().UnixNano()))
	})
	g.Go(func() (err error) {
		r.Verdict, err = verify.Run(checking, verify.Plan{Brokers: p.Brokers, Config: verify.Config("weir-demo"), Topics: p.Topics,
			Workload: verify.DefaultWorkload(), Rate: o.Rate, Duration: o.Duration, Drain: drainWithin, OnPoll: view.progress})
		return err
	})
	err = errors.Join(g.Wait(), v.Stop(stopWithin), v.Close())
	view.end()
	r.Kills = v.kills.Load()
	return r, err
}
