package sidecar

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/statestore"
)

// maxBatchBytes is what one compressed record batch may grow to. Brokers take batches of 1 MiB by default; larger ones are
// rare, and none is a gigabyte but by malice.
const maxBatchBytes = 128 << 20

// LimitBatches bounds the decompression of record batches in this process. A main calls it once, before New.
func LimitBatches() { kafka.LimitBatches(maxBatchBytes) }

// FromConfig turns a configuration into the settings of an instance.
func FromConfig(c *config.Config, version string, logger *slog.Logger) (Settings, error) {
	var codec kafka.Codec
	if err := codec.UnmarshalText([]byte(c.Kafka.Compression)); err != nil {
		return Settings{}, fmt.Errorf("kafka.compression: %w", err)
	}
	instance := c.Instance
	if instance == "" {
		var err error
		if instance, err = os.Hostname(); err != nil {
			return Settings{}, fmt.Errorf("instance: the host has no name, give one: %w", err)
		}
	}
	s := Settings{
		Job: c.Job, Instance: instance, Version: version, Kafka: connection(c),
		TransactionTimeout: c.Kafka.TransactionTimeout, Discovery: c.Kafka.PartitionDiscovery, StartTimeout: c.Kafka.StartTimeout,
		ShutdownTimeout: c.ShutdownTimeout,
		Group:           c.ConsumerGroup(), Ledger: c.LedgerTopic(), Graph: c.Graph, Subtasks: c.Subtasks(), Logger: logger,
		Checkpoint: Checkpointing{
			Interval: c.Checkpoint.Interval, Dir: c.CheckpointDir(), Keep: c.Checkpoint.Keep, InFlight: c.Checkpoint.MaxInFlight,
			Transactions: c.Checkpoint.TransactionalID,
		},
		State: State{Backend: statestore.Backend(c.State.Backend), Dir: c.State.Dir, Cache: int64(c.State.Cache)},
		Buffers: Buffers{
			Prefetch: int(c.Kafka.Prefetch), FetchBytes: int32(c.Kafka.FetchBytes), FetchWait: c.Kafka.FetchWait, Exchange: int(c.Exchange.Buffer),
			Sink: int(c.Kafka.SinkBuffer), BatchRecords: c.Kafka.BatchRecords, BatchBytes: int(c.Kafka.BatchBytes), Compression: codec,
		},
		Restart: Restart{Min: c.Restart.Min, Max: c.Restart.Max},
	}
	if c.Checkpoint.Guarantee == "at_least_once" {
		s.Checkpoint.Transactions = 0
	}
	return s, nil
}

func connection(c *config.Config) kafka.Options {
	return kafka.Options{
		Brokers: c.Kafka.Brokers, ClientID: c.Kafka.ClientID,
		TLS: kafka.TLS{
			Enable: c.Kafka.TLS.Secure(), CA: c.Kafka.TLS.CA, Cert: c.Kafka.TLS.Cert, Key: c.Kafka.TLS.Key, ServerName: c.Kafka.TLS.ServerName,
		},
		SASL: kafka.SASL{
			Mechanism: c.Kafka.SASL.Mechanism, Username: c.Kafka.SASL.Username, Password: c.Kafka.SASL.Password,
			TokenURL: c.Kafka.SASL.TokenURL, Scopes: c.Kafka.SASL.Scopes,
		},
		DialTimeout: c.Kafka.DialTimeout, ControlTimeout: c.Kafka.ControlTimeout, RequestTimeout: c.Kafka.RequestTimeout,
	}
}
