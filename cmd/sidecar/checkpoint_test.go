package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/record"
)

// aStore makes a pipeline file and a store with checkpoints 1 to 3, and returns the file and the store's folder.
func aStore(t *testing.T) (file, dir string) {
	t.Helper()
	dir, file = filepath.Join(t.TempDir(), "checkpoints"), filepath.Join(t.TempDir(), "pipeline.yaml")
	pipeline := fmt.Sprintf(`version: 1
job: page-views
checkpoint: {store: "file://%s"}
sources: {views: {topic: in, format: json}}
operators: {per_page: {from: views, key: page, aggregate: {views: count()}}}
sinks: {counts: {from: per_page, topic: out, format: json}}
`, dir)
	if err := os.WriteFile(file, []byte(pipeline), 0o644); err != nil {
		t.Fatal(err)
	}
	store, err := checkpoint.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := checkpoint.NewCatalog(store, "page-views")
	if err != nil {
		t.Fatal(err)
	}
	for n := record.CheckpointID(1); n <= 3; n++ {
		addCheckpoint(t, catalog, n)
	}
	return file, dir
}

const testRun = "000002.abcdefghijkl"

func addCheckpoint(t *testing.T, catalog *checkpoint.Catalog, n record.CheckpointID) {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(state, fmt.Appendf(nil, "state of %d", n), 0o644); err != nil {
		t.Fatal(err)
	}
	blob, err := catalog.Upload(t.Context(), fmt.Sprintf("%s/state-%d", testRun, n), state)
	if err != nil {
		t.Fatal(err)
	}
	_, err = catalog.Write(t.Context(), &checkpoint.Manifest{
		Checkpoint: n, Attempt: 2, Run: testRun, Parent: n - 1, Created: time.Unix(1_770_000_000, 0), Groups: 128,
		Transaction: record.Identity{TransactionalID: "page-views-1", ProducerID: 9, Epoch: 4},
		Positions:   []record.Position{{Source: "views", Topic: "in", Partition: 1, Offset: 77, LeaderEpoch: 5}},
		States: []record.StateHandle{{Subtask: 0, Operator: "per_page", Backend: "fs", Format: 1, KeyGroups: []record.KeyGroup{0, 5},
			Blobs: []record.Blob{blob}, Paths: []string{"state"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// theFile returns the one file of the store whose path matches.
func theFile(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

func damage(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("state of 9"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCheckpointList(t *testing.T) {
	file, dir := aStore(t)
	status, got, errOut := weir(t, "checkpoint", "list", file)
	lines := strings.Split(squeezed(got), "\n")
	if status != exitFine || !strings.HasPrefix(lines[1], "3 2 20") || !strings.Contains(lines[1], " 1 1 10 B page-views/chk-0000000003-") {
		t.Errorf("list: status %d\n%s%s", status, got, errOut)
	}
	damage(t, theFile(t, dir, "page-views/chk-0000000002-*/manifest.json"))
	status, got, errOut = weir(t, "checkpoint", "list", file)
	if status != exitFine || strings.Count(got, "DAMAGED") != 1 || !strings.Contains(got, "restore from another") {
		t.Errorf("list with a damaged manifest: status %d\n%s%s", status, got, errOut)
	}
	status, got, errOut = weir(t, "checkpoint", "list", file, "-o", "json")
	var list []checkpointLine
	if err := json.Unmarshal([]byte(got), &list); err != nil || status != exitFine || len(list) != 3 || list[1].Damaged == "" {
		t.Errorf("list as JSON: status %d, %v\n%s%s", status, err, got, errOut)
	}
}

func TestCheckpointInspect(t *testing.T) {
	file, dir := aStore(t)
	for _, args := range [][]string{{}, {"3"}} {
		status, got, errOut := weir(t, append([]string{"checkpoint", "inspect", file}, args...)...)
		if status != exitFine {
			t.Fatalf("status %d: %s", status, errOut)
		}
		for _, want := range []string{
			"checkpoint 3 of job page-views, attempt 2, after checkpoint 2", "transaction page-views-1 (producer 9, epoch 4)",
			"views in 1 77 5 00000000000000000000000000000000", "per_page 0 fs/1 2 1 10", "whole: 1 files, 10 B, every digest as written",
		} {
			if !strings.Contains(squeezed(got), "\n"+want+"\n") {
				t.Errorf("inspect %v: missing %q in:\n%s", args, want, got)
			}
		}
	}
	damage(t, theFile(t, dir, "page-views/shared/*/state-2"))
	status, got, errOut := weir(t, "checkpoint", "inspect", file, "2")
	if status != exitFailed || !strings.Contains(got, "DAMAGED: checkpoint file page-views/shared/"+testRun+"/state-2") {
		t.Errorf("a damaged file: status %d\n%s%s", status, got, errOut)
	}
	if err := os.Remove(theFile(t, dir, "page-views/shared/*/state-1")); err != nil {
		t.Fatal(err)
	}
	status, got, errOut = weir(t, "checkpoint", "inspect", file, "1", "-o", "json")
	var found []inspection
	if err := json.Unmarshal([]byte(got), &found); err != nil || status != exitFailed || len(found) != 1 || len(found[0].Faults) != 1 {
		t.Errorf("a missing file: status %d, %v\n%s%s", status, err, got, errOut)
	}
}

func TestCheckpointCommandsSayWhatIsWrong(t *testing.T) {
	file, dir := aStore(t)
	wrong := func(status int, says string, args ...string) {
		t.Helper()
		got, _, errOut := weir(t, append([]string{"checkpoint"}, args...)...)
		if got != status || !strings.Contains(errOut, says) {
			t.Errorf("%v: status %d, want %d with %q: %s", args, got, status, says, errOut)
		}
	}
	wrong(exitFailed, "it has 1 to 3", "inspect", file, "9")
	wrong(exitUsage, "no number of a checkpoint", "inspect", file, "x")
	wrong(exitUsage, "expected text", "list", file, "-o", "xml")
	wrong(exitUsage, "cannot be read", "list", file+".not")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	wrong(exitFailed, "there is no checkpoint store", "list", file)
	if _, err := os.Stat(dir); err == nil {
		t.Error("looking made a store")
	}
}
