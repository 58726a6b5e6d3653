//go:build integration

package txsink_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/kafkatest"
	"github.com/weirstream/weir/txsink"
)

func TestPreflightOnKafka(t *testing.T) {
	c := kafkatest.Start(t)
	acceptPreflight(t, c.Endpoint)
	t.Run("WhatIsThinIsWarnedOfAndATimeoutThatIsTooLongRefused", func(t *testing.T) {
		out := c.CreateTopic("out", 1)
		warnings, err := txsink.Preflight(t.Context(), openKnowing(t, c.Endpoint, c.Brokers()), txsink.PreflightOptions{
			Outputs: []string{out}, Ledger: out + "-ledger", TransactionTimeout: 48 * time.Hour, Transactional: true,
		})
		for _, want := range []string{"transaction.max.timeout.ms is 900000 (15m0s)", "kafka.transaction_timeout is 48h0m0s"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not told in: %v", want, err)
			}
		}
		all := strings.Join(warnings, "\n")
		for _, want := range []string{out + ", " + out + "-ledger", ": replication factor 1", "KAFKA-20734"} {
			if strings.Count(all, want) != 1 {
				t.Errorf("%q is not told once in:\n%s", want, all)
			}
		}
	})
}

func TestPreflightOnThreeNodes(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Nodes(3))
	acceptPreflight(t, c.Endpoint)
}
