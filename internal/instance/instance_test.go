package instance

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain is also the process that the tests start, in the role that they give it.
func TestMain(m *testing.M) {
	switch os.Getenv("WEIR_TEST_ROLE") {
	case "patient": // runs until it is asked to stop
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		fmt.Println("started")
		<-stop
		return
	case "deaf": // does not stop
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("started")
		time.Sleep(time.Hour)
	case "broken":
		fmt.Println("cannot reach the broker")
		os.Exit(3)
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, role string) *Instance {
	t.Helper()
	i, err := New(filepath.Join(t.TempDir(), "log"), []string{"WEIR_TEST_ROLE=" + role}, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); len(i.LastLines()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the process does not start")
		}
	}
	return i
}

func TestStopLetsTheProcessEndByItself(t *testing.T) {
	i := start(t, "patient")
	for range 2 {
		if err := i.Stop(10 * time.Second); err != nil {
			t.Error(err)
		}
	}
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	if err := i.Kill(); err != nil {
		t.Error(err)
	}
}

func TestProcessThatEndsByItselfIsReportedWithItsLog(t *testing.T) {
	i := start(t, "broken")
	err := i.Ended(<-i.Exited())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "cannot reach the broker") {
		t.Errorf("error %v", err)
	}
	if err := i.Stop(time.Second); err != nil {
		t.Errorf("stopping what has ended: %v", err)
	}
}

func TestProcessThatDoesNotStopIsKilled(t *testing.T) {
	i := start(t, "deaf")
	if err := i.Stop(100 * time.Millisecond); err == nil {
		t.Error("no error")
	}
	if i.Exited() != nil {
		t.Error("still running")
	}
}
