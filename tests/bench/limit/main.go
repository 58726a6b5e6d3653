// Command limit measures what sarama's wire layer costs by itself: it fetches a topic and writes its records to another,
// with no transaction, state or routing in between, or counts them by key in a bare hash table. The benchmarks hold weir
// against it. It also fills topics.
//
//	limit load  -brokers ADDR -topic IN -records N -keys K    write records of 8-byte keys and 100-byte values
//	limit copy  -brokers ADDR -topic IN -to OUT -records N     the bare loop; prints µs of CPU per record
//	limit count -brokers ADDR -topic IN -to OUT -records N     the bare loop with a count
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/record"
)

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "limit:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: limit load|copy|count …")
	}
	var l loop
	fs := flag.NewFlagSet(args[1], flag.ContinueOnError)
	fs.StringVar(&l.broker, "brokers", "", "the one broker")
	fs.StringVar(&l.topic, "topic", "", "topic to fill or to read")
	fs.StringVar(&l.to, "to", "", "topic to write")
	fs.IntVar(&l.records, "records", 0, "records")
	fs.IntVar(&l.keys, "keys", 1_000_000, "different keys that load draws from")
	if err := fs.Parse(args[2:]); err != nil {
		return err
	}
	if err := l.open(); err != nil {
		return err
	}
	switch args[1] {
	case "load":
		return l.load()
	case "copy":
		return l.run(nil)
	case "count":
		return l.run(newTable(1 << 22))
	}
	return fmt.Errorf("unknown command %s", args[1])
}

const (
	batchRecords = 2048
	window       = 5
	fetchBytes   = 1 << 20
)

// loop is one connection to read with and one to write with.
type loop struct {
	broker, topic, to string
	records, keys     int
	parts             int
	fetch, send       *sarama.Broker
	inFlight          chan struct{}
	sent              sync.WaitGroup
	pending           [][]*sarama.Record
	// failed is the first answer that was no success.
	failed atomic.Pointer[error]
}

func (l *loop) open() error {
	cfg := sarama.NewConfig()
	cfg.Version, cfg.Net.MaxOpenRequests = sarama.V4_0_0_0, window
	c, err := sarama.NewClient([]string{l.broker}, cfg)
	if err != nil {
		return err
	}
	parts, err := c.Partitions(l.topic)
	if err != nil {
		return err
	}
	l.parts, l.pending = len(parts), make([][]*sarama.Record, len(parts))
	l.inFlight = make(chan struct{}, window)
	l.fetch, l.send = sarama.NewBroker(l.broker), sarama.NewBroker(l.broker)
	if err := l.fetch.Open(cfg); err != nil {
		return err
	}
	return l.send.Open(cfg)
}

// load fills the topic with records whose key, murmur2-partitioned, is a big-endian number.
func (l *loop) load() error {
	random := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 100)
	for i := range value {
		value[i] = byte('a' + i%26)
	}
	for range l.records {
		key := binary.BigEndian.AppendUint64(nil, random.Uint64N(uint64(l.keys)))
		p := int(record.Hash(key)) % l.parts
		l.pending[p] = append(l.pending[p], &sarama.Record{Key: key, Value: value})
		if len(l.pending[p]) == batchRecords {
			if _, err := l.flush(l.topic, batchRecords); err != nil {
				return err
			}
		}
	}
	return l.finish(l.topic)
}

