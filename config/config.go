// Package config reads the settings of an instance and its pipeline: file, environment and flags, over defaults.
//
// The Config struct is the one place where a setting is described. Its tags give the key, the default, the bounds and the
// meaning; reading, the reference in docs/configuration.md and the schema for editors all follow them. The sections
// sources, operators and sinks, whose names are the user's own, are described by the tables in pipeline.go.
package config

import (
	"runtime"
	"time"

	"github.com/weirstream/weir/topology"
)

// Config is everything that an instance is started with.
//
// The tags: key is the name within the section; default, min and max are written as in a file; enum lists the allowed
// words; secret values are never shown and can be read from the file that KEY_file names; flag is the name of the
// command line flag; doc ends up in the reference.
type Config struct {
	Job         string `key:"job" flag:"job" doc:"Name of the job: consumer group, transactional ids and ledger topic carry it. Letters, digits, dot, dash and underscore."`
	Instance    string `key:"instance" flag:"instance" doc:"Name of this process in logs and status; the host name where it is empty."`
	Parallelism int    `key:"parallelism" default:"0" min:"0" max:"1024" flag:"parallelism" doc:"Subtasks of this instance, each a goroutine that processes a share of the keys; 0 means one for each core."`

	ShutdownTimeout time.Duration `key:"shutdown_timeout" default:"25s" min:"1s" flag:"shutdown-timeout" doc:"Time for a stop in order: the last checkpoint is committed, or what is open is aborted. Keep it below what sends SIGKILL, Kubernetes' terminationGracePeriodSeconds of 30 s for instance."`

	Kafka      Kafka      `key:"kafka"`
	Checkpoint Checkpoint `key:"checkpoint"`
	State      State      `key:"state"`
	Exchange   Exchange   `key:"exchange"`
	Restart    Restart    `key:"restart"`
	HTTP       HTTP       `key:"http"`
	Log        Log        `key:"log"`

	// Spec is the pipeline as written, Graph the same checked and compiled.
	Spec  topology.Spec
	Graph *topology.Graph

	origins map[string]Origin
}

// Kafka is the connection to the cluster, and what is read and written at once.
type Kafka struct {
	Brokers            []string      `key:"brokers" default:"localhost:9092" flag:"brokers" doc:"Bootstrap brokers, host:port."`
	ClientID           string        `key:"client_id" default:"weir" doc:"What the brokers' logs and quotas see."`
	Group              string        `key:"group" doc:"Consumer group in which ordinary tools see the job's offsets; the job's name where it is empty."`
	Ledger             string        `key:"ledger" doc:"Topic of the witness records, compacted, one partition; JOB-weir-ledger where it is empty."`
	TransactionTimeout time.Duration `key:"transaction_timeout" default:"5m" min:"10s" max:"24h" doc:"Time after which the brokers abort a transaction that nobody ends. It must cover the checkpoint interval and a recovery, and not exceed the brokers' transaction.max.timeout.ms."`
	PartitionDiscovery time.Duration `key:"partition_discovery" default:"1m" min:"1s" doc:"Time between two looks for new partitions."`
	StartTimeout       time.Duration `key:"start_timeout" default:"10s" min:"1s" doc:"How long the start waits for brokers and topics before it gives up. Brokers may come up after the job."`
	DialTimeout        time.Duration `key:"dial_timeout" default:"2s" min:"50ms" doc:"Time for opening a connection."`
	ControlTimeout     time.Duration `key:"control_timeout" default:"5s" min:"100ms" doc:"Time for the answer to a control or transaction request; a stopped broker is noticed after it."`
	RequestTimeout     time.Duration `key:"request_timeout" default:"10s" min:"1s" doc:"Time for a produce request on the broker, and for a fetch on top of its wait."`
	FetchBytes         Size          `key:"fetch_bytes" default:"1MiB" min:"1KiB" max:"1GiB" doc:"What one fetch asks of a partition at most; a larger record batch comes all the same."`
	FetchWait          time.Duration `key:"fetch_wait" default:"100ms" min:"1ms" max:"30s" doc:"How long a broker may wait for data before it answers a fetch."`
	Prefetch           Size          `key:"prefetch" default:"8MiB" min:"64KiB" doc:"Memory for fetched batches that wait in one subtask; beyond it fetching pauses."`
	SinkBuffer         Size          `key:"sink_buffer" default:"16MiB" min:"64KiB" doc:"Memory for results of one subtask that are not acknowledged yet; beyond it processing pauses."`
	BatchRecords       int           `key:"batch_records" default:"2048" min:"1" max:"1000000" doc:"Most records in a batch that is written."`
	BatchBytes         Size          `key:"batch_bytes" default:"900000" min:"1KiB" max:"1GiB" doc:"Most bytes in a batch that is written, before compression. The topic's max.message.bytes must not be smaller."`
	Compression        string        `key:"compression" default:"none" enum:"none|gzip|snappy|lz4|zstd" doc:"Compression of what is written."`
	TLS                TLS           `key:"tls"`
	SASL               SASL          `key:"sasl"`
}

