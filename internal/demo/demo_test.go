package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/internal/instance"
	"github.com/weirstream/weir/internal/verify"
)

// TestMain is also the instance under test: the tests start this binary with a role.
func TestMain(m *testing.M) {
	switch os.Getenv("WEIR_TEST_ROLE") {
	case "patient": // runs until it is killed
		time.Sleep(time.Hour)
	case "broken":
		fmt.Println("cannot reach the broker")
		os.Exit(3)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

func startVictim(t *testing.T, role string) *victim {
	t.Helper()
	i, err := instance.New(filepath.Join(t.TempDir(), "log"), []string{"WEIR_TEST_ROLE=" + role}, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(i.Kill(), i.Close()); err != nil {
			t.Error(err)
		}
	})
	return &victim{Instance: i}
}

func TestInstanceIsKilledAndStartedAgain(t *testing.T) {
	v := startVictim(t, "patient")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- v.torment(ctx, 10*time.Millisecond, 1) }()
	for v.kills.Load() < 5 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if v.Exited() == nil {
		t.Error("no instance is left")
	}
}

func TestInstanceThatEndsByItselfEndsTheTorment(t *testing.T) {
	v := startVictim(t, "broken")
	if err := v.torment(t.Context(), time.Hour, 1); err == nil || !strings.Contains(err.Error(), "cannot reach the broker") {
		t.Errorf("error %v", err)
	}
}

// TestDemoFailsWithItsInstance runs the whole demo over an instance that writes nothing.
func TestDemoFailsWithItsInstance(t *testing.T) {
	t.Setenv("WEIR_TEST_ROLE", "broken")
	var out strings.Builder
	r, err := Run(t.Context(), Options{Duration: time.Second, KillEvery: time.Minute, Rate: 100, Command: []string{os.Args[0]}, Out: &out})
	if err == nil || r.Verdict.OK() || r.Dir == "" {
		t.Errorf("result %v, error %v", r, err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(r.Dir) })
}

func TestPipelineFileNamesEverything(t *testing.T) {
	p := pipeline{Job: "j", Brokers: []string{"a:1", "b:2"}, Dir: t.TempDir(), Topics: topicsOf("j")}
	path, err := p.write()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`brokers: ["a:1", "b:2"]`, "topic: j-views", "topic: j-page-totals", "job: j", p.Dir + "/state"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the pipeline lacks %q:\n%s", want, text)
		}
	}
}

func TestViewOnTerminalWritesOverItself(t *testing.T) {
	var out strings.Builder
	v := newView(Options{Duration: time.Minute, Out: &out, Live: true}, new(atomic.Int64))
	v.progress(verify.Progress{Input: 12345, Effects: 300, Outstanding: 7})
	first := out.String()
	v.end()
	again := strings.TrimPrefix(out.String(), first)
	up := fmt.Sprintf("\x1b[%dA", strings.Count(first, "\n"))
	if !strings.Contains(first, "12,345") || strings.Contains(first, "\x1b[3") || !strings.HasPrefix(again, up) {
		t.Errorf("first %q, then %q", first, again)
	}
}

func TestViewElsewhereIsPlainLines(t *testing.T) {
	var out strings.Builder
	v := newView(Options{Duration: time.Minute, Out: &out}, new(atomic.Int64))
	for range 10 {
		v.progress(verify.Progress{Input: 5})
	}
	v.end()
	lines := 0
	for s := bufio.NewScanner(strings.NewReader(out.String())); s.Scan(); lines++ {
		if strings.ContainsRune(s.Text(), '\x1b') {
			t.Errorf("escape in %q", s.Text())
		}
	}
	if lines != 2 {
		t.Errorf("%d lines, want the first and the last", lines)
	}
}
