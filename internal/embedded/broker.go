// Package embedded runs a Kafka broker inside the process, for trying things out: weir demo and weir dev. It speaks Kafka's
// protocol on a loopback port and keeps everything in memory. It is kinder than Kafka (transactions never time out, EndTxn
// completes at once), so what works here is a demonstration and not a proof.
package embedded

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

const (
	// partitionBytes bounds the memory of one partition: what is older than so many bytes is dropped.
	partitionBytes = 256 << 20
	// retentionEvery is how often old data is dropped.
	retentionEvery = 5 * time.Second
)

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	stop    chan struct{}
	stopped chan struct{}
}

// Start runs a broker without topics on a free loopback port.
func Start() (*Broker, error) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ClusterID("embedded"))
	if err != nil {
		return nil, fmt.Errorf("starting the embedded broker: %w", err)
	}
	b := &Broker{cluster: c, stop: make(chan struct{}), stopped: make(chan struct{})}
	go b.retain()
	return b, nil
}

// Brokers returns the addresses to connect to.
func (b *Broker) Brokers() []string { return b.cluster.ListenAddrs() }

// CreateTopic creates a topic, whose memory is bounded. configs are Kafka's own topic settings and may be nil.
func (b *Broker) CreateTopic(name string, partitions int32, configs map[string]string) error {
	all := map[string]string{"retention.bytes": fmt.Sprint(partitionBytes)}
	for k, v := range configs {
		all[k] = v
	}
	if err := b.cluster.CreateTopic(name, partitions, all); err != nil {
		return fmt.Errorf("creating topic %s on the embedded broker: %w", name, err)
	}
	return nil
}

// retain drops old data now and then: the broker by itself does so once an hour.
func (b *Broker) retain() {
	defer close(b.stopped)
	tick := time.NewTicker(retentionEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.cluster.ApplyRetention()
		case <-b.stop:
			return
		}
	}
}

// Close stops the broker. All data is gone.
func (b *Broker) Close() {
	close(b.stop)
	<-b.stopped
	b.cluster.Close()
}
