package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/faultproxy"
)

const waitsForBroker = "no broker is there yet"

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestASidecarMayStartBeforeItsBroker: it waits, says so, and goes on by itself.
func TestASidecarMayStartBeforeItsBroker(t *testing.T) {
	r := newRig(t)
	broker := closedPort(t)
	r.produce(10)
	r.start("run", r.file(r.kafka.Brokers()[0], broker))
	r.kafka.Until("the job waits for a broker", func(context.Context) error {
		if !strings.Contains(r.logged(), waitsForBroker) {
			return errors.New(r.logged())
		}
		return nil
	})
	proxy, err := faultproxy.Listen(broker, r.kafka.Brokers()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	r.awaitCopies()
	if err := r.instance.Stop(20 * time.Second); err != nil {
		t.Error(err)
	}
}

// TestNoBrokerAtAll ends with one line once kafka.start_timeout is over.
func TestNoBrokerAtAll(t *testing.T) {
	r := newRig(t)
	broker := closedPort(t)
	r.start("run", r.file(r.kafka.Brokers()[0], broker, "transaction_timeout: 5m", "start_timeout: 1s"))
	status := r.ended(20 * time.Second)
	log := strings.TrimSpace(r.logged())
	last := log[strings.LastIndex(log, "\n")+1:]
	if status != exitFailed || !strings.Contains(last, broker) || !strings.Contains(last, "kafka.brokers") || strings.Count(log, waitsForBroker) != 1 {
		t.Errorf("status %d\n%s", status, log)
	}
}
