//go:build integration

package kafkatest

import "testing"

func TestEndpointOnKafka(t *testing.T) {
	acceptEndpoint(t, Start(t).Endpoint)
}

func TestNodesComeAndGo(t *testing.T) {
	c := Start(t, Nodes(3))
	topic := c.CreateTopic("nodes", 1)
	c.Produce(topic, Record{Value: []byte("before")})
	first := c.Leader(topic, 0)
	c.Kill(first)
	c.Produce(topic, Record{Value: []byte("between")})
	if now := c.Leader(topic, 0); now == first {
		t.Errorf("node %d leads although it is dead", now)
	}
	c.Restart(first)
	paused := c.Leader(topic, 0)
	c.Pause(paused)
	c.Produce(topic, Record{Value: []byte("after")})
	c.Resume(paused)
	wantValues(t, c.ReadCommitted(topic), "before", "between", "after")
}
