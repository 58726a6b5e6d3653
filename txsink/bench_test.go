package txsink_test

import (
	"context"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/tests/kafkatest"
	"github.com/weirstream/weir/txsink"
)

const (
	benchBatch = 1000
	benchValue = 100
)

// BenchmarkWriter writes the same records through a Lane and, bare, through AsyncProduce of one connection, both without
// transactions, and prints how many times longer the lane takes for a record.
func BenchmarkWriter(b *testing.B) {
	e := kafkatest.Fake(b, kfake.NumBrokers(1)).Endpoint
	cluster, err := kafka.Open(b.Context(), kafka.Options{Brokers: e.Brokers()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cluster.Close)
	var bare, lane time.Duration
	b.Run("bare", func(b *testing.B) { bare = perRecord(b, bareProduce(b, e, cluster)) })
	b.Run("lane", func(b *testing.B) {
		lane = perRecord(b, laneWrite(b, e, cluster))
		b.ReportMetric(float64(lane)/float64(bare), "times-bare")
	})
}

// perRecord times produce, which writes one batch of benchBatch records; it is called with the last one to wait for all.
func perRecord(b *testing.B, produce func(last bool)) time.Duration {
	b.ReportAllocs()
	start := time.Now()
	batches := max(1, b.N/benchBatch)
	for i := range batches {
		produce(i == batches-1)
	}
	return time.Since(start) / time.Duration(batches*benchBatch)
}

func bareProduce(b *testing.B, e *kafkatest.Endpoint, cluster *kafka.Cluster) func(bool) {
	topic := e.CreateTopic("bare", 1)
	if err := cluster.Refresh(b.Context(), topic); err != nil {
		b.Fatal(err)
	}
	addr, _, err := cluster.Leader(topic, 0)
	if err != nil {
		b.Fatal(err)
	}
	conn, err := cluster.Conn(kafka.Produce, addr)
	if err != nil {
		b.Fatal(err)
	}
	value, window := make([]byte, benchValue), make(chan struct{}, 5)
	return func(last bool) {
		batch := &sarama.RecordBatch{Version: 2, LastOffsetDelta: benchBatch - 1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
		batch.FirstTimestamp = time.UnixMilli(1)
		batch.MaxTimestamp = batch.FirstTimestamp
		for i := range benchBatch {
			batch.Records = append(batch.Records, &sarama.Record{Value: value, OffsetDelta: int64(i)})
		}
		req := &sarama.ProduceRequest{Version: 10, RequiredAcks: sarama.WaitForAll, Timeout: 1000}
		req.AddBatch(topic, 0, batch)
		window <- struct{}{}
		if err := conn.AsyncProduce(req, func(*sarama.ProduceResponse, error) { <-window }); err != nil {
			b.Fatal(err)
		}
		for i := 0; last && i < cap(window); i++ {
			window <- struct{}{}
		}
	}
}

func laneWrite(b *testing.B, e *kafkatest.Endpoint, cluster *kafka.Cluster) func(bool) {
	topic := e.CreateTopic("lane", 1)
	if err := cluster.Refresh(b.Context(), topic); err != nil {
		b.Fatal(err)
	}
	wake, acked := make(chan struct{}, 1), make(chan struct{}, 1)
	w := txsink.NewWriter(cluster, txsink.WriterOptions{
		Outputs: []txsink.Output{{Topic: topic, Partitions: 1}}, Subtasks: 1, BatchRecords: benchBatch, Buffer: 1 << 20,
		Wake: func(int) {
			select {
			case wake <- struct{}{}:
			default:
			}
		},
		Acked: func(int, record.CheckpointID) { acked <- struct{}{} },
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.Run(ctx); ctx.Err() == nil {
			b.Error(err)
		}
	}()
	b.Cleanup(func() { stop(); <-ended })
	l := w.Lane(0)
	l.Begin(record.Identity{})
	records := make([]record.Record, benchBatch)
	for i := range records {
		records[i] = record.Record{Value: make([]byte, benchValue), Timestamp: 1}
	}
	return func(last bool) {
		for l.Full() {
			<-wake
		}
		if err := l.Write(0, records); err != nil {
			b.Fatal(err)
		}
		if last {
			l.Barrier(1, record.Identity{})
			<-acked
		}
	}
}
