package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/internal/spans"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/sidecar"
)

// txnReport is a job's transactions, for programs.
type txnReport struct {
	Job string `json:"job"`
	// Committed is the last committed checkpoint, 0 where there is none.
	Committed record.CheckpointID `json:"committed_checkpoint"`
	Open      int                 `json:"open"`
	// StoreError says why nothing is known of prepared checkpoints.
	StoreError   string    `json:"store_error,omitempty"`
	Transactions []txnLine `json:"transactions"`
	// Ended are the transactions that the command has ended, as they were before.
	Ended []txnLine `json:"ended,omitempty"`
}

// txnLine is one transactional id.
type txnLine struct {
	TransactionalID string    `json:"transactional_id"`
	State           string    `json:"state"`
	ProducerID      int64     `json:"producer_id"`
	Epoch           int16     `json:"epoch"`
	Started         time.Time `json:"started,omitzero"`
	AgeSeconds      float64   `json:"age_seconds"`
	TimeoutSeconds  float64   `json:"timeout_seconds"`
	Partitions      []string  `json:"partitions"`
	// Prepared is the checkpoint that a commit completes, 0 where only an abort is safe.
	Prepared record.CheckpointID `json:"prepared_checkpoint"`
	// Outcome of a transaction that the command has ended: committed or aborted.
	Outcome string `json:"outcome,omitempty"`
	parts   []kafka.TopicPartition
}

func newTxnLine(t sidecar.JobTransaction, now time.Time) txnLine {
	line := txnLine{
		TransactionalID: t.TransactionalID, State: t.State, ProducerID: t.Identity.ProducerID, Epoch: t.Identity.Epoch,
		Started: t.Started, TimeoutSeconds: t.Timeout.Seconds(), Prepared: t.Prepared, Partitions: []string{}, parts: t.Partitions,
	}
	if !t.Started.IsZero() {
		line.AgeSeconds = max(0, now.Sub(t.Started)).Seconds() // the brokers' clock may be ahead
	}
	for _, p := range t.Partitions {
		line.Partitions = append(line.Partitions, p.String())
	}
	slices.Sort(line.Partitions)
	return line
}

// report describes what there is, and what the command has done where before is given.
func (t *txnCommand) report(before, after *sidecar.TransactionList) txnReport {
	now := time.Now()
	r := txnReport{Job: t.conf.Job, Committed: after.Committed, Open: len(after.Open()), Transactions: []txnLine{}}
	for _, x := range after.Transactions {
		r.Transactions = append(r.Transactions, newTxnLine(x, now))
	}
	if after.StoreErr != nil {
		r.StoreError = after.StoreErr.Error()
	}
	if before == nil {
		return r
	}
	for _, x := range before.Open() {
		line := newTxnLine(x, now)
		line.Outcome = "aborted"
		if x.Prepared > 0 && x.Prepared <= after.Committed {
			line.Outcome = "committed"
		}
		r.Ended = append(r.Ended, line)
	}
	return r
}

func (t *txnCommand) show(before, after *sidecar.TransactionList) error {
	r := t.report(before, after)
	if *t.output == "json" {
		return writeJSON(t.out, r)
	}
	var b strings.Builder
	if err := r.write(&b, t.file); err != nil {
		return err
	}
	_, err := io.WriteString(t.out, b.String())
	return err
}

// write is the report for a person.
func (r *txnReport) write(b *strings.Builder, file string) error {
	for _, x := range r.Ended {
		fmt.Fprintf(b, "%s: %s%s\n", x.Outcome, x.name(), x.completes())
	}
	committed := "no checkpoint is committed"
	if r.Committed > 0 {
		committed = fmt.Sprintf("checkpoint %d is committed", r.Committed)
	}
	fmt.Fprintf(b, "job %s: %s open, %s\n\n", r.Job, orNo(r.Open, "transaction"), committed)
	rows := [][]string{{"TRANSACTIONAL ID", "STATE", "PRODUCER", "EPOCH", "AGE", "TIMEOUT", "CHECKPOINT", "PARTITIONS"}}
	for _, x := range r.Transactions {
		rows = append(rows, x.row())
	}
	if err := writeTable(b, rows); err != nil {
		return err
	}
	if r.Open > 0 {
		fmt.Fprintf(b, "\n%s\n", r.advice(file))
	}
	return nil
}

// orNo is count, with a word for nothing.
func orNo(n int, what string) string {
	if n == 0 {
		return "no " + what
	}
	return count(n, what)
}

func (x *txnLine) name() string {
	return fmt.Sprintf("%s (producer %d, epoch %d)", x.TransactionalID, x.ProducerID, x.Epoch)
}

func (x *txnLine) completes() string {
	if x.Prepared == 0 {
		return ""
	}
	return fmt.Sprintf(", checkpoint %d", x.Prepared)
}

func (x *txnLine) row() []string {
	row := []string{x.TransactionalID, x.State, "-", "-", "-", "-", "-", ranges(x.parts)}
	if x.TimeoutSeconds > 0 {
		row[2], row[3] = strconv.FormatInt(x.ProducerID, 10), strconv.Itoa(int(x.Epoch))
		row[5] = seconds(x.TimeoutSeconds).String()
	}
	if !x.Started.IsZero() {
		row[4] = seconds(x.AgeSeconds).Round(100 * time.Millisecond).String()
	}
	if x.Prepared > 0 {
		row[6] = fmt.Sprintf("%d prepared", x.Prepared)
	}
	return row
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// advice says how what is open can be ended.
func (r *txnReport) advice(file string) string {
	for _, x := range r.Transactions {
		if x.Prepared > 0 {
			return fmt.Sprintf("A start of the job settles this, and so does weir txn commit %s: it completes checkpoint %d.", file, x.Prepared)
		}
	}
	text := "A running job has transactions open. Where none runs, its start ends them, and so does weir txn abort " + file + "."
	if r.StoreError != "" {
		text += "\nWhether a checkpoint is prepared is not known: " + r.StoreError
	}
	return text
}

// ranges lists partitions by topic: "counts 0-3, other 1 5".
func ranges(parts []kafka.TopicPartition) string {
	if len(parts) == 0 {
		return "-"
	}
	byTopic := map[string][]int32{}
	var topics []string
	for _, p := range parts {
		if byTopic[p.Topic] == nil {
			topics = append(topics, p.Topic)
		}
		byTopic[p.Topic] = append(byTopic[p.Topic], p.Partition)
	}
	slices.Sort(topics)
	for i, t := range topics {
		topics[i] = t + " " + spans.Text(byTopic[t])
	}
	return strings.Join(topics, ", ")
}
