package statestore_test

import (
	"testing"

	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/statestore/storetest"
	"github.com/weirstream/weir/topology"
)

var _ topology.Table = (*statestore.Table)(nil)

func TestMemory(t *testing.T) { storetest.Run(t, statestore.Options{Backend: statestore.Memory}) }

func TestFS(t *testing.T) { storetest.Run(t, statestore.Options{Backend: statestore.FS}) }

func TestMixedBackends(t *testing.T) {
	storetest.Mix(t, statestore.Options{Backend: statestore.Memory}, statestore.Options{Backend: statestore.FS})
}
