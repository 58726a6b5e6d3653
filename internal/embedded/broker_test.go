package embedded

import (
	"testing"

	"github.com/IBM/sarama"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

func TestBrokerServesItsTopics(t *testing.T) {
	b, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.CreateTopic("views", 3, map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Fatal(err)
	}
	if err := b.CreateTopic("views", 3, nil); err == nil {
		t.Error("the same topic could be created twice")
	}
	conf := sarama.NewConfig()
	conf.Version = sarama.V3_6_0_0
	admin, err := sarama.NewClusterAdmin(b.Brokers(), conf)
	if err != nil {
		t.Fatal(err)
	}
	topics, err := admin.ListTopics()
	if err != nil {
		t.Fatal(err)
	}
	views := topics["views"]
	if views.NumPartitions != 3 || views.ConfigEntries["retention.bytes"] == nil || *views.ConfigEntries["cleanup.policy"] != "compact" {
		t.Errorf("topic %+v", views)
	}
	if err := admin.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRecordsGoInAndComeOut(t *testing.T) {
	b, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.CreateTopic("t", 2, nil); err != nil {
		t.Fatal(err)
	}
	if records, err := b.ReadCommitted(t.Context(), "t"); err != nil || records != nil {
		t.Errorf("empty topic: %v, error %v", records, err)
	}
	if b.Consumed("nobody", "t") {
		t.Error("nobody has been there yet")
	}
	in := []Record{{Partition: 1, Key: []byte("k"), Value: []byte("v")}, {Partition: 0, Value: []byte("w")}, {Partition: 1}}
	if err := b.Produce(t.Context(), "t", in); err != nil {
		t.Fatal(err)
	}
	out, err := b.ReadCommitted(t.Context(), "t")
	if err != nil || len(out) != 3 || string(out[0].Value) != "w" || string(out[1].Key) != "k" || out[2].Value != nil {
		t.Errorf("%v, error %v", out, err)
	}
	if b.Consumed("nobody", "t") {
		t.Error("nobody has consumed that")
	}
}
