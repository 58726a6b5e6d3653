package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/weirstream/weir/admin"
)

// writeStatus writes a picture of a job for a person. before, if not nil, is an earlier picture: with it there are rates.
func writeStatus(w io.Writer, sc screen, s admin.Status, before *admin.Status) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-13s %s\n", name, strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
	line("job", "%s, %s, instance %s, weir %s", s.Job, cmp.Or(s.Guarantee, "no guarantee given"), s.Instance, s.Version)
	line("state", "%s%s, up %s %s", sc.paint(stateColor(s.State), string(s.State)), attemptText(s), age(s, s.Started), because(s))
	line("checkpoint", "%s", checkpointText(s))
	for _, p := range s.Checkpoints.InProgress {
		line("", "%d in %s for %s, acknowledged by %d of %d subtasks", p.ID, p.Phase, age(s, p.Since), len(p.Acknowledged), len(s.Subtasks))
	}
	line("transactions", "%s", transactionsText(s))
	line("store", "%s", storeText(s))
	line("retries", "%s%s", countsText(s.Retries), lastRetry(s))
	line("restarts", "%s", countsText(s.Restarts))
	for _, f := range s.Failures {
		line("failure", "%s ago, attempt %d, %s: %s", age(s, f.Time), f.Attempt, f.Cause, f.Error)
	}
	for _, rows := range [][][]string{sourceRows(s, before), outputRows(s, before), stateRows(s), channelRows(s)} {
		if len(rows) > 1 {
			b.WriteString("\n")
		}
		if err := writeTable(&b, rows); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// attemptText is "" as long as a job does not know how many attempts there were.
func attemptText(s admin.Status) string {
	if s.Attempt == 0 {
		return ""
	}
	return fmt.Sprintf(", attempt %d", s.Attempt)
}

func stateColor(s admin.State) int {
	switch s {
	case admin.Running:
		return green
	case admin.Failed:
		return red
	}
	return yellow
}

func because(s admin.Status) string {
	if s.Reason == "" {
		return ""
	}
	return "(" + s.Reason + ")"
}

// age is the time from t until the picture was taken.
func age(s admin.Status, t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	d := max(0, s.Time.Sub(t))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

func checkpointText(s admin.Status) string {
	c := s.Checkpoints
	progress := fmt.Sprintf("%d of at most %d in progress", len(c.InProgress), c.MaxInFlight)
	if c.Committed == nil {
		return "none committed yet, " + progress
	}
	return fmt.Sprintf("%d committed %s ago, %s", c.Committed.ID, age(s, c.Committed.Time), progress)
}

func transactionsText(s admin.Status) string {
	if len(s.Transactions) == 0 {
		return "none open"
	}
	oldest := slices.MinFunc(s.Transactions, func(a, b admin.Transaction) int { return a.Since.Compare(b.Since) })
	return fmt.Sprintf("%d open, the oldest for %s of at most %v", len(s.Transactions), age(s, oldest.Since),
		time.Duration(s.TransactionTimeoutSeconds*float64(time.Second)))
}

func storeText(s admin.Status) string {
	text := fmt.Sprintf("%s, %s repeated", cmp.Or(s.Store.Path, "?"), count(int(s.Store.Retries), "write"))
	if s.Store.Error != "" {
		text += fmt.Sprintf("; failing for %s: %s", age(s, s.Store.FailingSince), s.Store.Error)
	}
	return text
}

// lastRetry names the latest error that was tried again, while it is news.
func lastRetry(s admin.Status) string {
	if s.LastRetry == nil || s.Time.Sub(s.LastRetry.Time) > time.Minute {
		return ""
	}
	return fmt.Sprintf("; %s ago: %s", age(s, s.LastRetry.Time), s.LastRetry.Error)
}

// countsText lists counts by name, the largest first.
func countsText[K ~string](counts map[K]int64) string {
	if len(counts) == 0 {
		return "none"
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b K) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, n := range names {
		parts = append(parts, fmt.Sprintf("%s × %s", n, humanize.Comma(counts[n])))
	}
	return strings.Join(parts, ", ")
}

// flow is what went through one source or output.
type flow struct{ records, bytes, lag, partitions int64 }

func sourceFlows(s *admin.Status) map[[2]string]flow {
	flows := map[[2]string]flow{}
	for _, p := range s.Sources {
		k := [2]string{p.Source, p.Topic}
		f := flows[k]
		flows[k] = flow{f.records + p.Records, f.bytes + p.Bytes, f.lag + p.Lag, f.partitions + 1}
	}
	return flows
}

func outputFlows(s *admin.Status) map[[2]string]flow {
	flows := map[[2]string]flow{}
	for _, o := range s.Outputs {
		k := [2]string{o.Output, o.Topic}
		flows[k] = flow{records: flows[k].records + o.Records, bytes: flows[k].bytes + o.Bytes}
	}
	return flows
}

func sourceRows(s admin.Status, before *admin.Status) [][]string {
	rows := [][]string{{"SOURCE", "TOPIC", "PARTITIONS", "RECORDS", "BYTES", "LAG"}}
	rate := rates(&rows[0], s, before, sourceFlows)
	for _, f := range sorted(sourceFlows(&s)) {
		rows = append(rows, append([]string{f.key[0], f.key[1], humanize.Comma(f.partitions), humanize.Comma(f.records),
			size(f.bytes), humanize.Comma(f.lag)}, rate(f.key)...))
	}
	return rows
}

func outputRows(s admin.Status, before *admin.Status) [][]string {
	rows := [][]string{{"OUTPUT", "TOPIC", "RECORDS", "BYTES"}}
	rate := rates(&rows[0], s, before, outputFlows)
	for _, f := range sorted(outputFlows(&s)) {
		rows = append(rows, append([]string{f.key[0], f.key[1], humanize.Comma(f.records), size(f.bytes)}, rate(f.key)...))
	}
	return rows
}

type keyedFlow struct {
	key [2]string
	flow
}

func sorted(flows map[[2]string]flow) []keyedFlow {
	var list []keyedFlow
	for k, f := range flows {
		list = append(list, keyedFlow{k, f})
	}
	slices.SortFunc(list, func(a, b keyedFlow) int { return slices.Compare(a.key[:], b.key[:]) })
	return list
}

// rates adds a column of records per second to head if there is an earlier picture, and returns what fills it.
func rates(head *[]string, s admin.Status, before *admin.Status, flows func(*admin.Status) map[[2]string]flow) func([2]string) []string {
	if before == nil || !s.Time.After(before.Time) {
		return func([2]string) []string { return nil }
	}
	*head = append(*head, "RECORDS/S")
	now, then, took := flows(&s), flows(before), s.Time.Sub(before.Time).Seconds()
	return func(k [2]string) []string {
		made := max(0, now[k].records-then[k].records) // a restart counts from 0 again
		return []string{humanize.Comma(int64(float64(made) / took))}
	}
}

func stateRows(s admin.Status) [][]string {
	rows := [][]string{{"STATE OF", "ENTRIES", "MEMORY", "CHANGED", "NOT DURABLE"}}
	sums := map[string]admin.OperatorState{}
	for _, o := range s.States {
		t := sums[o.Operator]
		sums[o.Operator] = admin.OperatorState{Entries: t.Entries + o.Entries, Bytes: t.Bytes + o.Bytes,
			DirtyBytes: t.DirtyBytes + o.DirtyBytes, FrozenBytes: t.FrozenBytes + o.FrozenBytes}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		o := sums[name]
		rows = append(rows, []string{name, humanize.Comma(o.Entries), size(o.Bytes), size(o.DirtyBytes), size(o.FrozenBytes)})
	}
	return rows
}

// channelRows lists the edges, with how many of their channels are full: those hold the work before them back.
func channelRows(s admin.Status) [][]string {
	rows := [][]string{{"EDGE", "CHANNELS", "FULL", "BYTES", "LIMIT"}}
	type sum struct{ channels, full, bytes, limit int64 }
	sums := map[string]sum{}
	for _, c := range s.Channels {
		t := sums[c.Edge]
		if c.Full {
			t.full++
		}
		sums[c.Edge] = sum{t.channels + 1, t.full, t.bytes + c.Bytes, t.limit + c.LimitBytes}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		e := sums[name]
		rows = append(rows, []string{name, fmt.Sprint(e.channels), fmt.Sprint(e.full), size(e.bytes), size(e.limit)})
	}
	return rows
}

func size(bytes int64) string { return humanize.IBytes(uint64(max(0, bytes))) }
