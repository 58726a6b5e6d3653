package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// asCommand makes the test's own binary be weir: demo and dev start themselves again.
const asCommand = "WEIR_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	flag.Parse()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// TestDemoProvesExactlyOnce is weir demo, shortened: the whole of Weir, killed several times.
func TestDemoProvesExactlyOnce(t *testing.T) {
	t.Setenv(asCommand, "1")
	status, out, errOut := weir(t, "demo", "--duration", "6s", "--kill-every", "1200ms", "--rate", "3000")
	if status != exitFine || !strings.Contains(out, "exactly once: ") || !strings.Contains(out, " 0 lost, 0 duplicated") ||
		strings.Contains(out, "\n0 times the process") {
		t.Errorf("status %d\n%s%s", status, out, errOut)
	}
}

func TestDemoRefusesNonsense(t *testing.T) {
	for _, args := range [][]string{{"--rate", "0"}, {"--duration", "-1s"}, {"--kill-every", "0"}, {"extra"}} {
		if status, _, errOut := weir(t, append([]string{"demo"}, args...)...); status != exitUsage {
			t.Errorf("%v: status %d, %s", args, status, errOut)
		}
	}
}

var rewrite = flag.Bool("rewrite-examples", false, "write what the examples give now to their expected.txt")

// TestExamples runs each example on the inputs next to it. Topics of several partitions and sources may come in any order, so
// lines are compared sorted.
func TestExamples(t *testing.T) {
	t.Setenv(asCommand, "1")
	files, err := filepath.Glob("../../examples/*/pipeline.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples, error %v", len(files), err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			status, out, errOut := weir(t, append([]string{"dev", "--file", file}, inputsIn(t, dir)...)...)
			if status != exitFine {
				t.Fatalf("status %d, %s", status, errOut)
			}
			expected := filepath.Join(dir, "expected.txt")
			if *rewrite {
				if err := os.WriteFile(expected, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(expected)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(sortedLines(out), sortedLines(string(want))) {
				t.Errorf("got\n%s\nwant\n%s", out, want)
			}
		})
	}
}

// inputsIn gives each file in dir that is named after a source to it.
func inputsIn(t *testing.T, dir string) (args []string) {
	t.Helper()
	for _, pattern := range []string{"*.jsonl", "*.tsv"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			args = append(args, "--input", strings.TrimSuffix(filepath.Base(f), filepath.Ext(f))+"="+f)
		}
	}
	return args
}

func sortedLines(text string) []string {
	return slices.Sorted(strings.Lines(text))
}

func TestDevForPrograms(t *testing.T) {
	t.Setenv(asCommand, "1")
	status, out, errOut := weir(t, "dev", "../../examples/orders/pipeline.yaml", "--output", "json",
		"--input", "orders=../../examples/orders/orders.jsonl")
	if status != exitFine || !strings.Contains(out, `{"topic":"customer-totals","key":"bob","value":"{\"orders\":1`) {
		t.Errorf("status %d\n%s%s", status, out, errOut)
	}
}

func TestDevOfNoRecordsEndsWell(t *testing.T) {
	t.Setenv(asCommand, "1")
	empty := filepath.Join(t.TempDir(), "orders.jsonl")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errOut := weir(t, "dev", "../../examples/orders/pipeline.yaml", "--input", "orders="+empty)
	if status != exitFine || out != "" {
		t.Errorf("status %d\n%s%s", status, out, errOut)
	}
}

// TestDevOfAFailedJob says once what the job said, and ends as it did.
func TestDevOfAFailedJob(t *testing.T) {
	t.Setenv(asCommand, "1")
	bad := filepath.Join(t.TempDir(), "orders.jsonl")
	if err := os.WriteFile(bad, []byte("no json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, errOut := weir(t, "dev", "../../examples/page-views/pipeline.yaml", "--input", "views="+bad)
	if status != exitDecide || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, "offset 0") {
		t.Errorf("status %d\n%s", status, errOut)
	}
}

func TestDevNamesWhatIsWrong(t *testing.T) {
	t.Setenv(asCommand, "1")
	example := "../../examples/orders/pipeline.yaml"
	cases := []struct {
		args   []string
		status int
		want   string
	}{
		{nil, exitUsage, "which pipeline"},
		{[]string{example}, exitUsage, "--input orders=FILE"},
		{[]string{example, "--input", "parcels=x"}, exitUsage, "one of orders"},
		{[]string{example, "--input", "orders"}, exitUsage, "SOURCE=PATH"},
		{[]string{example, "--input", "orders=nowhere.jsonl"}, exitUsage, "nowhere.jsonl"},
		{[]string{example, "--within", "1ns", "--input", "orders=../../examples/orders/orders.jsonl"}, exitFailed, "not read within 1ns"},
	}
	for _, c := range cases {
		if status, _, errOut := weir(t, append([]string{"dev"}, c.args...)...); status != c.status || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: status %d, %s", c.args, status, errOut)
		}
	}
}
