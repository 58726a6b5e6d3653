// Package dev runs a pipeline on files: the lines of each file go to a topic of a broker inside the process (package
// embedded), an instance runs the pipeline until it has read them all, and what it wrote is returned.
package dev

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/internal/embedded"
	"github.com/weirstream/weir/internal/instance"
)

// Options of a run.
type Options struct {
	// Pipeline is the pipeline file, Group the consumer group that shows the job's offsets, Ledger its ledger topic.
	Pipeline, Group, Ledger string
	// Inputs are the topics to fill, with the file for each; a topic without one stays empty.
	Inputs map[string]string
	// Outputs are the topics to return.
	Outputs []string
	// Partitions is the number of partitions of each topic. With one, results come in the same order each time.
	Partitions int32
	// Command runs an instance with the pipeline file that is appended to it.
	Command []string
	// Within bounds the time until all is read.
	Within time.Duration
}

const (
	// tick is the time between two looks at how far the instance has read.
	tick       = 20 * time.Millisecond
	stopWithin = 20 * time.Second
)

// Run runs the pipeline and returns the committed records of each output.
func Run(ctx context.Context, o Options) (map[string][]embedded.Record, error) {
	b, err := embedded.Start()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := o.fill(ctx, b); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-dev-")
	if err != nil {
		return nil, fmt.Errorf("folder for the instance: %w", err)
	}
	results, err := o.run(ctx, b, dir)
	return results, errors.Join(err, os.RemoveAll(dir))
}

// fill creates all topics and writes the inputs.
func (o Options) fill(ctx context.Context, b *embedded.Broker) error {
	if err := b.CreateTopic(o.Ledger, 1, map[string]string{"cleanup.policy": "compact"}); err != nil {
		return err
	}
	for _, topic := range o.Outputs {
		if err := b.CreateTopic(topic, o.Partitions, nil); err != nil {
			return err
		}
	}
	for topic, file := range o.Inputs {
		if err := b.CreateTopic(topic, o.Partitions, nil); err != nil {
			return err
		}
		records, err := read(file, o.Partitions)
		if err != nil {
			return err
		}
		if err := b.Produce(ctx, topic, records); err != nil {
			return err
		}
	}
	return nil
}

// maxLine bounds a line of an input file, in bytes.
const maxLine = 16 << 20

// read returns the lines of a file as records, spread over the partitions. In a .tsv file the key comes before a tab.
func read(file string, partitions int32) (records []embedded.Record, err error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	keyed := strings.EqualFold(filepath.Ext(file), ".tsv")
	line := 0
	for ; lines.Scan(); line++ {
		r := embedded.Record{Partition: int32(len(records)) % partitions, Value: bytes.Clone(lines.Bytes())}
		if len(r.Value) == 0 {
			continue
		}
		if key, value, found := bytes.Cut(r.Value, []byte("\t")); keyed && found {
			r.Key, r.Value = key, value
		}
		records = append(records, r)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("input %s: the line after line %d is longer than %d bytes", file, line, maxLine)
	} else if err != nil {
		return nil, fmt.Errorf("input %s: %w", file, err)
	}
	return records, nil
}

// JobError is a job that ended by itself.
type JobError struct {
	// Status is its exit status, Text what it said last.
	Status int
	Text   string
}

// Error is what the job said.
func (e *JobError) Error() string { return "the job ended: " + e.Text }

// jobError finds out why the instance ended: a job's last word begins with its name. Where there is none the end of its log
// has to tell.
func jobError(i *instance.Instance, err error) error {
	ended := i.Ended(err)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return ended
	}
	const said, advice = "weir: ", "weir: to go on all the same:"
	for line := range strings.Lines(string(i.LastLines())) {
		if text, found := strings.CutPrefix(line, said); found && !strings.HasPrefix(line, advice) {
			return &JobError{exit.ExitCode(), strings.TrimSpace(text)}
		}
	}
	return ended
}

// env points the pipeline to the embedded broker and to a folder of its own.
func env(b *embedded.Broker, dir string) []string {
	return []string{
		"WEIR__KAFKA__BROKERS=" + strings.Join(b.Brokers(), ","), "WEIR__KAFKA__TLS__ENABLE=false", "WEIR__KAFKA__SASL__MECHANISM=",
		"WEIR__CHECKPOINT__STORE=file://" + dir + "/checkpoints", "WEIR__CHECKPOINT__INTERVAL=100ms",
		"WEIR__STATE__DIR=" + dir + "/state", "WEIR__HTTP__LISTEN=off", "WEIR__LOG__LEVEL=warn",
	}
}

func (o Options) run(ctx context.Context, b *embedded.Broker, dir string) (map[string][]embedded.Record, error) {
	i, err := instance.New(filepath.Join(dir, "weir.log"), env(b, dir), append(o.Command, o.Pipeline)...)
	if err != nil {
		return nil, err
	}
	if err := i.Start(); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	err = o.await(ctx, b, i)
	stopErr := i.Stop(stopWithin)
	if err == nil { // else how it ended after that is of no interest
		err = stopErr
	}
	if err := errors.Join(err, i.Close()); err != nil {
		return nil, err
	}
	return o.results(ctx, b)
}

// await returns when the instance has committed the end of every input.
func (o Options) await(ctx context.Context, b *embedded.Broker, i *instance.Instance) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Within, fmt.Errorf("the inputs were not read within %v", o.Within))
	defer cancel()
	look := time.NewTicker(tick)
	defer look.Stop()
	for {
		select {
		case err := <-i.Exited():
			return jobError(i, err)
		case <-ctx.Done():
			return fmt.Errorf("%w:\n%s", context.Cause(ctx), i.LastLines())
		case <-look.C:
			if o.consumed(b) {
				return nil
			}
		}
	}
}

func (o Options) consumed(b *embedded.Broker) bool {
	for topic := range o.Inputs {
		if !b.Consumed(o.Group, topic) {
			return false
		}
	}
	return true
}

func (o Options) results(ctx context.Context, b *embedded.Broker) (map[string][]embedded.Record, error) {
	all := make([][]embedded.Record, len(o.Outputs))
	g, ctx := errgroup.WithContext(ctx)
	for i, topic := range o.Outputs {
		g.Go(func() (err error) {
			all[i], err = b.ReadCommitted(ctx, topic)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	results := map[string][]embedded.Record{}
	for i, topic := range o.Outputs {
		results[topic] = all[i]
	}
	return results, nil
}
