package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/record"
)

func sample(id record.CheckpointID) *checkpoint.Manifest {
	return &checkpoint.Manifest{
		Job: "job", Checkpoint: id, Attempt: 3, Run: "000003.abc", Parent: id - 1,
		Created:     time.Date(2026, 1, 31, 12, 0, 0, 5, time.UTC),
		Transaction: record.Identity{TransactionalID: "job-0", ProducerID: 1000, Epoch: 7},
		Groups:      128, Plan: "f00d",
		Positions: []record.Position{{Source: "in", Topic: "t", TopicID: record.TopicID{1}, Partition: 2, Offset: 17, LeaderEpoch: -1}},
		States: []record.StateHandle{{
			Subtask: 1, Operator: "count", Backend: "fs", Format: 1, KeyGroups: []record.KeyGroup{1, 3}, Paths: []string{"dump"},
			Blobs: []record.Blob{{Name: "job/shared/000003.abc/1/dump", Size: 5, SHA256: strings.Repeat("0", 64)}},
		}},
	}
}

func TestManifestReadsBack(t *testing.T) {
	want := sample(9)
	content, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := checkpoint.Decode(content)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("read back as %+v, %v", got, err)
	}
}

// TestManifestOnDisk holds what version 1 looks like: released versions never change.
func TestManifestOnDisk(t *testing.T) {
	want, err := os.ReadFile("testdata/manifest-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sample(9).Encode(); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("version 1 is written as\n%s(%v), it was\n%s", got, err, want)
	}
}

func TestManifestFaultsAreAllReported(t *testing.T) {
	m := sample(9)
	m.Job, m.Checkpoint, m.Parent, m.Groups, m.Run = "a/b", 0, 4, 2, "x"
	m.Positions = append(m.Positions, m.Positions[0], record.Position{Offset: -1})
	m.States = append(m.States, m.States[0], record.StateHandle{Subtask: 2, Operator: "count", Backend: "fs", Format: 1, Blobs: []record.Blob{
		{Name: "job/shared/000003.abc/1/dump", Size: 6, SHA256: strings.Repeat("0", 64)}, {Name: "../x"}}})
	err := m.Validate()
	for _, want := range []string{"job", "checkpoint 0", "parent 4", "run \"x\"", "key group 3 of 2", "in/2: given twice", "without a source",
		"in subtask 1: given twice", "2 files with 0 names", "two contents", `"../x"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no fault mentions %s in:\n%v", want, err)
		}
	}
}

// TestDamagedManifest cuts the manifest anywhere and flips each of its bits: no reader may take it for good.
func TestDamagedManifest(t *testing.T) {
	root := t.TempDir()
	catalog := newCatalog(t, newDir(t, root))
	blob, err := catalog.Write(context.Background(), sample(9))
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(root, blob.Name)
	content, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(b []byte, digest string) {
		t.Helper()
		if err := os.WriteFile(at, b, 0o644); err != nil {
			t.Fatal(err)
		}
		m, err := catalog.Read(context.Background(), blob.Name, digest)
		var corrupt *checkpoint.CorruptError
		if errors.As(err, &corrupt) && corrupt.File == blob.Name || errors.Is(err, checkpoint.ErrVersion) {
			return
		}
		// Without the digest from outside, the envelope may still mean the same, but nothing else.
		if want := sample(9); digest != "" || err != nil || !reflect.DeepEqual(m, want) {
			t.Fatalf("damaged manifest\n%s\nread as %+v, %v", b, m, err)
		}
	}
	for n := 0; n < len(content)-1; n += 7 {
		damaged(content[:n], "")
		damaged(content[:n], blob.SHA256)
	}
	for n := range content {
		flipped := bytes.Clone(content)
		flipped[n] ^= 1 << (n % 8)
		damaged(flipped, "")
		damaged(flipped, blob.SHA256)
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	var corrupt *checkpoint.CorruptError
	if _, err := catalog.Read(context.Background(), blob.Name, ""); !errors.As(err, &corrupt) {
		t.Fatalf("missing manifest: %v, want CorruptError", err)
	}
}

func TestUnknownVersion(t *testing.T) {
	content, err := sample(9).Encode()
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(content, []byte(`"version":1`), []byte(`"version":2`), 1)
	if _, err := checkpoint.Decode(newer); !errors.Is(err, checkpoint.ErrVersion) {
		t.Fatalf("version 2: %v, want ErrVersion", err)
	}
}

func FuzzManifest(f *testing.F) {
	content, err := sample(9).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte(`{"version":1,"sha256":"","manifest":{}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		m, err := checkpoint.Decode(content)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if twice, err := checkpoint.Decode(again); err != nil || !reflect.DeepEqual(m, twice) {
			t.Fatalf("%+v was read back as %+v, %v", m, twice, err)
		}
	})
}

func TestRun(t *testing.T) {
	a, b := checkpoint.NewRun(7, "abcdefghijkl"), checkpoint.NewRun(7, "abcdefghijkl")
	if attempt, ok := checkpoint.RunAttempt(a); !ok || attempt != 7 || a == b {
		t.Fatalf("runs %s and %s, attempt %d, %v", a, b, attempt, ok)
	}
	for _, bad := range []string{"", "7.abc", "000000.abc", "000007", "000007.", "000007.a/b", "x000007.abc", "999999999999999999999.a"} {
		if _, ok := checkpoint.RunAttempt(bad); ok {
			t.Errorf("%q is taken for a run", bad)
		}
	}
}
