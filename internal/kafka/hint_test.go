package kafka

import (
	"testing"

	"github.com/IBM/sarama"
)

// notLeader is a response to a write to t-0 that names broker 7 as its leader.
func notLeader(epoch int32) *sarama.ProduceResponse {
	block := &sarama.ProduceResponseBlock{
		Err: sarama.ErrNotLeaderForPartition, CurrentLeader: &sarama.ProduceResponseCurrentLeader{LeaderID: 7, LeaderEpoch: epoch},
	}
	return &sarama.ProduceResponse{
		Blocks:        map[string]map[int32]*sarama.ProduceResponseBlock{"t": {0: block}},
		NodeEndpoints: []*sarama.ProduceResponseNodeEndpoint{{NodeID: 7, Host: "::1", Port: 99}},
	}
}

func TestANewerLeaderIsLearnt(t *testing.T) {
	_, c := open(t, 1, "t")
	before, err := c.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	was, epoch := before.Partitions[0].Leader, before.Partitions[0].LeaderEpoch
	tp := TopicPartition{Topic: "t"}
	if c.Learn(tp, notLeader(epoch)) {
		t.Error("a leader of the same epoch counts as news")
	}
	if !c.Learn(tp, notLeader(epoch+1)) {
		t.Fatal("a leader of a newer epoch is not taken")
	}
	if addr, e, err := c.Leader("t", 0); addr != "[::1]:99" || e != epoch+1 || err != nil {
		t.Errorf("leader %s of epoch %d, %v", addr, e, err)
	}
	if before.Partitions[0].Leader != was {
		t.Error("metadata that was handed out has changed")
	}
	if c.Learn(TopicPartition{Topic: "t", Partition: 1}, notLeader(epoch+9)) {
		t.Error("a partition without a hint learns something")
	}
}
