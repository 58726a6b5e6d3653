package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/sidecar"
)

func newTxn() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "txn",
		Short: "Show and end the Kafka transactions of a job",
		Long: `Shows the transactions of a job as the brokers know them, and ends them when no instance is left to do so. Readers
with read_committed stop at the first record of an open transaction. A job that starts settles its transactions by
itself: these commands are for a job that will not start again, or whose name has changed (--job OLD-NAME).`,
		Example: "  weir txn list pipeline.yaml",
		Args:    arguments(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTxnList(), newTxnCommit(), newTxnAbort())
	return cmd
}

// txnCommand is what the three commands share: the pipeline, the form of the output, the connection.
type txnCommand struct {
	file   string
	yes    bool
	output *string
	conf   *config.Config
	txns   *sidecar.JobTransactions
	out    io.Writer
	errOut io.Writer
}

// txnTimeout bounds a command after it is connected. The markers of a transaction take seconds where a broker is away.
const txnTimeout = 2 * time.Minute

var errTxnTimeout = errors.New("the brokers did not settle it within " + txnTimeout.String())

// bind gives a command its flags and do as its work.
func (t *txnCommand) bind(cmd *cobra.Command, do func(context.Context) error) *cobra.Command {
	cmd.Args = arguments(cobra.MaximumNArgs(1))
	fileFlag(cmd)
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if t.file, err = namedFile(cmd, args); err != nil {
			return err
		}
		if t.conf, err = load(cmd, t.file); err != nil {
			return err
		}
		t.out, t.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
		return t.connected(cmd.Context(), do)
	}
	t.output = outputFlag(cmd, "text", "json")
	return cmd
}

func (t *txnCommand) connected(ctx context.Context, do func(context.Context) error) error {
	settings, err := sidecar.FromConfig(t.conf, built().Version, newLogger(t.conf.Log, t.errOut))
	if err != nil {
		return err
	}
	// A pipeline of today may do without transactions and its job have open ones of before.
	settings.Checkpoint.Transactions = t.conf.Checkpoint.TransactionalID
	if t.txns, err = sidecar.OpenTransactions(ctx, settings); err != nil {
		return err
	}
	defer t.txns.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, txnTimeout, errTxnTimeout)
	defer cancel()
	return do(ctx)
}

func newTxnList() *cobra.Command {
	var t txnCommand
	cmd := &cobra.Command{
		Use:   "list FILE",
		Short: "List the transactional ids of a job and what is open under them",
		Long: `Lists the transactional ids of a job: state, producer, age and partitions of the open transaction, and the checkpoint
that weir txn commit would complete with it. Nothing is changed. Ids that an earlier run used beyond
checkpoint.transactional_ids are listed as well.`,
		Example: `  weir init pipeline.yaml
  weir txn list pipeline.yaml
  weir txn list pipeline.yaml --brokers localhost:9092 --output json`,
	}
	return t.bind(cmd, func(ctx context.Context) error {
		list, err := t.txns.List(ctx)
		if err != nil {
			return err
		}
		return t.show(nil, list)
	})
}

func newTxnAbort() *cobra.Command {
	var t txnCommand
	cmd := &cobra.Command{
		Use:   "abort FILE",
		Short: "End every open transaction of a job without effect",
		Long: `Ends every open transaction of a job without effect: after the job was cancelled, or its name changed. The job may be
started again later; it goes on from its last committed checkpoint.

It refuses, with exit status 3, while an instance of the job seems to run, and when a prepared checkpoint could be
committed instead; --yes does it all the same. An instance that runs is fenced then: it restarts, with new transactions.`,
		Example: `  weir txn abort pipeline.yaml
  weir txn abort pipeline.yaml --job old-name`,
	}
	cmd.Flags().BoolVarP(&t.yes, "yes", "y", false, "also where an instance seems to run or a checkpoint could be committed")
	return t.bind(cmd, t.abort)
}

