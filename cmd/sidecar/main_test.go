package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/embedded"
)

// weir runs one command line.
func weir(t *testing.T, args ...string) (status int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(t.Context(), args, &o, &e)
	return status, o.String(), e.String()
}

// starterFile is a file that init wrote.
func starterFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pipeline.yaml")
	if status, _, errOut := weir(t, "init", file); status != exitFine {
		t.Fatalf("init: status %d, %s", status, errOut)
	}
	return file
}

func TestInitKeepsWhatIsThere(t *testing.T) {
	file := starterFile(t)
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, errOut := weir(t, "init", file)
	if text, _ := os.ReadFile(file); status != exitUsage || string(text) != "mine" || !strings.Contains(errOut, "exists") {
		t.Errorf("second init: status %d, file %q, %s", status, text, errOut)
	}
}

func TestValidate(t *testing.T) {
	file := starterFile(t)
	if status, out, errOut := weir(t, "validate", file); status != exitFine || !strings.Contains(out, "fine: job page-views") {
		t.Errorf("the starter: status %d, %s%s", status, out, errOut)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	text := strings.NewReplacer("brokers", "brokrs", "interval: 1s", "interval: soon", "status == 200", "statsu == 200",
		"from: valid", "from: valdi", "count()", "cuont()").Replace(string(starter))
	if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errOut := weir(t, "validate", file, bad)
	if lines := strings.Count(errOut, bad+":"); status != exitUsage || lines != 5 {
		t.Errorf("five mistakes: status %d, %d lines, want 2 and 5:\n%s%s", status, lines, out, errOut)
	}
	status, out, _ = weir(t, "validate", bad, "--output", "json")
	var verdicts []checked
	if err := json.Unmarshal([]byte(out), &verdicts); err != nil || status != exitUsage || len(verdicts[0].Faults) != 5 {
		t.Errorf("as JSON: status %d, %v\n%s", status, err, out)
	}
}

func TestConfigHidesSecrets(t *testing.T) {
	file := starterFile(t)
	t.Setenv("WEIR__KAFKA__SASL__PASSWORD", "hidden")
	t.Setenv("WEIR__KAFKA__SASL__USERNAME", "me")
	t.Setenv("WEIR__KAFKA__SASL__MECHANISM", "PLAIN")
	for _, output := range []string{"text", "json"} {
		status, out, errOut := weir(t, "config", file, "--output", output, "--log-level=debug")
		if status != exitFine || strings.Contains(out, "hidden") || !strings.Contains(out, "flag --log-level") ||
			!strings.Contains(out, "environment WEIR__KAFKA__SASL__PASSWORD") {
			t.Errorf("config --output %s: status %d\n%s%s", output, status, out, errOut)
		}
	}
}

const counts = "page-views=8,page-view-counts=4,page-views-dead=1"

func TestPlan(t *testing.T) {
	file := starterFile(t)
	for output, want := range map[string]string{
		"text": "subtask 1 reads 2-3 6-7", "mermaid": "flowchart LR", "json": `"groups": 128`,
	} {
		status, out, errOut := weir(t, "plan", file, "--parallelism=2", "--partitions", counts, "-o", output)
		if status != exitFine || !strings.Contains(out, want) {
			t.Errorf("plan -o %s: status %d, want %q in\n%s%s", output, status, want, out, errOut)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	file := starterFile(t)
	for _, args := range []string{
		"nope", "validate", "validate --nope " + file, "plan " + file + " --partitions page-views", "config",
		"plan " + file + " --partitions " + counts + " -o png", "version extra", "validate /does/not/exist.yaml",
		"config " + file + " --log-level=loud", "init /no/such/folder/pipeline.yaml", "demo --brokers localhost",
	} {
		if status, _, errOut := weir(t, strings.Fields(args)...); status != exitUsage || errOut == "" {
			t.Errorf("weir %s: status %d, want %d; %s", args, status, exitUsage, errOut)
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, c := range newRoot().Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if !strings.Contains(c.Example, "weir "+c.Name()) {
			t.Errorf("weir %s --help has no example of itself", c.Name())
		}
	}
	_, long, _ := weir(t, "version")
	if status, out, _ := weir(t, "--version"); status != exitFine || out != long {
		t.Errorf("weir --version: status %d, %q, want %q", status, out, long)
	}
	if status, out, _ := weir(t, "version"); status != exitFine || !strings.HasPrefix(out, "weir ") {
		t.Errorf("version: status %d, %s", status, out)
	}
}

func TestPlanAsksTheBrokers(t *testing.T) {
	broker, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	file := starterFile(t)
	t.Setenv("KAFKA", broker.Brokers()[0])
	status, _, errOut := weir(t, "plan", file)
	if status != exitFailed || !strings.Contains(errOut, "--partitions page-views=COUNT") || !strings.Contains(errOut, "page-views") {
		t.Errorf("without topics: status %d, %s", status, errOut)
	}
	for topic, n := range map[string]int32{"page-views": 6, "page-view-counts": 3, "page-views-dead": 1} {
		if err := broker.CreateTopic(topic, n, nil); err != nil {
			t.Fatal(err)
		}
	}
	status, out, errOut := weir(t, "plan", file, "--parallelism=3")
	if status != exitFine || !strings.Contains(out, "subtask 2 reads 2 5") {
		t.Errorf("status %d\n%s%s", status, out, errOut)
	}
}
