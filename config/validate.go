package config

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weirstream/weir/topology"
)

func located(path, message string) topology.Fault {
	return topology.Fault{Path: path, Message: message}
}

// resourceName is what Kafka allows in the names of topics, and so in what is made from the job's name.
var resourceName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)

// validate checks what no single value can tell.
func (c *Config) validate(l *layers) {
	check := func(ok bool, path, message string, args ...any) {
		if !ok && !l.faulty[path] {
			l.fault(path, c.origins[path], fmt.Sprintf(message, args...))
		}
	}
	check(c.Job != "", "job", "is missing, expected the name of the job")
	check(c.Job == "" || resourceName.MatchString(c.Job), "job", "%q is no name for a job, expected letters, digits, dot, "+
		"dash and underscore", c.Job)
	for _, b := range c.Kafka.Brokers {
		check(IsAddress(b), "kafka.brokers", "%q is no address, expected host:port", b)
	}
	if c.Checkpoint.Guarantee == "exactly_once" {
		least := 2*c.Checkpoint.Interval + 8*time.Second
		check(c.Kafka.TransactionTimeout >= least, "kafka.transaction_timeout", "%s leaves no time for a recovery at a "+
			"checkpoint interval of %s, expected at least %s", c.Kafka.TransactionTimeout, c.Checkpoint.Interval, least)
	}
	check(c.Restart.Max >= c.Restart.Min, "restart.max_pause", "%s is less than restart.min_pause, expected at least %s",
		c.Restart.Max, c.Restart.Min)
	c.validatePlaces(check)
	c.validateCache(check)
	c.validateSecurity(check)
	c.validateTopics(check)
}

// IsAddress says whether a text is host:port, as a broker's address has to be.
func IsAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	number, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && host != "" && bad == nil && number > 0
}

type checker func(ok bool, path, message string, args ...any)

func (c *Config) validatePlaces(check checker) {
	dir, ok := strings.CutPrefix(c.Checkpoint.Store, "file://")
	check(ok && strings.HasPrefix(dir, "/"), "checkpoint.store", "%q is no store, expected file:///PATH", c.Checkpoint.Store)
	check(c.State.Backend == "memory" || c.State.Dir != "", "state.dir", "is empty, expected a folder")
	if c.HTTP.Listen != "off" {
		_, port, err := net.SplitHostPort(c.HTTP.Listen)
		_, bad := strconv.ParseUint(port, 10, 16)
		check(err == nil && bad == nil, "http.listen", "%q is no address, expected host:port or off", c.HTTP.Listen)
	}
}

// leastCache is what each keyed operator needs in each subtask.
const leastCache = 1 << 20

// validateCache checks that everyone who shares the cache gets enough of it.
func (c *Config) validateCache(check checker) {
	if c.Graph == nil {
		return
	}
	keyed := int64(0)
	for _, o := range c.Graph.Operators {
		if o.Keyed {
			keyed++
		}
	}
	subtasks := int64(c.Subtasks())
	check(int64(c.State.Cache) >= keyed*subtasks*leastCache, "state.cache", "%d bytes are too little for %d aggregates in "+
		"%d subtasks, expected at least %dMiB", c.State.Cache, keyed, subtasks, keyed*subtasks)
}

func (c *Config) validateSecurity(check checker) {
	sasl := c.Kafka.SASL
	check(c.Kafka.TLS.Cert != "" || c.Kafka.TLS.Key == "", "kafka.tls.cert", "is missing, expected the certificate of kafka.tls.key")
	check(c.Kafka.TLS.Key != "" || c.Kafka.TLS.Cert == "", "kafka.tls.key", "is missing, expected the key of kafka.tls.cert")
	c.Kafka.TLS.validateFiles(check)
	if sasl.Mechanism == "" {
		check(sasl.Username == "" && sasl.Password == "", "kafka.sasl.mechanism", "is missing, expected how to authenticate "+
			"with the user name and password")
		return
	}
	check(sasl.Username != "", "kafka.sasl.username", "is missing, %s needs it", sasl.Mechanism)
	check(sasl.Password != "", "kafka.sasl.password", "is missing, %s needs it, or password_file", sasl.Mechanism)
	check(sasl.TokenURL != "" || sasl.Mechanism != "OAUTHBEARER", "kafka.sasl.token_url", "is missing, OAUTHBEARER needs it")
}

// validateTopics checks the names of topics, and that the ledger is nobody else's.
func (c *Config) validateTopics(check checker) {
	topic := func(path, name string) {
		check(name == "" || resourceName.MatchString(name), path, "%q is no name of a topic, expected letters, digits, dot, "+
			"dash and underscore", name)
		check(name == "" || c.Job == "" || name != c.LedgerTopic(), path, "%s is the job's ledger, expected another topic", name)
	}
	for _, s := range c.Spec.Sources {
		topic("sources."+s.Name+".topic", s.Topic)
		topic("sources."+s.Name+".dead_letter", s.DeadLetter)
	}
	for _, o := range c.Spec.Operators {
		topic("operators."+o.Name+".dead_letter", o.DeadLetter)
	}
	for _, s := range c.Spec.Sinks {
		topic("sinks."+s.Name+".topic", s.Topic)
	}
	check(c.Kafka.Ledger == "" || resourceName.MatchString(c.Kafka.Ledger), "kafka.ledger", "%q is no name of a topic, "+
		"expected letters, digits, dot, dash and underscore", c.Kafka.Ledger)
}

// LedgerTopic is the topic of the witness records.
func (c *Config) LedgerTopic() string {
	if c.Kafka.Ledger != "" {
		return c.Kafka.Ledger
	}
	return c.Job + "-weir-ledger"
}

// ConsumerGroup is where ordinary tools see the job's offsets.
func (c *Config) ConsumerGroup() string {
	if c.Kafka.Group != "" {
		return c.Kafka.Group
	}
	return c.Job
}

// CheckpointDir is the folder of the checkpoint store.
func (c *Config) CheckpointDir() string { return strings.TrimPrefix(c.Checkpoint.Store, "file://") }
