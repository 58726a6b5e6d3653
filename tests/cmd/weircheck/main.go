// Command weircheck feeds a job under test with page views and says whether it has done its work exactly once. It follows the
// job's output while the job runs, is killed, and recovers; see package internal/verify for what it compares.
//
//	weircheck -brokers localhost:9092 -input views -passed passed -by-user by-user -by-page by-page -duration 1h -restart 20s
//
// It exits with 0 where every effect is there once, with 1 where not, with 2 on bad usage. Without -duration and -count it
// feeds nothing and judges what is there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/weirstream/weir/internal/verify"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "weircheck:", err)
		return 2
	}
	p.OnPoll = reporter(stderr)
	v, err := verify.Run(ctx, p)
	fmt.Fprintln(stdout, v)
	if err != nil {
		fmt.Fprintln(stderr, "weircheck:", err)
	}
	if err != nil || !v.OK() {
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (verify.Plan, error) {
	p := verify.Plan{Config: verify.Config("weircheck"), Workload: verify.DefaultWorkload()}
	f := flag.NewFlagSet("weircheck", flag.ContinueOnError)
	f.SetOutput(stderr)
	brokers := f.String("brokers", "localhost:9092", "comma-separated `addresses` of the cluster")
	f.StringVar(&p.Topics.Input, "input", "views", "`topic` that the job reads")
	f.StringVar(&p.Topics.Passed, "passed", "", "`topic` of the valid views as they are")
	f.StringVar(&p.Topics.ByUser, "by-user", "", "`topic` of the totals by user")
	f.StringVar(&p.Topics.ByPage, "by-page", "", "`topic` of the totals by page")
	f.StringVar(&p.Topics.DeadLetters, "dead-letters", "", "`topic` of what is no view")
	f.StringVar(&p.Topics.Ledger, "ledger", "", "ledger `topic` of the job")
	f.IntVar(&p.Rate, "rate", 1000, "views a second to feed; 0: as fast as possible")
	f.IntVar(&p.Count, "count", 0, "views to feed; 0: no bound")
	f.DurationVar(&p.Duration, "duration", 0, "how long to feed; 0: no bound")
	f.DurationVar(&p.Drain, "drain", time.Minute, "how long the job may take from the last view to its last effect")
	f.DurationVar(&p.Restart, "restart", 0, "about how often the readers pause and start again; 0: never")
	f.Uint64Var(&p.Workload.Seed, "seed", p.Workload.Seed, "seed of the views")
	f.IntVar(&p.Workload.Users, "users", p.Workload.Users, "number of users")
	f.Float64Var(&p.Workload.Poison, "poison", 0, "share of records that are no views")
	if err := f.Parse(args); err != nil {
		return p, err
	}
	p.Brokers = strings.Split(*brokers, ",")
	if t := p.Topics; t.Passed+t.ByUser+t.ByPage == "" {
		return p, errors.New("nothing to check: name the job's topics with -passed, -by-user or -by-page")
	}
	return p, nil
}

// reporter prints the progress every few seconds.
func reporter(w io.Writer) func(verify.Progress) {
	next := time.Now().Add(reportEvery)
	return func(p verify.Progress) {
		if now := time.Now(); now.After(next) {
			next = now.Add(reportEvery)
			fmt.Fprintf(w, "%d views in, %d effects seen, %d outstanding\n", p.Input, p.Effects, p.Outstanding)
		}
	}
}

const reportEvery = 5 * time.Second
