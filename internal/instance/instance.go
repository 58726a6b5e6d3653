// Package instance runs an instance of a job as a process of its own, which can be stopped and killed.
package instance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// Instance is a process that is started, perhaps again and again. One goroutine uses it.
type Instance struct {
	command []string
	env     []string
	log     *os.File
	process *exec.Cmd
	// exited delivers how the process ended, once; it is nil while there is none.
	exited chan error
}

// New prepares a command whose output goes to a file at logPath. env is added to this process's environment.
func New(logPath string, env []string, command ...string) (*Instance, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("log of the instance: %w", err)
	}
	return &Instance{command: command, env: append(os.Environ(), env...), log: log}, nil
}

// Close closes the log. The process must have ended.
func (i *Instance) Close() error { return i.log.Close() }

// Start starts the process. None may be running. env is added to its environment for this time only.
func (i *Instance) Start(env ...string) error {
	i.process = exec.Command(i.command[0], i.command[1:]...) //nolint:noctx // its life is ended by Stop and Kill
	i.process.Env, i.process.Stdout, i.process.Stderr = slices.Concat(i.env, env), i.log, i.log
	if err := i.process.Start(); err != nil {
		return fmt.Errorf("starting the instance: %w", err)
	}
	i.exited = make(chan error, 1)
	go func(p *exec.Cmd, exited chan<- error) { exited <- p.Wait() }(i.process, i.exited)
	return nil
}

// Exited delivers how the process ended by itself; pass what it delivers to Ended.
func (i *Instance) Exited() <-chan error { return i.exited }

// Ended notes that the process ended by itself, and returns an error that says how, with the last lines of its log.
func (i *Instance) Ended(err error) error {
	i.exited = nil
	if err == nil {
		err = errExitedZero
	}
	return fmt.Errorf("the instance ended by itself: %w\n%s", err, i.LastLines())
}

var errExitedZero = errors.New("exit status 0")

// Signal sends a signal to the running process: SIGSTOP and SIGCONT pause it.
func (i *Instance) Signal(s os.Signal) error {
	if err := i.process.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %v to the instance: %w", s, err)
	}
	return nil
}

// Kill ends the process with SIGKILL, wherever it is.
func (i *Instance) Kill() error {
	if i.exited == nil {
		return nil
	}
	if err := i.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing the instance: %w", err)
	}
	<-i.exited //nolint:errcheck // it was killed
	i.exited = nil
	return nil
}

// Stop asks the process to end by itself, and kills it where it does not within the given time. It is no error if the
// process has ended before.
func (i *Instance) Stop(within time.Duration) error {
	if i.exited == nil {
		return nil
	}
	if err := i.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the instance: %w", err)
	}
	select {
	case err := <-i.exited:
		if err != nil {
			return i.Ended(err)
		}
		i.exited = nil
		return nil
	case <-time.After(within):
		return errors.Join(fmt.Errorf("the instance did not stop within %v:\n%s", within, i.LastLines()), i.Kill())
	}
}

const lastLines = 15

// LastLines returns the end of the log.
func (i *Instance) LastLines() []byte {
	text, err := os.ReadFile(i.log.Name())
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-lastLines):], []byte("\n"))
}
