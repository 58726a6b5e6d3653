package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// Topics names what to read. An empty name leaves a branch out.
type Topics struct {
	Input                                       string
	Passed, ByUser, ByPage, DeadLetters, Ledger string
}

func (t Topics) branches() map[string]Branch {
	out := map[string]Branch{}
	for b, name := range map[Branch]string{Passed: t.Passed, ByUser: t.ByUser, ByPage: t.ByPage, DeadLetters: t.DeadLetters, Ledger: t.Ledger} {
		if name != "" {
			out[name] = b
		}
	}
	return out
}

// Checker reads the topics of a job and verifies them while they grow. One goroutine uses it.
type Checker struct {
	brokers  []string
	conf     *sarama.Config
	branches map[string]Branch
	input    *Tail
	output   *Tail
	verifier *Verifier
	// read holds outputs whose inputs are not known to be read yet.
	read []Batch
	// OnPoll is called after each round, to show how far the check is. It may be nil.
	OnPoll func(Progress)
}

// Progress is how far a check is.
type Progress struct {
	// Input counts the records read from the input, Effects those of the job that were seen, Outstanding those that are to
	// come. Wrong counts all findings so far.
	Input, Effects, Outstanding, Wrong int64
	// Transactions counts the committed transactions.
	Transactions int64
}

// NewChecker connects to the cluster. All topics must exist.
func NewChecker(brokers []string, conf *sarama.Config, t Topics) (*Checker, error) {
	c := &Checker{brokers: brokers, conf: conf, branches: t.branches()}
	var names []string
	var of []Branch
	for name, b := range c.branches {
		names, of = append(names, name), append(of, b)
	}
	c.verifier = NewVerifier(of...)
	var err error
	if c.input, err = NewTail(brokers, conf, t.Input); err != nil {
		return nil, err
	}
	if c.output, err = NewTail(brokers, conf, names...); err != nil {
		return nil, errors.Join(err, c.input.Close())
	}
	return c, nil
}

// Close ends the connections.
func (c *Checker) Close() error { return errors.Join(c.input.Close(), c.output.Close()) }

// Reconnect goes on with new connections, as a reader that was restarted.
func (c *Checker) Reconnect() error {
	return errors.Join(c.input.Reconnect(c.brokers, c.conf), c.output.Reconnect(c.brokers, c.conf))
}

// Poll reads what is there now. The outputs are asked first and the inputs then to their end, so that whatever an output
// comes from is known before the output is judged.
func (c *Checker) Poll(ctx context.Context) error {
	outputs, err := c.output.Poll(ctx)
	if err != nil {
		return err
	}
	c.read = append(c.read, outputs...)
	if err := c.readInput(ctx); err != nil {
		return err
	}
	for _, b := range c.read {
		for _, r := range b.Records {
			c.verifier.Output(c.branches[b.Topic], b.Partition, b.Txn, r.Key, r.Value)
		}
	}
	c.read = c.read[:0]
	if c.OnPoll != nil {
		v := &c.verifier.verdict
		c.OnPoll(Progress{Input: v.Input, Effects: v.Effects, Outstanding: c.verifier.Outstanding(),
			Wrong: v.Duplicated + v.Disordered + v.Invented + v.Wrong + v.Torn, Transactions: int64(len(c.verifier.txns))})
	}
	return nil
}

// readInput reads the input to its end.
func (c *Checker) readInput(ctx context.Context) error {
	for {
		batches, err := c.input.Poll(ctx)
		if err != nil {
			return err
		}
		for _, b := range batches {
			for _, r := range b.Records {
				c.verifier.Input(b.Partition, b.FirstOffset+r.OffsetDelta, r.Value)
			}
		}
		if c.input.Drained() {
			return nil
		}
	}
}

// Follow polls until ctx ends, which is no error.
func (c *Checker) Follow(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := c.Poll(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// Drain polls until nothing is outstanding and every last stable offset has met its high watermark, or until ctx ends,
// and returns the verdict. The input must be complete. An error says that the job did not get there in time: the verdict
// then tells what is missing.
func (c *Checker) Drain(ctx context.Context) (Verdict, error) {
	start := time.Now()
	for {
		if err := c.Poll(ctx); err != nil {
			return c.Verdict(), fmt.Errorf("not drained after %v, %d effects outstanding, a transaction open for %v: %w",
				time.Since(start).Round(time.Second), c.verifier.Outstanding(), c.output.OpenFor().Round(time.Second), err)
		}
		if c.output.Drained() && c.verifier.Outstanding() <= 0 {
			return c.Verdict(), nil
		}
	}
}

// Verdict judges what has been read so far.
func (c *Checker) Verdict() Verdict {
	v := c.verifier.Verdict()
	v.LongestOpen = c.output.LongestOpen
	return v
}
