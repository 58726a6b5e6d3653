package kafkatest

import (
	"testing"

	"github.com/weirstream/weir/tests/faultproxy"
)

// ProxiedCluster is a cluster with a fault proxy before each node. The Endpoint's own client, and the nodes among themselves,
// do not pass through them.
type ProxiedCluster struct {
	*Cluster
	// Proxies are those before nodes 1, 2, …; Proxy gives one by node.
	Proxies []*faultproxy.Proxy
}

// Proxied starts a cluster with a fault proxy before each node. The proxies end with the test.
func Proxied(t testing.TB, opts ...Option) *ProxiedCluster {
	t.Helper()
	c := &ProxiedCluster{Cluster: Start(t, append(opts, func(s *settings) {
		s.listeners = append(s.listeners, "FAULTY:PLAINTEXT:PROXY")
	})...)}
	behind := c.addresses("FAULTY")
	for i, at := range c.addresses("PROXY") {
		p, err := faultproxy.Listen(at, behind[i])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		c.Proxies = append(c.Proxies, p)
	}
	return c
}

// Proxy is the one before a node.
func (c *ProxiedCluster) Proxy(node int) *faultproxy.Proxy { return c.Proxies[node-1] }

// ProxyBrokers are the bootstrap addresses that lead through the proxies.
func (c *ProxiedCluster) ProxyBrokers() []string {
	var all []string
	for _, p := range c.Proxies {
		all = append(all, p.Addr())
	}
	return all
}

// Hits counts the faults that all proxies have made happen, by kind.
func (c *ProxiedCluster) Hits() map[faultproxy.Kind]int {
	all := make(map[faultproxy.Kind]int)
	for _, p := range c.Proxies {
		for kind, n := range p.Hits() {
			all[kind] += n
		}
	}
	return all
}
