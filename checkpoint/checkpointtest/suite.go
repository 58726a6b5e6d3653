// Package checkpointtest is the acceptance suite of checkpoint.Store: what every implementation must do.
package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/record"
)

// Run checks a store, which open returns empty.
func Run(t *testing.T, open func(t *testing.T) checkpoint.Store) {
	for name, test := range map[string]func(*testing.T, checkpoint.Store){
		"create once":      testCreateOnce,
		"create from file": testCreateFrom,
		"racing writers":   testRace,
		"bad names":        testNames,
		"list and remove":  testListRemove,
		"fetch":            testFetch,
		"cancelled":        testCancelled,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

var digests = map[string]string{
	"":    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
}

func create(t *testing.T, s checkpoint.Store, name, content string) record.Blob {
	t.Helper()
	blob, err := s.Create(context.Background(), name, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return blob
}

func expect(t *testing.T, s checkpoint.Store, name, content string) {
	t.Helper()
	f, err := s.Open(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || string(got) != content {
		t.Fatalf("%s is %q (%v), want %q", name, got, err, content)
	}
}

func testCreateOnce(t *testing.T, s checkpoint.Store) {
	for content, digest := range digests {
		name := "job/a/f" + content
		want := record.Blob{Name: name, Size: int64(len(content)), SHA256: digest}
		for range 2 { // the second time it is there already
			if got := create(t, s, name, content); got != want {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		}
		if _, err := s.Create(context.Background(), name, []byte("other")); !errors.Is(err, checkpoint.ErrExists) {
			t.Fatalf("other content under a taken name: %v, want ErrExists", err)
		}
		expect(t, s, name, content)
	}
	if _, err := s.Open(context.Background(), "job/a/none"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatalf("opening what is not there: %v, want ErrNotFound", err)
	}
}

func testCreateFrom(t *testing.T, s checkpoint.Store) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		blob, err := s.CreateFrom(context.Background(), "job/f", path)
		if want := (record.Blob{Name: "job/f", Size: 3, SHA256: digests["abc"]}); err != nil || blob != want {
			t.Fatalf("got %+v, %v, want %+v", blob, err, want)
		}
	}
	// The owner of the file takes its name away; the store keeps the content.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "job/f", "abc")
	if err := os.WriteFile(path, []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateFrom(context.Background(), "job/f", path); !errors.Is(err, checkpoint.ErrExists) {
		t.Fatalf("other content under a taken name: %v, want ErrExists", err)
	}
	expect(t, s, "job/f", "abc")
}

// testRace has several writers for each name; one content must win, and all its writers must succeed.
func testRace(t *testing.T, s checkpoint.Store) {
	const writers, names = 8, 20
	var wg sync.WaitGroup
	for n := range names {
		won := make([]error, writers)
		for w := range writers {
			wg.Go(func() {
				_, won[w] = s.Create(context.Background(), fmt.Sprintf("job/%d/f", n), []byte{byte(w % 2)})
			})
		}
		wg.Wait()
		f, err := s.Open(context.Background(), fmt.Sprintf("job/%d/f", n))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil || len(content) != 1 {
			t.Fatalf("the winner wrote %v, %v", content, err)
		}
		for w, err := range won {
			if winner := byte(w%2) == content[0]; winner && err != nil || !winner && !errors.Is(err, checkpoint.ErrExists) {
				t.Fatalf("writer %d (winner: %v) got %v", w, winner, err)
			}
		}
	}
}

func testNames(t *testing.T, s checkpoint.Store) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "/", "/etc/passwd", "..", "a/../b", "a/./b", "a//b", "a/", ".tmp/a", "a\\b", "a b", "ü", "a\x00"} {
		_, created := s.Create(ctx, name, nil)
		_, linked := s.CreateFrom(ctx, name, path)
		_, opened := s.Open(ctx, name)
		_, listed := s.List(ctx, name)
		for what, err := range map[string]error{"Create": created, "CreateFrom": linked, "Open": opened, "List": listed,
			"Remove": s.Remove(ctx, name), "Fetch": s.Fetch(ctx, record.Blob{Name: name}, path+"-2")} {
			if err == nil || errors.Is(err, checkpoint.ErrNotFound) {
				t.Errorf("%s accepts the name %q (%v)", what, name, err)
			}
		}
	}
}

func testListRemove(t *testing.T, s checkpoint.Store) {
	ctx := context.Background()
	list := func(folder string, want ...string) {
		t.Helper()
		if got, err := s.List(ctx, folder); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s lists as %v (%v), want %v", folder, got, err, want)
		}
	}
	list("job")
	for _, name := range []string{"job/b", "job/a/2", "job/a/1", "job2/x", "jo/y"} {
		create(t, s, name, name)
	}
	list("job", "job/a/1", "job/a/2", "job/b")
	for range 2 {
		if err := s.Remove(ctx, "job/a/2"); err != nil {
			t.Fatal(err)
		}
		list("job", "job/a/1", "job/b")
	}
	create(t, s, "job/a/2", "again")
	for _, name := range []string{"job/a/1", "job/a/2"} {
		if err := s.Remove(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	list("job/a")
	create(t, s, "job/a/1", "after the folder was empty")
	if err := s.Sweep(ctx, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	list("job", "job/a/1", "job/b")
}

func testFetch(t *testing.T, s checkpoint.Store) {
	ctx, dir := context.Background(), t.TempDir()
	good := create(t, s, "job/f", "abc")
	path := filepath.Join(dir, "f")
	if err := s.Fetch(ctx, good, path); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "abc" {
		t.Fatalf("fetched %q, %v", got, err)
	}
	if err := s.Fetch(ctx, good, path); err == nil {
		t.Fatal("a file was fetched over another")
	}
	for name, bad := range map[string]record.Blob{
		"size": {Name: "job/f", Size: 4, SHA256: good.SHA256}, "digest": {Name: "job/f", Size: 3, SHA256: digests[""]},
	} {
		var corrupt *checkpoint.CorruptError
		at := filepath.Join(dir, name)
		if err := s.Fetch(ctx, bad, at); !errors.As(err, &corrupt) || corrupt.File != "job/f" {
			t.Errorf("wrong %s: %v, want CorruptError naming job/f", name, err)
		}
		if _, err := os.Stat(at); err == nil {
			t.Errorf("wrong %s: the file is there nevertheless", name)
		}
	}
	if err := s.Fetch(ctx, record.Blob{Name: "job/none"}, filepath.Join(dir, "none")); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("fetching what is not there: %v, want ErrNotFound", err)
	}
}

func testCancelled(t *testing.T, s checkpoint.Store) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Create(ctx, "job/f", []byte("abc")); !errors.Is(err, context.Canceled) {
		t.Errorf("Create answers %v after the context was cancelled", err)
	}
}
