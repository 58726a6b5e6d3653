package txsink

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
)

// createLedger creates the ledger where it is absent and waits until it can be written.
func (p *preflight) createLedger(ctx context.Context) {
	_, err := p.cluster.Topic(ctx, p.opts.Ledger)
	if !errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		return // there, or its error is told with the other topics
	}
	if err := p.create(ctx); err != nil && !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		p.fault("ledger topic %s does not exist and could not be created: %w; "+
			"create it yourself, with 1 partition and cleanup.policy=compact", p.opts.Ledger, err)
		return
	}
	if err := awaitTopic(ctx, p.cluster, p.opts.Ledger); err != nil {
		p.fault("ledger topic %s: %w", p.opts.Ledger, err)
	}
}

// ledgerSettings keep the ledger small: only the last witness of each job counts, so old segments are closed and compacted
// early.
func ledgerSettings() kafka.Settings {
	return kafka.Settings{
		"cleanup.policy":            "compact",
		"segment.ms":                strconv.FormatInt(time.Hour.Milliseconds(), 10),
		"segment.bytes":             strconv.Itoa(16 << 20),
		"min.cleanable.dirty.ratio": "0.1",
	}
}

// create leaves the replication factor to the brokers' default, and takes what the cluster allows where that is refused.
func (p *preflight) create(ctx context.Context) error {
	t := kafka.NewTopic{Name: p.opts.Ledger, Partitions: 1, Replicas: -1, Settings: ledgerSettings()}
	safe := kafka.NewTopic{Name: t.Name, Partitions: 1, Replicas: -1, Settings: maps.Clone(t.Settings)}
	safe.Settings[minISRSetting] = strconv.Itoa(goodMinISR)
	if p.defaultReplicas(ctx) >= goodReplicas {
		t = safe
	}
	err := p.cluster.CreateTopic(ctx, t)
	if !errors.Is(err, sarama.ErrInvalidReplicationFactor) {
		return err
	}
	if brokers := len(p.cluster.BrokerIDs()); brokers >= goodReplicas {
		t = safe
		t.Replicas = goodReplicas
	} else {
		t.Settings, t.Replicas = ledgerSettings(), int16(brokers)
	}
	return p.cluster.CreateTopic(ctx, t)
}

// defaultReplicas is the brokers' default replication factor, 0 where they do not tell.
func (p *preflight) defaultReplicas(ctx context.Context) int {
	for _, id := range p.cluster.BrokerIDs() {
		s, err := p.cluster.BrokerSettings(ctx, id, replicasSetting)
		if n, parseErr := strconv.Atoi(s[replicasSetting]); err == nil && parseErr == nil {
			return n
		}
	}
	return 0
}

// awaitTopic waits until every partition of a topic has a leader.
func awaitTopic(ctx context.Context, c *kafka.Cluster, topic string) error {
	return kafka.Repeat(ctx, "wait for its leader", func() error {
		if err := c.Refresh(ctx, topic); err != nil {
			return err
		}
		_, _, err := c.Leader(topic, 0)
		return err
	}, func(err error) bool { return !kafka.Permanent(err) })
}

// checkLedger refuses a topic that could not serve as ledger: with several partitions there is no order of the witnesses,
// and without compaction the last witness of a job that rests is deleted with its segment.
func (p *preflight) checkLedger(ctx context.Context) {
	for _, t := range p.present {
		if t.Name != p.opts.Ledger {
			continue
		}
		if n := len(t.Partitions); n != 1 {
			p.fault("ledger topic %s has %d partitions, must have 1; name another ledger, or delete it if no job uses it", t.Name, n)
		}
		all, err := p.cluster.TopicSettings(ctx, []string{t.Name}, "cleanup.policy")
		p.unread("the ledger's cleanup.policy was", err)
		if policy, told := all[t.Name]["cleanup.policy"]; told && !onlyCompacted(policy) {
			p.fault("ledger topic %s has cleanup.policy=%s, must have compact: the last witness would be deleted with its segment", t.Name, policy)
		}
	}
}

func onlyCompacted(policy string) bool { return strings.TrimSpace(policy) == "compact" }