// finish writes what is left and waits for the answers.
func (l *loop) finish(topic string) error {
	for {
		more, err := l.flush(topic, 1)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	l.sent.Wait()
	return l.failure()
}

func (l *loop) failure() error {
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// flush writes, in one request, a batch of each partition that has gathered enough.
func (l *loop) flush(topic string, least int) (more bool, err error) {
	req := &sarama.ProduceRequest{Version: 8, RequiredAcks: sarama.WaitForAll, Timeout: 10_000}
	for p, rs := range l.pending {
		if len(rs) < least {
			continue
		}
		more = true
		rs = rs[:min(len(rs), 2*batchRecords)]
		req.AddBatch(topic, int32(p), batch(rs))
		l.pending[p] = l.pending[p][len(rs):]
	}
	if !more {
		return false, l.failure()
	}
	l.inFlight <- struct{}{}
	l.sent.Add(1)
	return true, l.send.AsyncProduce(req, l.answered)
}

func batch(rs []*sarama.Record) *sarama.RecordBatch {
	now := time.Now()
	for i, r := range rs {
		r.OffsetDelta, r.TimestampDelta = int64(i), 0
	}
	return &sarama.RecordBatch{
		Version: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, FirstTimestamp: now, MaxTimestamp: now,
		LastOffsetDelta: int32(len(rs) - 1), Records: rs,
	}
}

func (l *loop) answered(resp *sarama.ProduceResponse, err error) {
	if err == nil {
		for _, blocks := range resp.Blocks {
			for p, b := range blocks {
				if b.Err != sarama.ErrNoError {
					err = fmt.Errorf("partition %d: %w", p, b.Err)
				}
			}
		}
	}
	if err != nil {
		l.failed.CompareAndSwap(nil, &err)
	}
	<-l.inFlight
	l.sent.Done()
}

// warm is the share of the records after which the clock starts.
const warm = 5

// run is the bare loop.
func (l *loop) run(counts *table) error {
	offsets := make([]int64, l.parts)
	done, mark := 0, 0
	var used time.Duration
	for done < l.records {
		n, err := l.read(offsets, counts)
		for more := true; more && err == nil; {
			more, err = l.flush(l.to, batchRecords)
		}
		if err != nil {
			return err
		}
		if done += n; mark == 0 && done > l.records/warm {
			mark, used = done, cpu()
		}
	}
	if err := l.finish(l.to); err != nil {
		return err
	}
	fmt.Printf("%.4f\n", (cpu()-used).Seconds()*1e6/float64(done-mark))
	return nil
}

func (l *loop) read(offsets []int64, counts *table) (n int, err error) {
	req := &sarama.FetchRequest{Version: 11, MaxWaitTime: 100, MinBytes: 1, MaxBytes: 64 << 20, Isolation: sarama.ReadCommitted}
	for p, at := range offsets {
		req.AddBlock(l.topic, int32(p), at, fetchBytes, -1)
	}
	resp, err := l.fetch.Fetch(req)
	if err != nil {
		return 0, err
	}
	for p, block := range resp.Blocks[l.topic] {
		for _, set := range block.RecordsSet {
			for _, r := range set.RecordBatch.Records {
				at := set.RecordBatch.FirstOffset + r.OffsetDelta
				if at < offsets[p] {
					continue
				}
				offsets[p] = at + 1
				n++
				if counts != nil {
					r.Value = counts.add(binary.BigEndian.Uint64(r.Key))
				}
				l.pending[p] = append(l.pending[p], r)
			}
		}
	}
	return n, nil
}

// cpu is what this process has used.
func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // it cannot fail for the process itself
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// table counts by key with linear probing.
type table struct {
	keys, counts []uint64
	mask         uint64
	values       []byte
}

func newTable(size int) *table {
	return &table{keys: make([]uint64, size), counts: make([]uint64, size), mask: uint64(size - 1)}
}

// add counts a key and returns its count, big endian.
func (t *table) add(key uint64) []byte {
	at := key * 0x9e3779b97f4a7c15 >> 20 & t.mask
	for t.keys[at] != key+1 && t.keys[at] != 0 {
		at = (at + 1) & t.mask
	}
	t.keys[at] = key + 1
	t.counts[at]++
	if len(t.values)+8 > cap(t.values) {
		t.values = make([]byte, 0, 1<<16)
	}
	t.values = binary.BigEndian.AppendUint64(t.values, t.counts[at])
	return t.values[len(t.values)-8:]
}
