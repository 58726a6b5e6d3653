package config

import (
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
