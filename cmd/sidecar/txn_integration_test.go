//go:build integration

package main

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/tests/faultproxy"
	"github.com/weirstream/weir/tests/kafkatest"
)

func TestTxnAbortOnKafka(t *testing.T) { acceptTxnAbort(t, kafkatest.Start(t).Endpoint) }

func TestTxnCommitOnKafka(t *testing.T) {
	k := kafkatest.Proxied(t)
	acceptTxnCommit(t, k.Endpoint, k.ProxyBrokers(), func() func() {
		held := k.Proxy(1).Inject(faultproxy.Fault{Kind: faultproxy.LoseRequest, Requests: []kmsg.Key{kmsg.EndTxn}})
		return held.Disarm
	})
}
