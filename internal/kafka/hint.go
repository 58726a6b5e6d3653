package kafka

import (
	"net"
	"slices"
	"strconv"

	"github.com/IBM/sarama"
)

// Learn takes the new leader that a produce response names beside NOT_LEADER_OR_FOLLOWER (KIP-951), and says whether it is
// news. What an older leader epoch tells is ignored.
func (c *Cluster) Learn(tp TopicPartition, resp *sarama.ProduceResponse) bool {
	block := resp.GetBlock(tp.Topic, tp.Partition)
	if block == nil || block.CurrentLeader == nil {
		return false
	}
	hint := block.CurrentLeader
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range resp.NodeEndpoints {
		if n.NodeID == hint.LeaderID {
			c.mu.brokers[n.NodeID] = net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port)))
		}
	}
	old := c.mu.topics[tp.Topic]
	if _, known := c.mu.brokers[hint.LeaderID]; !known || old == nil || int(tp.Partition) >= len(old.Partitions) {
		return false
	}
	if old.Partitions[tp.Partition].LeaderEpoch >= hint.LeaderEpoch {
		return false
	}
	topic := *old // others may hold the old one
	topic.Partitions = slices.Clone(old.Partitions)
	topic.Partitions[tp.Partition].Leader, topic.Partitions[tp.Partition].LeaderEpoch = hint.LeaderID, hint.LeaderEpoch
	c.mu.topics[tp.Topic] = &topic
	return true
}
