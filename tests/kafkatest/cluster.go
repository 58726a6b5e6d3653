package kafkatest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Cluster is a running Apache Kafka of one or three nodes, each broker and controller. Nodes count from 1.
type Cluster struct {
	*Endpoint
	script script
}

// Option changes the cluster that Start gives.
type Option func(*settings)

type settings struct {
	nodes      int
	session    int
	properties []string
	listeners  []string
	private    bool
}

// Nodes sets the number of nodes, 1 or 3. The default is 1. With three, topics have three replicas, of which two must be in
// sync.
func Nodes(n int) Option { return func(s *settings) { s.nodes = n } }

// SessionTimeout sets the milliseconds after which a dead broker loses its partitions. The default is 3000.
func SessionTimeout(ms int) Option { return func(s *settings) { s.session = ms } }

// Properties adds broker properties, each "name=value".
func Properties(lines ...string) Option {
	return func(s *settings) { s.properties = append(s.properties, lines...) }
}

// Private gives the test a cluster of its own, which ends with the test.
func Private() Option { return func(s *settings) { s.private = true } }

// env is the environment of the script that makes a cluster with these settings.
func (s settings) env(dir string) []string {
	env := []string{
		"WEIR_BROKER_DIR=" + dir, "WEIR_BROKER_NODES=" + strconv.Itoa(s.nodes),
		"WEIR_BROKER_LISTENERS=" + strings.Join(s.listeners, " "),
		"WEIR_BROKER_PROPERTIES=" + strings.Join(s.properties, "\n"),
	}
	if s.session != 0 {
		env = append(env, "WEIR_BROKER_SESSION="+strconv.Itoa(s.session))
	}
	return env
}

func (s settings) plain() bool { return s.session == 0 && len(s.properties)+len(s.listeners) == 0 }

// Start returns a cluster with every node up and ready. Tests of one process that ask for the same options share it, so a
// test that must not meet what others left behind, or that leaves nodes unusable, asks for Private.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	s := settings{nodes: 1}
	for _, o := range opts {
		o(&s)
	}
	run, err := clusters.get(s)
	if err != nil {
		t.Fatalf("start Kafka: %v", err)
	}
	if s.private {
		t.Cleanup(func() { run.must(t, "wipe") })
	}
	brokers := strings.Split(strings.TrimSpace(run.must(t, "start")), ",")
	return &Cluster{Endpoint: newEndpoint(t, brokers), script: run}
}

// Kill ends a node with SIGKILL.
func (c *Cluster) Kill(node int) { c.t.Helper(); c.script.must(c.t, "kill", node) }

// Stop ends a node with SIGTERM and waits until it has handed over its partitions and is gone.
func (c *Cluster) Stop(node int) { c.t.Helper(); c.script.must(c.t, "stop", node) }

// Restart starts a node that is down, or wakes one that is paused, and waits until it serves requests.
func (c *Cluster) Restart(node int) { c.t.Helper(); c.script.must(c.t, "start", node) }

// Pause stops a node with SIGSTOP: it keeps its connections, accepts new ones and answers nothing.
func (c *Cluster) Pause(node int) { c.t.Helper(); c.script.must(c.t, "pause", node) }

// Resume wakes a paused node. It does not wait.
func (c *Cluster) Resume(node int) { c.t.Helper(); c.script.must(c.t, "resume", node) }

// Addr is the address of a node.
func (c *Cluster) Addr(node int) string { return c.brokers[node-1] }

// Nodes is the number of nodes.
func (c *Cluster) Nodes() int { return len(c.brokers) }

// addresses are those of a listener, by node.
func (c *Cluster) addresses(listener string) []string {
	c.t.Helper()
	var all []string
	for line := range strings.Lines(c.script.must(c.t, "ports")) {
		if f := strings.Fields(line); f[1] == listener {
			all = append(all, net.JoinHostPort("127.0.0.1", f[2]))
		}
	}
	return all
}

// Tool runs one of Kafka's command-line tools by its class and returns its standard output.
func (c *Cluster) Tool(class string, args ...string) string {
	c.t.Helper()
	a := []any{class}
	for _, s := range args {
		a = append(a, s)
	}
	return c.script.must(c.t, "tool", a...)
}

// script runs kafka.sh for one cluster.
type script struct{ env []string }

func (s script) command(name string, args ...any) *exec.Cmd {
	_, here, _, _ := runtime.Caller(0)
	cmd := exec.Command(filepath.Join(filepath.Dir(here), "..", "broker", "kafka.sh"), name)
	for _, a := range args {
		cmd.Args = append(cmd.Args, fmt.Sprint(a))
	}
	cmd.Env = append(os.Environ(), s.env...)
	return cmd
}

func (s script) must(t testing.TB, name string, args ...any) string {
	t.Helper()
	var errors strings.Builder
	cmd := s.command(name, args...)
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kafka.sh %s %v: %v\n%s", name, args, err, errors.String())
	}
	return string(out)
}

// clusters are those that the tests of this process share; `go test` has no other place for what outlives a test.
var clusters = registry{byKey: make(map[string]script)}

type registry struct {
	sync.Mutex
	byKey map[string]script
	// guarded are the ends of the pipes whose closing, with this process, wipes the clusters.
	guarded []io.Closer
}

// get returns the cluster with these settings, which may not run yet, and puts it under guard.
func (r *registry) get(s settings) (script, error) {
	if dir := os.Getenv("WEIR_TEST_CLUSTERS"); dir != "" && s.plain() && !s.private {
		return script{s.env(filepath.Join(dir, fmt.Sprintf("nodes-%d", s.nodes)))}, nil
	}
	r.Lock()
	defer r.Unlock()
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(s.env(""), "\x00"))))
	if run, ok := r.byKey[key]; ok && !s.private {
		return run, nil
	}
	dir, err := os.MkdirTemp("", "weir-kafka-")
	if err != nil {
		return script{}, err
	}
	run := script{s.env(dir)}
	if err := r.guard(run); err != nil {
		return script{}, err
	}
	if !s.private {
		r.byKey[key] = run
	}
	return run, nil
}

func (r *registry) guard(run script) error {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ours.Close()
	cmd := run.command("guard")
	cmd.Stdin = ours
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt at the terminal must not reach it before its work is done
	if err := cmd.Start(); err != nil {
		return err
	}
	r.guarded = append(r.guarded, theirs)
	return nil
}
