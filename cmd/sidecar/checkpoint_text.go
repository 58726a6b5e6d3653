package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/record"
)

// checkpointLine is one manifest in a list.
type checkpointLine struct {
	Checkpoint record.CheckpointID `json:"checkpoint"`
	Run        string              `json:"run"`
	Manifest   string              `json:"manifest"`
	// Damaged says why the manifest cannot be used; the rest is empty then.
	Damaged    string         `json:"damaged,omitempty"`
	Attempt    record.Attempt `json:"attempt,omitempty"`
	Created    time.Time      `json:"created,omitzero"`
	Files      int            `json:"files"`
	Bytes      int64          `json:"bytes"`
	Partitions int            `json:"partitions"`
}

// listCheckpoints reads every manifest. One that is damaged is part of the list.
func listCheckpoints(ctx context.Context, catalog *checkpoint.Catalog) ([]checkpointLine, error) {
	refs, err := catalog.List(ctx)
	list := make([]checkpointLine, 0, len(refs))
	for _, r := range refs {
		line := checkpointLine{Checkpoint: r.Checkpoint, Run: r.Run, Manifest: r.Location}
		m, err := catalog.Read(ctx, r.Location, "")
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			line.Damaged = err.Error()
		default:
			line.Attempt, line.Created, line.Partitions = m.Attempt, m.Created, len(m.Positions)
			line.Files, line.Bytes = totals(m)
		}
		list = append(list, line)
	}
	return list, err
}

// totals returns the number of files that a manifest refers to, and the bytes in them and in the manifest itself.
func totals(m *checkpoint.Manifest) (files int, bytes int64) {
	for _, b := range m.Blobs() {
		files++
		bytes += b.Size
	}
	for _, s := range m.States {
		bytes += int64(len(s.Inline))
	}
	return files, bytes
}

func writeCheckpoints(w io.Writer, list []checkpointLine) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "The store has no checkpoint of this job.")
		return err
	}
	rows := [][]string{{"CHECKPOINT", "ATTEMPT", "CREATED", "PARTITIONS", "FILES", "STATE", "MANIFEST"}}
	for _, l := range list {
		if l.Damaged != "" {
			rows = append(rows, []string{fmt.Sprint(l.Checkpoint), "", "", "", "", "DAMAGED", l.Manifest})
			continue
		}
		rows = append(rows, []string{fmt.Sprint(l.Checkpoint), fmt.Sprint(l.Attempt), l.Created.Local().Format(time.DateTime),
			fmt.Sprint(l.Partitions), fmt.Sprint(l.Files), size(l.Bytes), l.Manifest})
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	return writeDamage(w, list)
}

// writeDamage says below the table why manifests cannot be used.
func writeDamage(w io.Writer, list []checkpointLine) error {
	for _, l := range list {
		if l.Damaged == "" {
			continue
		}
		if _, err := fmt.Fprintln(w, l.Damaged); err != nil {
			return err
		}
	}
	return nil
}

// inspection is a manifest and what was found when its files were read.
type inspection struct {
	Manifest   string               `json:"location"`
	Checkpoint *checkpoint.Manifest `json:"manifest,omitempty"`
	Files      int                  `json:"files"`
	Bytes      int64                `json:"bytes"`
	// Faults are what is missing or damaged; with none, the checkpoint is whole.
	Faults []string `json:"faults"`
}

func inspectCheckpoint(ctx context.Context, catalog *checkpoint.Catalog, ref checkpoint.Ref) (inspection, error) {
	i := inspection{Manifest: ref.Location, Faults: []string{}}
	m, err := catalog.Read(ctx, ref.Location, "")
	if err == nil {
		i.Checkpoint = m
		i.Files, i.Bytes = totals(m)
		err = catalog.Verify(ctx, m)
	}
	if ctx.Err() != nil {
		return i, ctx.Err()
	}
	if err != nil {
		i.Faults = strings.Split(err.Error(), "\n") // one line for each file
	}
	return i, nil
}

func writeInspections(w io.Writer, list []inspection) error {
	var b strings.Builder
	for n, i := range list {
		if n > 0 {
			b.WriteString("\n")
		}
		if err := writeInspection(&b, i); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeInspection(b *strings.Builder, i inspection) error {
	fmt.Fprintf(b, "manifest     %s\n", i.Manifest)
	if m := i.Checkpoint; m != nil {
		fmt.Fprintf(b, "checkpoint   %d of job %s, attempt %d, after checkpoint %d\n", m.Checkpoint, m.Job, m.Attempt, m.Parent)
		fmt.Fprintf(b, "created      %s\n", m.Created.Local().Format(time.RFC3339))
		if !m.Transaction.IsZero() {
			fmt.Fprintf(b, "transaction  %s\n", m.Transaction)
		}
		for _, rows := range [][][]string{positionRows(m), handleRows(m)} {
			if len(rows) > 1 {
				b.WriteString("\n")
			}
			if err := writeTable(b, rows); err != nil {
				return err
			}
		}
	}
	b.WriteString("\n")
	for _, f := range i.Faults {
		fmt.Fprintf(b, "DAMAGED: %s\n", f)
	}
	if len(i.Faults) == 0 {
		fmt.Fprintf(b, "whole: %d files, %s, every digest as written\n", i.Files, size(i.Bytes))
	}
	return nil
}

func positionRows(m *checkpoint.Manifest) [][]string {
	rows := [][]string{{"SOURCE", "TOPIC", "PARTITION", "OFFSET", "LEADER EPOCH", "TOPIC ID"}}
	positions := slices.SortedFunc(slices.Values(m.Positions), func(a, b record.Position) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Partition, b.Partition))
	})
	for _, p := range positions {
		rows = append(rows, []string{p.Source, p.Topic, fmt.Sprint(p.Partition), fmt.Sprint(p.Offset), fmt.Sprint(p.LeaderEpoch), p.TopicID.String()})
	}
	return rows
}

func handleRows(m *checkpoint.Manifest) [][]string {
	rows := [][]string{{"STATE OF", "SUBTASK", "BACK END", "KEY GROUPS", "FILES", "BYTES"}}
	for _, s := range m.States {
		bytes := int64(len(s.Inline))
		for _, b := range s.Blobs {
			bytes += b.Size
		}
		rows = append(rows, []string{s.Operator, fmt.Sprint(s.Subtask), fmt.Sprintf("%s/%d", s.Backend, s.Format),
			fmt.Sprint(len(s.KeyGroups)), fmt.Sprint(len(s.Blobs)), humanize.Comma(bytes)})
	}
	return rows
}
