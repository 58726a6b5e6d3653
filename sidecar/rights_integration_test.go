//go:build integration

package sidecar_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/tests/kafkatest"
)

// TestFault38ARightLostMidTransaction takes the right to write to an output away while the job runs as a user of few rights. The
// attempt ends and names the cure; when the right is back, the job goes on by itself, and nothing is lost or repeated.
func TestFault38ARightLostMidTransaction(t *testing.T) {
	s := kafkatest.Secure(t)
	b := newBench(t, s.Endpoint, statestore.Pebble)
	b.settings.Kafka = kafka.Options{Brokers: s.Login, SASL: kafka.SASL{Mechanism: "PLAIN", Username: kafkatest.Guest, Password: kafkatest.Password}}
	topic, write := kmsg.ACLResourceTypeTopic, kmsg.ACLOperationWrite
	for _, output := range []string{b.counts, b.copies, b.settings.Ledger} {
		s.Allow(kafkatest.Guest, topic, output, write)
	}
	for _, input := range []string{b.in, b.settings.Ledger} {
		s.Allow(kafkatest.Guest, topic, input, kmsg.ACLOperationRead)
	}
	s.Allow(kafkatest.Guest, topic, b.settings.Ledger, kmsg.ACLOperationCreate)
	s.Allow(kafkatest.Guest, kmsg.ACLResourceTypeGroup, b.settings.Group, kmsg.ACLOperationRead)
	s.Allow(kafkatest.Guest, kmsg.ACLResourceTypeTransactionalId, "*", write)
	b.produce(500)
	b.start()
	b.awaitCopies()

	lift := s.Deny(kafkatest.Guest, topic, b.counts, write)
	b.produce(500)
	s.Until("an attempt that ends for want of the right", func(context.Context) error {
		failures := b.job.Status().Failures
		if len(failures) == 0 || !strings.Contains(failures[0].Error, "grant this user") || !strings.Contains(failures[0].Error, b.counts) {
			return fmt.Errorf("failures %+v", failures)
		}
		return nil
	})
	lift()
	b.awaitCopies()
	b.stop()
	b.check()
}
