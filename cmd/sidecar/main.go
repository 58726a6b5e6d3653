// Command sidecar is weir: a stream processor that reads and writes Kafka topics, exactly once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/internal/dev"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit status.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitFine
	}
	report(errOut, err, args)
	return status(err)
}

// report writes an error for a person. The faults of a file have a line each and begin with where they are. Where there is an
// option that moves on, the whole command follows.
func report(w io.Writer, err error, args []string) {
	var invalid *config.InvalidError
	text := "weir: " + err.Error()
	if errors.As(err, &invalid) {
		text = invalid.Error()
	}
	if option := override(err); option != "" {
		text += "\nweir: to go on all the same: " + commandLine(append([]string{"weir"}, append(args, option)...))
	}
	// Where the error cannot be written either, the exit status is left to tell.
	_, _ = fmt.Fprintln(w, text)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// commandLine is words as a shell reads them.
func commandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; !plainWord.MatchString(w) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// The exit statuses.
const (
	exitFine = iota
	// exitFailed: it went wrong at run time.
	exitFailed
	// exitUsage: the command line or the configuration is wrong.
	exitUsage
	// exitDecide: only an operator may decide how to go on.
	exitDecide
)

// usageError is a wrong command line.
type usageError struct{ error }

// Unwrap returns the error itself.
func (e usageError) Unwrap() error { return e.error }

// status is the exit status for an error.
func status(err error) int {
	var usage usageError
	var invalid *config.InvalidError
	var decide interface{ OperatorDecides() bool }
	var job *dev.JobError
	switch {
	case errors.As(err, &job):
		return job.Status
	case errors.As(err, &usage), errors.As(err, &invalid):
		return exitUsage
	case errors.As(err, &decide) && decide.OperatorDecides():
		return exitDecide
	}
	return exitFailed
}