// TLS secures the connections to the brokers.
type TLS struct {
	Enable     bool   `key:"enable" default:"false" doc:"Connect by TLS. Any other key of this section switches it on as well."`
	CA         string `key:"ca" doc:"File with the authorities that sign the brokers' certificates, PEM; the system's where it is empty."`
	Cert       string `key:"cert" doc:"File with the client's certificate, PEM, for mutual TLS."`
	Key        string `key:"key" doc:"File with the client's private key, PEM."`
	ServerName string `key:"server_name" doc:"Name that the brokers' certificates must carry, where it is not the host's."`
}

// SASL authenticates at the brokers.
type SASL struct {
	Mechanism string   `key:"mechanism" enum:"|PLAIN|SCRAM-SHA-256|SCRAM-SHA-512|OAUTHBEARER" doc:"How to authenticate; empty means not at all."`
	Username  string   `key:"username" doc:"User, or client id of OAUTHBEARER."`
	Password  string   `key:"password" secret:"true" doc:"Password, or client secret of OAUTHBEARER."`
	TokenURL  string   `key:"token_url" doc:"Where OAUTHBEARER gets its tokens."`
	Scopes    []string `key:"scopes" doc:"Scopes that OAUTHBEARER asks for."`
}

// Checkpoint says how often, where to and with which guarantee.
type Checkpoint struct {
	Interval        time.Duration `key:"interval" default:"1s" min:"10ms" max:"1h" flag:"checkpoint-interval" doc:"Time between two checkpoints; results become visible to read_committed readers at each. The first one comes 100ms after the start, so that a short stop does not cost an interval."`
	Store           string        `key:"store" default:"file:///var/lib/weir/checkpoints" flag:"checkpoint-store" doc:"Folder of the checkpoints, file:///PATH."`
	Guarantee       string        `key:"guarantee" default:"exactly_once" enum:"exactly_once|at_least_once" doc:"exactly_once writes each checkpoint's results in one transaction; at_least_once writes without, visible at once and repeated after a failure."`
	Alignment       string        `key:"alignment" default:"aligned" enum:"aligned" doc:"How barriers meet at an operator of several inputs: aligned holds an input back until the others have caught up."`
	Keep            int           `key:"keep" default:"3" min:"2" max:"10000" doc:"Committed checkpoints that are kept."`
	MaxInFlight     int           `key:"max_in_flight" default:"3" min:"1" max:"16" doc:"Checkpoints between barrier and commit, of which exactly_once has at most one less than transactional_ids; with that many open the next barrier waits, and results go on into the open transaction."`
	TransactionalID int           `key:"transactional_ids" default:"3" min:"2" max:"64" doc:"Transactional ids that the job takes in turn, so that the next transaction is at hand before the last is settled; three for intervals below 100ms."`
}

// State says where keyed state lives.
type State struct {
	Backend string `key:"backend" default:"pebble" enum:"pebble|memory|fs" flag:"state-backend" doc:"pebble holds more than fits into memory; fs keeps tables in memory and checkpoints them as files; memory puts them into the checkpoint's manifest and is for a few MiB."`
	Dir     string `key:"dir" default:"/var/lib/weir/state" flag:"state-dir" doc:"Folder of the working state. It is emptied at each start: what counts is in the checkpoints."`
	Cache   Size   `key:"cache" default:"256MiB" min:"1MiB" doc:"Memory for the tables of this instance, beyond which pebble moves entries to disk. Each aggregate needs 1MiB in each subtask."`
}

// Exchange bounds what is on its way between subtasks.
type Exchange struct {
	Buffer Size `key:"buffer" default:"1MiB" min:"4KiB" doc:"Memory for the batches in one channel between two subtasks; beyond it the sender pauses."`
}

// Restart is the pause between two attempts of a job.
type Restart struct {
	Min time.Duration `key:"min_pause" default:"200ms" min:"10ms" doc:"Pause before another attempt after a failure; doubled each time."`
	Max time.Duration `key:"max_pause" default:"30s" min:"10ms" doc:"Longest pause between two attempts."`
}

// HTTP is the address of health, metrics and status.
type HTTP struct {
	Listen string `key:"listen" default:"127.0.0.1:8470" flag:"http-listen" doc:"Address of health, metrics and API, host:port; off switches them off."`
}

// Log says what is logged, and how.
type Log struct {
	Level  string `key:"level" default:"info" enum:"debug|info|warn|error" flag:"log-level" doc:"Least severity that is logged."`
	Format string `key:"format" default:"text" enum:"text|json" flag:"log-format" doc:"Form of a line."`
}

// Subtasks is the number of subtasks that Parallelism means.
func (c *Config) Subtasks() int {
	if c.Parallelism == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return c.Parallelism
}

// Secure says whether brokers are spoken to by TLS.
func (t TLS) Secure() bool {
	return t.Enable || t.CA != "" || t.Cert != "" || t.Key != "" || t.ServerName != ""
}
