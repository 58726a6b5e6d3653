package kafkatest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// FakeCluster is kfake, with its own means to inject faults.
type FakeCluster struct {
	*Endpoint
	*kfake.Cluster
}

// Fake starts kfake within the process, with three nodes unless an option says otherwise; it ends with the test.
func Fake(t testing.TB, opts ...kfake.Opt) *FakeCluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3)}, opts...)...)
	if err != nil {
		t.Fatalf("kfake: %v", err)
	}
	t.Cleanup(c.Close)
	return &FakeCluster{Endpoint: newEndpoint(t, c.ListenAddrs()), Cluster: c}
}
