package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// child is the instance under test, a process of its own. One goroutine uses it.
type child struct {
	command []string
	log     *os.File
	process *exec.Cmd
	// exited delivers how the process ended, once; it is nil while there is none.
	exited chan error
	kills  atomic.Int64
}

func newChild(logPath string, command ...string) (*child, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("log of the instance: %w", err)
	}
	return &child{command: command, log: log}, nil
}

func (c *child) start() error {
	c.process = exec.Command(c.command[0], c.command[1:]...)
	c.process.Stdout, c.process.Stderr = c.log, c.log
	if err := c.process.Start(); err != nil {
		return fmt.Errorf("starting the instance: %w", err)
	}
	c.exited = make(chan error, 1)
	go func(p *exec.Cmd, exited chan<- error) { exited <- p.Wait() }(c.process, c.exited)
	return nil
}

// torment kills the instance and starts it again, about once in every, until ctx ends. It leaves a running instance.
func (c *child) torment(ctx context.Context, every time.Duration, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0x6b696c6c))
	for {
		wait := every/2 + time.Duration(random.Int64N(int64(every)))
		select {
		case <-ctx.Done():
			return nil
		case err := <-c.exited:
			c.exited = nil
			return c.unexpected(err)
		case <-time.After(wait):
		}
		if err := c.kill(); err != nil {
			return err
		}
		if err := c.start(); err != nil {
			return err
		}
	}
}

// kill ends the instance with SIGKILL, wherever it is.
func (c *child) kill() error {
	if err := c.process.Process.Kill(); err != nil {
		return fmt.Errorf("killing the instance: %w", err)
	}
	<-c.exited
	c.exited = nil
	c.kills.Add(1)
	return nil
}

// stop asks the instance to end by itself, and kills it where it does not within the given time.
func (c *child) stop(within time.Duration) error {
	if c.exited == nil {
		return nil
	}
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the instance: %w", err)
	}
	select {
	case err := <-c.exited:
		c.exited = nil
		if err != nil {
			return c.unexpected(err)
		}
		return nil
	case <-time.After(within):
		return errors.Join(fmt.Errorf("the instance did not stop within %v:\n%s", within, c.lastLines()), c.kill())
	}
}

// unexpected describes an instance that ended by itself.
func (c *child) unexpected(err error) error {
	if err == nil {
		err = errExitedZero
	}
	return fmt.Errorf("the instance ended by itself: %w\n%s", err, c.lastLines())
}

var errExitedZero = errors.New("exit status 0")

const lastLines = 15

// lastLines returns the end of the instance's log.
func (c *child) lastLines() []byte {
	text, err := os.ReadFile(c.log.Name())
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-lastLines):], []byte("\n"))
}
