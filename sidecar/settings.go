package sidecar

import (
	"log/slog"
	"time"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/topology"
)

// Settings are what an instance runs with.
type Settings struct {
	// Job names the job: its ledger, consumer group and transactional ids carry the name.
	Job string
	// Instance names this process in logs and the status.
	Instance string
	Version  string
	Kafka    kafka.Options
	// TransactionTimeout is the time after which the brokers abort a transaction that nobody ends.
	TransactionTimeout time.Duration
	// Discovery is the time between two looks for new partitions.
	Discovery time.Duration
	// StartTimeout bounds the wait for brokers and topics at start.
	StartTimeout time.Duration
	// ShutdownTimeout bounds a stop in order, from the signal to the end of Run.
	ShutdownTimeout time.Duration
	// AcceptLoss names the sources, topics and (as operators.NAME) states whose loss is accepted: what only an operator may decide, and has decided.
	AcceptLoss []string
	// MissingAfter is how long a topic may be gone; 0 means consumer.MissingAfter.
	MissingAfter time.Duration
	// TakeOver says that a start need not look whether another instance of the job is at work.
	TakeOver bool
	// Group is the consumer group that shows the job's offsets; Ledger the topic of the witness.
	Group, Ledger string

	Checkpoint Checkpointing
	State      State
	Buffers    Buffers
	// Subtasks is the number of goroutines that process, normally that of the cores.
	Subtasks int

	// Graph is the compiled pipeline.
	Graph *topology.Graph
	// Restart bounds the pause between two attempts.
	Restart Restart
	Logger  *slog.Logger
}

// Checkpointing says how often and where to.
type Checkpointing struct {
	Interval time.Duration
	// Dir is the folder of the checkpoint store.
	Dir string
	// Keep is the number of committed checkpoints that are kept.
	Keep int
	// InFlight is the most checkpoints between trigger and commit.
	InFlight int
	// Transactions is the number of transactional ids; 0 means at least once.
	Transactions int
}

// inFlight is the most checkpoints that can be in progress: each holds its transactional id until it is settled, and one more is
// written to.
func (c *Checkpointing) inFlight() int {
	if c.Transactions == 0 {
		return c.InFlight
	}
	return min(c.InFlight, c.Transactions-1)
}

// State says where keyed state lives.
type State struct {
	Backend statestore.Backend
	Dir     string
	// Cache is the memory for tables of the whole instance.
	Cache int64
}

// Buffers bound what waits in memory, in bytes.
type Buffers struct {
	// Prefetch is for fetched batches, Exchange for each channel between two subtasks, Sink for results not yet acknowledged;
	// Prefetch and Sink are for each subtask.
	Prefetch, Exchange, Sink int
	// FetchBytes is what one fetch asks of a partition, FetchWait how long the broker may wait for data.
	FetchBytes int32
	FetchWait  time.Duration
	// BatchRecords and BatchBytes bound a record batch that is written.
	BatchRecords, BatchBytes int
	Compression              kafka.Codec
}

// Restart is the pause before another attempt: from Min, doubled each time up to Max, and Min again after an attempt that
// committed something.
type Restart struct {
	Min, Max time.Duration
}

// ExactlyOnce says that results are written in transactions.
func (s *Settings) ExactlyOnce() bool { return s.Checkpoint.Transactions > 0 }

// topics lists every topic that the job touches.
func (s *Settings) topics() []string {
	inputs, outputs := s.Graph.Topics()
	topics := append(inputs, outputs...)
	if s.ExactlyOnce() {
		topics = append(topics, s.Ledger)
	}
	return topics
}
