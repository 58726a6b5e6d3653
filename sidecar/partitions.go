package sidecar

import (
	"context"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/topology"
)

// Partitions asks the brokers of a configuration for the partition counts of topics, within its start timeout. A topic that
// does not exist is an error that names it.
func Partitions(ctx context.Context, c *config.Config, topics []string) (topology.Partitions, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Kafka.StartTimeout)
	defer cancel()
	cluster, err := kafka.Open(ctx, connection(c), topics...)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	partitions := topology.Partitions{}
	for _, name := range topics {
		t, err := cluster.Topic(ctx, name)
		if err != nil {
			return nil, err
		}
		partitions[name] = len(t.Partitions)
	}
	return partitions, nil
}
