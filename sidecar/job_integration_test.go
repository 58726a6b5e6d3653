//go:build integration

package sidecar_test

import (
	"testing"

	"github.com/weirstream/weir/tests/kafkatest"
)

func TestJobOnKafka(t *testing.T) { acceptJob(t, kafkatest.Start(t).Endpoint) }

func TestFault35NewPartitionsOnKafka(t *testing.T) {
	acceptNewPartitions(t, kafkatest.Start(t).Endpoint)
}