func newTxnCommit() *cobra.Command {
	var t txnCommand
	cmd := &cobra.Command{
		Use:   "commit FILE",
		Short: "Commit the prepared checkpoints of a job, and end its other transactions",
		Long: `Commits those open transactions whose checkpoint is complete, with its manifest in the checkpoint store, as the next start
of the job would. The job's other transactions are ended without effect. Nothing else may be committed: its results would
have no state to go on from.

It refuses, with exit status 3, while an instance of the job seems to run, and when no open transaction has a complete
checkpoint. --yes commits although an instance seems to run, which is fenced then.`,
		Example: `  weir init pipeline.yaml
  weir txn list pipeline.yaml
  weir txn commit pipeline.yaml`,
	}
	cmd.Flags().BoolVarP(&t.yes, "yes", "y", false, "also where an instance seems to run")
	return t.bind(cmd, t.commit)
}

// refusal is a command not carried out, since only the operator may decide.
type refusal struct{ error }

// OperatorDecides makes it exit status 3.
func (refusal) OperatorDecides() bool { return true }

func refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

func (t *txnCommand) abort(ctx context.Context) error {
	before, err := t.unattended(ctx)
	if err != nil {
		return err
	}
	if prepared := before.Prepared(); len(prepared) > 0 && !t.yes {
		return refuse("checkpoint %d is complete and can be committed: weir txn commit does that, weir txn abort --yes throws its results away",
			prepared[0])
	}
	if !before.Known() {
		// What cannot be written here is no reason to fail.
		_, _ = fmt.Fprintf(t.errOut, "these brokers know no transactional id of job %s: nothing to abort\n", t.conf.Job)
		return t.show(before, before) // fencing ids that nobody has used would only make them
	}
	after, err := t.txns.Abort(ctx)
	if err != nil {
		return err
	}
	return t.settled(before, after)
}

func (t *txnCommand) commit(ctx context.Context) error {
	before, err := t.unattended(ctx)
	switch {
	case err != nil:
		return err
	case len(before.Open()) == 0:
		return t.show(before, before)
	case before.StoreErr != nil:
		return fmt.Errorf("the checkpoint store, which tells what may be committed, cannot be read: %w", before.StoreErr)
	case len(before.Prepared()) == 0:
		return refuse("%s open, none with a complete checkpoint: its results would have no state to go on from. "+
			"Start the job, or end what is open with weir txn abort", count(len(before.Open()), "transaction"))
	}
	after, err := t.txns.Commit(ctx)
	if err != nil {
		return err
	}
	return t.settled(before, after)
}

// settled tells what was done. Something open again is the work of somebody else.
func (t *txnCommand) settled(before, after *sidecar.TransactionList) error {
	err := t.show(before, after)
	if open := after.Open(); len(open) > 0 {
		err = errors.Join(err, fmt.Errorf("%s is open again: an instance of the job runs; stop it, and repeat this", open[0].TransactionalID))
	}
	return err
}

// unattended looks at the transactions, and refuses where an instance of the job seems to be at work.
func (t *txnCommand) unattended(ctx context.Context) (*sidecar.TransactionList, error) {
	before, err := t.txns.List(ctx)
	if err != nil || t.yes {
		return before, err
	}
	why := t.answers(ctx)
	if why == "" {
		why, err = t.watch(ctx, len(before.Open()) > 0)
	}
	if why != "" {
		err = refuse("an instance of job %s seems to run: %s. Stop it first, or fence it with --yes", t.conf.Job, why)
	}
	return before, err
}

// watch looks for a while whether an instance of the job begins a transaction.
func (t *txnCommand) watch(ctx context.Context, open bool) (string, error) {
	if open && newScreen(t.errOut).terminal {
		_, _ = fmt.Fprintf(t.errOut, "watching for %v whether an instance of the job is at work …\n", t.txns.Watch())
	}
	return t.txns.Moves(ctx)
}

// answers says that a job of this name answers at the configured address. Elsewhere it may run all the same.
func (t *txnCommand) answers(ctx context.Context) string {
	if t.conf.HTTP.Listen == "off" {
		return ""
	}
	client := &http.Client{Timeout: answerTimeout}
	defer client.CloseIdleConnections()
	s, err := admin.Fetch(ctx, client, t.conf.HTTP.Listen)
	if err != nil || s.Job != t.conf.Job {
		return ""
	}
	return fmt.Sprintf("instance %s answers at %s, state %s", s.Instance, t.conf.HTTP.Listen, s.State)
}

// answerTimeout bounds the question to an instance on this host.
const answerTimeout = time.Second
