//go:build integration

package txsink_test

import (
	"testing"

	"github.com/weirstream/weir/tests/kafkatest"
)

func TestTransactionsOnKafka(t *testing.T) { acceptTransactions(t, kafkatest.Start(t).Endpoint) }

func TestTransactionsOnThreeNodes(t *testing.T) {
	acceptTransactions(t, kafkatest.Start(t, kafkatest.Nodes(3)).Endpoint)
}

func TestAdministrationOnKafka(t *testing.T) { acceptAdministration(t, kafkatest.Start(t).Endpoint) }

func TestGroupOnKafka(t *testing.T) { acceptGroup(t, kafkatest.Start(t).Endpoint) }
