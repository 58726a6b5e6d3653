//go:build integration

package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/tests/kafkatest"
)

// script is what one case has to work with: a topic and an id of its own on one kind of Kafka. Requests have the versions that
// sarama v1.61.1 speaks to a broker of 4.0 or later: EndTxn 3, AddPartitionsToTxn 3, InitProducerId 4, Produce 10.
type script struct {
	t *testing.T
	*kafkatest.Endpoint
	client sarama.Client
	topic  string
	group  string
	id     string
}

// identity is what writers of a transaction share.
type identity struct {
	id    string
	pid   int64
	epoch int16
}

// none asks for a new identity unconditionally.
var none = identity{pid: -1, epoch: -1}

func newScript(t *testing.T, e *kafkatest.Endpoint, partitions int) *script {
	s := &script{t: t, Endpoint: e, topic: e.CreateTopic("conformance", partitions)}
	s.group, s.id = "group-"+s.topic, "id-"+s.topic
	s.client = s.connect()
	return s
}

func (s *script) connect() sarama.Client {
	conf := sarama.NewConfig()
	conf.Version = sarama.V4_0_0_0
	conf.Metadata.Retry.Max, conf.Metadata.Retry.Backoff = 20, 100*time.Millisecond
	client, err := sarama.NewClient(s.Brokers(), conf)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { client.Close() })
	return client
}

// code is the number of an answer's error, the first of those given that is one.
func (s *script) code(err error, inside ...sarama.KError) int16 {
	s.t.Helper()
	var code sarama.KError
	if err != nil && !errors.As(err, &code) {
		s.t.Fatalf("request: %v", err)
	}
	return int16(cmp.Or(append([]sarama.KError{code}, inside...)...))
}

func (s *script) coordinator(id string) *sarama.Broker {
	s.t.Helper()
	b, err := s.client.TransactionCoordinator(id)
	if err != nil {
		s.t.Fatalf("coordinator of %s: %v", id, err)
	}
	return b
}

// initProducer asks once for an identity: unconditionally where old is none, else on condition that old is the current one.
func (s *script) initProducer(id string, old identity, timeout time.Duration) (identity, int16) {
	s.t.Helper()
	r, err := s.coordinator(id).InitProducerID(&sarama.InitProducerIDRequest{
		Version: 4, TransactionalID: &id, TransactionTimeout: timeout, ProducerID: old.pid, ProducerEpoch: old.epoch,
	})
	if err != nil {
		return none, s.code(err)
	}
	return identity{id, r.ProducerID, r.ProducerEpoch}, s.code(nil, r.Err)
}

// fence asks for an identity unconditionally until it gets one, and counts the answers of 51.
func (s *script) fence(id string) (got identity, concurrent int) {
	s.t.Helper()
	s.Until("identity of "+id, s.retry(func() (code int16) {
		got, code = s.initProducer(id, none, time.Minute)
		if code == 51 {
			concurrent++
		}
		return code
	}))
	return got, concurrent
}

// retry calls try until it answers 0, and lets the answers pass that ask for patience.
func (s *script) retry(try func() int16) func(context.Context) error {
	return func(context.Context) error {
		switch code := try(); code {
		case 0:
			return nil
		case 14, 15, 16, 51:
			return sarama.KError(code)
		default:
			s.t.Fatalf("answer %d: %v", code, sarama.KError(code))
			return nil
		}
	}
}

// patient calls try until its answer is not 51, and returns that.
func (s *script) patient(try func() int16) (code int16) {
	s.t.Helper()
	s.Until("answer other than 51", func(context.Context) error {
		if code = try(); code == 51 {
			return sarama.KError(code)
		}
		return nil
	})
	return code
}

// begin returns an identity with an open transaction on all partitions of the topic.
func (s *script) begin(id string) identity {
	s.t.Helper()
	i, _ := s.fence(id)
	s.add(i)
	return i
}

// add opens a transaction on all partitions of the topic.
func (s *script) add(i identity) {
	s.t.Helper()
	s.Until("partitions of "+i.id, s.retry(func() int16 { return s.tryAdd(i) }))
}

func (s *script) tryAdd(i identity) int16 {
	s.t.Helper()
	partitions, err := s.client.Partitions(s.topic)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := s.coordinator(i.id).AddPartitionsToTxn(&sarama.AddPartitionsToTxnRequest{
		Version: 3, TransactionalID: i.id, ProducerID: i.pid, ProducerEpoch: i.epoch,
		TopicPartitions: map[string][]int32{s.topic: partitions},
	})
	if err != nil {
		return s.code(err)
	}
	return s.code(nil, r.Errors[s.topic][0].Err)
}

// write sends one record once, and answers with the code.
func (s *script) write(i identity, partition int32, sequence int32, value string) int16 {
	s.t.Helper()
	return s.writeFrom(s.client, i, partition, sequence, value)
}

