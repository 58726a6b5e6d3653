package kafkatest

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEndpointOnFake(t *testing.T) {
	acceptEndpoint(t, Fake(t).Endpoint)
}

// acceptEndpoint is what both kinds of Kafka must do for the tests.
func acceptEndpoint(t *testing.T, e *Endpoint) {
	t.Run("interleaved transactions", func(t *testing.T) { interleaved(t, e) })
	t.Run("fields of a record", func(t *testing.T) { fields(t, e) })
	t.Run("an empty topic", func(t *testing.T) {
		if got := e.ReadCommitted(e.CreateTopic("empty", 3)); len(got) != 0 {
			t.Errorf("read %d records of an empty topic", len(got))
		}
	})
	t.Run("topics end", func(t *testing.T) {
		topic := e.CreateTopic("gone", 1)
		e.DeleteTopic(topic)
		e.CreateExactTopic(topic, 2)
		if n := len(e.Offsets(topic)); n != 2 {
			t.Errorf("the topic created again has %d partitions, want 2", n)
		}
	})
}

func interleaved(t *testing.T, e *Endpoint) {
	topic := e.CreateTopic("interleaved", 2)
	id := "txn-" + topic
	a, b := e.Transactional(id+"a"), e.Transactional(id+"b")
	a.Begin().Write(topic, value(0, "a1"), value(1, "a1"))
	b.Begin().Write(topic, value(0, "b1"))
	e.Produce(topic, value(0, "plain"))
	if o := e.Offsets(topic)[0]; o.LastStable != 0 || o.High != 3 {
		t.Errorf("with two transactions open the offsets are %+v, want 0 stable of 3", o)
	}
	a.Commit()
	b.Write(topic, value(0, "b2")).Abort()
	a.Begin().Write(topic, value(1, "a2")).Abort()
	wantValues(t, e.ReadCommitted(topic), "a1", "plain", "a1")
	wantValues(t, e.ReadAll(topic), "a1", "b1", "plain", "b2", "a1", "a2")
}

func fields(t *testing.T, e *Endpoint) {
	topic := e.CreateTopic("fields", 5, "cleanup.policy=compact")
	sent := Record{Partition: ByKey, Key: []byte("page-17"), Headers: []record.Header{{Key: []byte("h"), Value: []byte("v")}}}
	e.Produce(topic, sent)
	got := e.ReadCommitted(topic)
	if len(got) != 1 {
		t.Fatalf("read %d records, want 1", len(got))
	}
	if want := int32(record.Hash(sent.Key) % 5); got[0].Partition != want {
		t.Errorf("key went to partition %d, want %d", got[0].Partition, want)
	}
	if r := got[0]; string(r.Key) != "page-17" || r.Value != nil || len(r.Headers) != 1 || string(r.Headers[0].Value) != "v" {
		t.Errorf("read %+v, wrote %+v", r, sent)
	}
}

func value(partition int32, s string) Record { return Record{Partition: partition, Value: []byte(s)} }

func wantValues(t *testing.T, got []Record, want ...string) {
	t.Helper()
	var values []string
	for _, r := range got {
		values = append(values, string(r.Value))
	}
	if !slices.Equal(values, want) {
		t.Errorf("read %q, want %q", values, want)
	}
}
