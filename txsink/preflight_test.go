package txsink_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/kafkatest"
	"github.com/weirstream/weir/txsink"
)

// acceptPreflight is what must hold on every broker.
func acceptPreflight(t *testing.T, e *kafkatest.Endpoint) {
	in, out := e.CreateTopic("in", 2), e.CreateTopic("out", 3)
	options := func(ledger string) txsink.PreflightOptions {
		return txsink.PreflightOptions{
			Inputs: []string{in}, Outputs: []string{out}, Ledger: ledger, TransactionTimeout: time.Minute, Transactional: true,
		}
	}
	t.Run("ANewLedgerIsCreated", func(t *testing.T) {
		ledger := out + "-ledger"
		warnings, err := txsink.Preflight(t.Context(), openKnowing(t, e, e.Brokers()), options(ledger))
		if err != nil {
			t.Fatal(err)
		}
		t.Log(strings.Join(warnings, "\n"))
		e.Produce(ledger, kafkatest.Record{Key: []byte("k")})
		again := openKnowing(t, e, e.Brokers())
		if _, err := txsink.Preflight(t.Context(), again, options(ledger)); err != nil {
			t.Fatal("with the ledger there:", err)
		}
		s, err := again.TopicSettings(t.Context(), []string{ledger}, "cleanup.policy", "segment.bytes")
		if err != nil || s[ledger]["cleanup.policy"] != "compact" || s[ledger]["segment.bytes"] != "16777216" {
			t.Errorf("settings of the ledger: %v, %v", s, err)
		}
	})
	t.Run("AllFaultsAreToldAtOnce", func(t *testing.T) {
		o := options(e.CreateTopic("wide", 2))
		o.Inputs, o.Outputs = append(o.Inputs, "absent-in"), append(o.Outputs, "absent-out")
		_, err := txsink.Preflight(t.Context(), openKnowing(t, e, e.Brokers()), o)
		if err == nil {
			t.Fatal("no fault")
		}
		for _, want := range []string{"input topic absent-in", "output topic absent-out", "has 2 partitions", "cleanup.policy=delete"} {
			if strings.Count(err.Error(), want) != 1 {
				t.Errorf("%q is not told once in:\n%v", want, err)
			}
		}
	})
	t.Run("ThinTopicsAreToldOfInOneLine", func(t *testing.T) {
		o := options(out + "-none")
		o.Outputs = []string{e.CreateTopic("thin", 1, "replication=1"), e.CreateTopic("thin", 2, "replication=1")}
		o.Transactional = false
		warnings, err := txsink.Preflight(t.Context(), openKnowing(t, e, e.Brokers()), o)
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "topics "+strings.Join(o.Outputs, ", ")+": replication factor 1") {
			t.Errorf("%q, %v", warnings, err)
		}
	})
	t.Run("WithoutTransactionsThereIsNoLedger", func(t *testing.T) {
		o := options(out + "-none")
		o.Transactional = false
		c := openKnowing(t, e, e.Brokers())
		if _, err := txsink.Preflight(t.Context(), c, o); err != nil {
			t.Error(err)
		}
		if _, err := c.Topic(t.Context(), o.Ledger); err == nil {
			t.Error("a ledger was created")
		}
	})
}

func TestPreflightOnFake(t *testing.T) { acceptPreflight(t, kafkatest.Fake(t).Endpoint) }
