//go:build integration

package consumer_test

import (
	"testing"

	"github.com/weirstream/weir/tests/kafkatest"
)

func TestConsumerOnKafka(t *testing.T) { acceptConsumer(t, kafkatest.Start(t).Endpoint) }

func TestConsumerOnThreeNodes(t *testing.T) {
	acceptConsumer(t, kafkatest.Start(t, kafkatest.Nodes(3)).Endpoint)
}

func TestFault20TheConsumerFollowsLeadersThatDie(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Nodes(3), kafkatest.Private())
	topic := c.CreateTopic("in", 3)
	r := read(t, c.Endpoint, topic)
	for n := range int32(3) {
		for p := range int32(3) {
			c.Produce(topic, kafkatest.Record{Partition: p, Value: []byte{byte('a' + n)}})
		}
		leader := c.Leader(topic, n)
		c.Kill(leader)
		r.until(c.Offsets(topic))
		c.Restart(leader)
		c.InSync()
	}
	for p := range int32(3) {
		r.want(p, "a", "b", "c")
	}
}
