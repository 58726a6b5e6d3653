package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

const small = `version: 1
job: small
kafka:
  brokers: [one:9092, two:9092]
  sasl: {mechanism: PLAIN, username: u, password: hidden}
checkpoint: {interval: 2s}
sources:
  in: {topic: a}
sinks:
  out: {from: in, topic: b}
`

func parse(t *testing.T, text string, args ...string) *Config {
	t.Helper()
	fs := pflag.NewFlagSet("weir", pflag.ContinueOnError)
	AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	c, err := Parse("p.yaml", []byte(text), fs)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLayers(t *testing.T) {
	t.Setenv("WEIR__CHECKPOINT__INTERVAL", "3s")
	t.Setenv("WEIR__KAFKA__PREFETCH", "1MiB")
	t.Setenv("WEIR__STATE__BACKEND", "fs")
	c := parse(t, small, "--checkpoint-interval=4s")
	if got := c.Checkpoint.Interval; got != 4*time.Second {
		t.Errorf("interval %s, want the flag's 4s", got)
	}
	if got := c.Kafka.Prefetch; got != 1<<20 {
		t.Errorf("prefetch %s, want the environment's 1MiB", got)
	}
	if got := c.State.Backend; got != "fs" {
		t.Errorf("backend %s, want the environment's fs", got)
	}
	if got := c.Kafka.Brokers; len(got) != 2 || got[1] != "two:9092" {
		t.Errorf("brokers %v, want the file's two", got)
	}
	if got := c.Kafka.ControlTimeout; got != 5*time.Second {
		t.Errorf("control timeout %s, want the default 5s", got)
	}
	for path, want := range map[string]string{
		"checkpoint.interval": "flag --checkpoint-interval", "kafka.prefetch": "environment WEIR__KAFKA__PREFETCH",
		"kafka.brokers": "file p.yaml:4", "kafka.dial_timeout": "default", "kafka.sasl.password": "file p.yaml:5",
	} {
		if got := c.origins[path].String(); got != want {
			t.Errorf("origin of %s is %q, want %q", path, got, want)
		}
	}
}

// faults returns what is wrong with a file.
func faults(t *testing.T, text string, args ...string) []Fault {
	t.Helper()
	fs := pflag.NewFlagSet("weir", pflag.ContinueOnError)
	AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	_, err := Parse("p.yaml", []byte(text), fs)
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("error %v, want faults", err)
	}
	return invalid.Faults
}

func TestFaultsOfEnvironmentAndFlags(t *testing.T) {
	t.Setenv("WEIR__KAFKA__PREFETCH", "much")
	t.Setenv("WEIR__KAFKA__BROKRS", "x:1")
	var got []string
	for _, f := range faults(t, small, "--log-level=loud") {
		got = append(got, f.String())
	}
	want := []string{
		"environment: WEIR__KAFKA__BROKRS: unknown variable, did you mean WEIR__KAFKA__BROKERS?",
		`environment WEIR__KAFKA__PREFETCH: kafka.prefetch: "much" is no size, expected one such as 64MiB`,
		`flag --log-level: log.level: "loud" is not known (expected debug, info, warn, error)`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestListFromEnvironment(t *testing.T) {
	t.Setenv("WEIR__KAFKA__BROKERS", "a:1, b:2")
	if c := parse(t, small); !slices.Equal(c.Kafka.Brokers, []string{"a:1", "b:2"}) {
		t.Errorf("brokers %q, want two", c.Kafka.Brokers)
	}
}

func TestSecretFromFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inFile := strings.Replace(small, "password: hidden", "password_file: "+file, 1)
	if c := parse(t, inFile); c.Kafka.SASL.Password != "from a file" || c.Origin("kafka.sasl.password").Layer != "file" {
		t.Errorf("password %q from %v", c.Kafka.SASL.Password, c.Origin("kafka.sasl.password"))
	}
	t.Setenv("WEIR__KAFKA__SASL__PASSWORD_FILE", file)
	c := parse(t, strings.Replace(small, ", password: hidden", "", 1))
	if c.Kafka.SASL.Password != "from a file" || c.Origin("kafka.sasl.password").Layer != "environment" {
		t.Errorf("password %q from %v", c.Kafka.SASL.Password, c.Origin("kafka.sasl.password"))
	}
	for _, s := range c.Settings() {
		if strings.Contains(s.Value, "from a file") {
			t.Errorf("%s shows the secret", s.Key)
		}
	}
}

func TestVariables(t *testing.T) {
	t.Setenv("WEIR_TEST_TOPIC", "real")
	for text, want := range map[string]string{
		"${WEIR_TEST_TOPIC}": "real", "x-${WEIR_TEST_TOPIC:y}-z": "x-real-z", "${WEIR_TEST_UNSET:dflt}": "dflt",
		"${WEIR_TEST_UNSET:}": "", "$${WEIR_TEST_TOPIC}": "${WEIR_TEST_TOPIC}", "$5": "$5",
	} {
		if got, err := expand(text); err != nil || got != want {
			t.Errorf("expand(%s) = %q, %v, want %q", text, got, err, want)
		}
	}
	c := parse(t, strings.Replace(small, "topic: a", `topic: "${WEIR_TEST_TOPIC}"`, 1))
	if c.Spec.Sources[0].Topic != "real" {
		t.Errorf("topic %q, want the variable's", c.Spec.Sources[0].Topic)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{"64MiB": 64 << 20, "1 KiB": 1024, "900000": 900000, "1MB": 1000000, "2GiB": 2 << 30} {
		got, err := parseSize(text)
		if err != nil || got != want {
			t.Errorf("parseSize(%s) = %d, %v", text, got, err)
		}
		if back, err := parseSize(got.String()); err != nil || back != got {
			t.Errorf("%d is written as %s, which reads as %d, %v", got, got, back, err)
		}
	}
}

func TestNamesKeepTheirCase(t *testing.T) {
	c := parse(t, strings.NewReplacer("in:", "In:", "from: in", "from: In").Replace(small)+
		"operators:\n  Agg: {from: In, key: key, aggregate: {Count: count()}}\n")
	if c.Spec.Sources[0].Name != "In" || c.Spec.Operators[0].Aggregate[0].Name != "Count" {
		t.Errorf("names %q and %q", c.Spec.Sources[0].Name, c.Spec.Operators[0].Aggregate[0].Name)
	}
}
