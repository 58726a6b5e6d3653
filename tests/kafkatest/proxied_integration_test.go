//go:build integration

package kafkatest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/tests/faultproxy"
)

func TestWritesPassTheProxies(t *testing.T) {
	c := Proxied(t, Nodes(3))
	topic := c.CreateTopic("proxied", 1)
	through := newEndpoint(t, c.ProxyBrokers())
	through.Produce(topic, value(0, "one"))
	leader := c.Proxy(c.Leader(topic, 0))
	lost := leader.Inject(faultproxy.Fault{Kind: faultproxy.LoseAnswer, Requests: []kmsg.Key{kmsg.Produce}, Count: 1})
	through.Produce(topic, value(0, "two"))
	if lost.Hits() != 1 || c.Hits()[faultproxy.LoseAnswer] != 1 {
		t.Errorf("%d answers lost, %v in all; want 1", lost.Hits(), c.Hits())
	}
	wantValues(t, c.ReadCommitted(topic), "one", "two")
}
