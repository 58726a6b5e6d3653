package statestore_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/statestore/storetest"
	"github.com/weirstream/weir/topology"
)

// TestMain keeps the random tests short; -rapid.checks=1000 makes them long.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

var _ topology.Table = (*statestore.Table)(nil)

func TestMemory(t *testing.T) { storetest.Run(t, statestore.Options{Backend: statestore.Memory}) }

func TestFS(t *testing.T) { storetest.Run(t, statestore.Options{Backend: statestore.FS}) }

func TestPebble(t *testing.T) {
	storetest.Run(t, statestore.Options{Backend: statestore.Pebble, CacheBytes: 1 << 20})
}

// TestPebbleChains goes through chains of bases only, of deltas only, of both, and of deltas that are folded.
func TestPebbleChains(t *testing.T) {
	storetest.Mix(t, statestore.Options{CacheBytes: 1 << 20, DeltaBytes: 1}, statestore.Options{DeltaBytes: 1 << 30},
		statestore.Options{CacheBytes: 1 << 20, DeltaBytes: 20 << 10}, statestore.Options{CacheBytes: 64 << 20, DeltaBytes: 20 << 10})
}

func TestMixedBackends(t *testing.T) {
	storetest.Mix(t, statestore.Options{Backend: statestore.Memory}, statestore.Options{Backend: statestore.FS},
		statestore.Options{Backend: statestore.Pebble})
}
