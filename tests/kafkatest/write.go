package kafkatest

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/record"
)

// ByKey as the partition of a Record sends it where Kafka's Java client would send its key.
const ByKey int32 = -1

// Record is a record that a test writes or has read. A written one goes to Partition; Offset is set on those read.
type Record struct {
	Partition  int32
	Offset     int64
	Key, Value []byte
	Headers    []record.Header
	// Time is the timestamp, now where it is zero.
	Time time.Time
}

func (r Record) outgoing(topic string, partitions int) *kgo.Record {
	out := &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Time}
	if r.Partition == ByKey {
		out.Partition = int32(record.Hash(r.Key) % uint32(partitions))
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: string(h.Key), Value: h.Value})
	}
	return out
}

func (e *Endpoint) write(c *kgo.Client, topic string, records []Record) {
	e.t.Helper()
	ctx, cancel := e.context()
	defer cancel()
	all, err := e.leaders(ctx, topic, 0)
	if err != nil {
		e.t.Fatalf("write to %s: %v", topic, err)
	}
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		out[i] = r.outgoing(topic, len(all))
	}
	if err := c.ProduceSync(ctx, out...).FirstErr(); err != nil {
		e.t.Fatalf("write to %s: %v", topic, err)
	}
}

// Produce writes records in order, idempotently, and returns when all are acknowledged by all in-sync replicas.
func (e *Endpoint) Produce(topic string, records ...Record) {
	e.t.Helper()
	e.write(e.client, topic, records)
}

// Txn is a transactional producer with an id of its own. Several of them, used in turns, interleave their transactions in a
// partition.
type Txn struct {
	e *Endpoint
	c *kgo.Client
}

// Transactional opens a producer; it is closed, and what it left open aborted, when the test ends. Opening it fences an older
// producer with the same id.
func (e *Endpoint) Transactional(id string) *Txn {
	e.t.Helper()
	c := e.open(kgo.TransactionalID(id), kgo.TransactionTimeout(Patience))
	e.t.Cleanup(c.Close)
	return &Txn{e: e, c: c}
}

// Begin opens a transaction.
func (x *Txn) Begin() *Txn {
	x.e.t.Helper()
	if err := x.c.BeginTransaction(); err != nil {
		x.e.t.Fatalf("begin transaction: %v", err)
	}
	return x
}

// Write writes records into the open transaction and returns when they are acknowledged.
func (x *Txn) Write(topic string, records ...Record) *Txn {
	x.e.t.Helper()
	x.e.write(x.c, topic, records)
	return x
}

// Commit commits the open transaction. Its markers may appear in the partitions only after it returns.
func (x *Txn) Commit() { x.e.t.Helper(); x.end(kgo.TryCommit) }

// Abort aborts the open transaction.
func (x *Txn) Abort() { x.e.t.Helper(); x.end(kgo.TryAbort) }

func (x *Txn) end(how kgo.TransactionEndTry) {
	x.e.t.Helper()
	ctx, cancel := x.e.context()
	defer cancel()
	if err := x.c.EndTransaction(ctx, how); err != nil {
		x.e.t.Fatalf("end transaction (commit %v): %v", how, err)
	}
}
