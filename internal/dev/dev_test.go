package dev

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain is also the instance that the test starts; the whole way is tested with the command, in cmd/sidecar.
func TestMain(m *testing.M) {
	if os.Getenv("WEIR_TEST_ROLE") == "broken" {
		_, _ = os.Stdout.WriteString("no such operator\n")
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLinesBecomeRecords(t *testing.T) {
	records, err := read(write(t, "in.tsv", "k\tv\tw\n\nonly\n\tno key\n"), 2)
	if err != nil || len(records) != 3 {
		t.Fatalf("%v, error %v", records, err)
	}
	for i, want := range []struct {
		key, value string
		partition  int32
	}{{"k", "v\tw", 0}, {"", "only", 1}, {"", "no key", 0}} {
		if r := records[i]; string(r.Key) != want.key || string(r.Value) != want.value || r.Partition != want.partition {
			t.Errorf("record %d: %q %q in %d, want %+v", i, r.Key, r.Value, r.Partition, want)
		}
	}
	if records, err = read(write(t, "in.jsonl", "a\tb\n"), 1); err != nil || len(records) != 1 || string(records[0].Value) != "a\tb" {
		t.Errorf("a tab in JSON lines: %v, error %v", records, err)
	}
	if records, err := read("", 1); err != nil || records != nil {
		t.Errorf("no file: %v, error %v", records, err)
	}
}

func TestInstanceThatFailsIsReportedWithItsLog(t *testing.T) {
	t.Setenv("WEIR_TEST_ROLE", "broken")
	_, err := Run(t.Context(), Options{Pipeline: "p.yaml", Group: "g", Ledger: "l", Inputs: map[string]string{"in": write(t, "in.jsonl", "x\n")},
		Outputs: []string{"out"}, Partitions: 1, Command: []string{os.Args[0]}, Within: 10 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "no such operator") {
		t.Errorf("error %v", err)
	}
}