func (s *script) writeFrom(client sarama.Client, i identity, partition, sequence int32, value string) int16 {
	s.t.Helper()
	leader, err := client.Leader(s.topic, partition)
	if err != nil {
		s.t.Fatal(err)
	}
	now := time.Now()
	r := &sarama.ProduceRequest{
		Version: 10, RequiredAcks: sarama.WaitForAll, Timeout: 10000, TransactionalID: &i.id,
	}
	r.AddBatch(s.topic, partition, &sarama.RecordBatch{
		Version: 2, IsTransactional: true, ProducerID: i.pid, ProducerEpoch: i.epoch, FirstSequence: sequence,
		FirstTimestamp: now, MaxTimestamp: now, Records: []*sarama.Record{{Value: []byte(value)}},
	})
	answer, err := leader.Produce(r)
	if err != nil {
		return s.code(err)
	}
	return s.code(nil, answer.GetBlock(s.topic, partition).Err)
}

// must writes until the answer is 0.
func (s *script) must(i identity, partition, sequence int32, value string) {
	s.t.Helper()
	s.Until("write", func(context.Context) error {
		switch code := s.write(i, partition, sequence, value); code {
		case 0:
			return nil
		case 3, 6, 19:
			return sarama.KError(code)
		default:
			s.t.Fatalf("write: %v", sarama.KError(code))
			return nil
		}
	})
}

func (s *script) end(i identity, commit bool) int16 {
	s.t.Helper()
	r, err := s.coordinator(i.id).EndTxn(&sarama.EndTxnRequest{
		Version: 3, TransactionalID: i.id, ProducerID: i.pid, ProducerEpoch: i.epoch, TransactionResult: commit,
	})
	if err != nil {
		return s.code(err)
	}
	return s.code(nil, r.Err)
}

// settle ends a transaction for certain.
func (s *script) settle(i identity, commit bool) {
	s.t.Helper()
	s.Until("end of transaction", s.retry(func() int16 { return s.end(i, commit) }))
}

func (s *script) groupCoordinator() *sarama.Broker {
	s.t.Helper()
	b, err := s.client.Coordinator(s.group)
	if err != nil {
		s.t.Fatalf("coordinator of %s: %v", s.group, err)
	}
	return b
}

func (s *script) addOffsets(i identity) {
	s.t.Helper()
	s.Until("offsets of "+i.id, s.retry(func() int16 {
		r, err := s.coordinator(i.id).AddOffsetsToTxn(&sarama.AddOffsetsToTxnRequest{
			Version: 3, TransactionalID: i.id, ProducerID: i.pid, ProducerEpoch: i.epoch, GroupID: s.group,
		})
		if err != nil {
			return s.code(err)
		}
		return s.code(nil, r.Err)
	}))
}

// commitOffset sends an offset of partition 0 as the given member of the group.
func (s *script) commitOffset(i identity, member string) (code int16) {
	s.t.Helper()
	s.Until("offset", func(context.Context) error {
		r, err := s.groupCoordinator().TxnOffsetCommit(&sarama.TxnOffsetCommitRequest{
			Version: 3, TransactionalID: i.id, GroupID: s.group, ProducerID: i.pid, ProducerEpoch: i.epoch,
			GenerationID: -1, MemberID: member,
			Topics: map[string][]*sarama.PartitionOffsetMetadata{s.topic: {{Partition: 0, Offset: 1, LeaderEpoch: -1}}},
		})
		if err != nil {
			code = s.code(err)
		} else {
			code = s.code(nil, r.Topics[s.topic][0].Err)
		}
		if code == 14 || code == 15 || code == 16 || code == 51 {
			return sarama.KError(code)
		}
		return nil
	})
	return code
}

// offset fetches the stable offset of partition 0.
func (s *script) offset() string {
	s.t.Helper()
	r := sarama.NewOffsetFetchRequest(sarama.V4_0_0_0, s.group, map[string][]int32{s.topic: {0}})
	r.RequireStable = true
	answer, err := s.groupCoordinator().FetchOffset(r)
	if err != nil {
		return "error " + strconv.Itoa(int(s.code(err)))
	}
	if e := answer.GroupError(); e != sarama.ErrNoError {
		return "group error " + strconv.Itoa(int(e))
	}
	b := answer.GetGroupBlock(s.group, s.topic, 0)
	if b == nil {
		return "no answer"
	}
	if b.Err != sarama.ErrNoError {
		return "error " + strconv.Itoa(int(b.Err))
	}
	return fmt.Sprint(b.Offset)
}

func (s *script) groupState() string {
	s.t.Helper()
	r, err := s.groupCoordinator().DescribeGroups(&sarama.DescribeGroupsRequest{Groups: []string{s.group}})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Groups[0].State
}
