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
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/record"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: limit load|copy|count …")
	}
	var l loop
	fs := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	fs.StringVar(&l.broker, "brokers", "", "the one broker")
	fs.StringVar(&l.topic, "topic", "", "topic to fill or to read")
	fs.StringVar(&l.to, "to", "", "topic to write")
	fs.IntVar(&l.records, "records", 0, "records")
	fs.IntVar(&l.keys, "keys", 1_000_000, "different keys that load draws from")
	if err := fs.Parse(os.Args[2:]); err != nil {
		log.Fatal(err)
	}
	if err := l.open(); err != nil {
		log.Fatal(err)
	}
	switch os.Args[1] {
	case "load":
		l.load()
	case "copy":
		l.run(nil)
	case "count":
		l.run(newTable(1 << 22))
	default:
		log.Fatalf("unknown command %s", os.Args[1])
	}
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
func (l *loop) load() {
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
			l.flush(l.topic, batchRecords)
		}
	}
	l.flush(l.topic, 1)
	l.sent.Wait()
}

// flush writes, in one request, a batch of each partition that has gathered enough.
func (l *loop) flush(topic string, least int) bool {
	req := &sarama.ProduceRequest{Version: 8, RequiredAcks: sarama.WaitForAll, Timeout: 10_000}
	any := false
	for p, rs := range l.pending {
		if len(rs) < least {
			continue
		}
		any = true
		rs = rs[:min(len(rs), 2*batchRecords)]
		now := time.Now()
		b := &sarama.RecordBatch{Version: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, FirstTimestamp: now, MaxTimestamp: now,
			LastOffsetDelta: int32(len(rs) - 1), Records: rs}
		for i, r := range rs {
			r.OffsetDelta, r.TimestampDelta = int64(i), 0
		}
		req.AddBatch(topic, int32(p), b)
		l.pending[p] = l.pending[p][len(rs):]
	}
	if !any {
		return false
	}
	l.inFlight <- struct{}{}
	l.sent.Add(1)
	err := l.send.AsyncProduce(req, func(resp *sarama.ProduceResponse, err error) {
		if err != nil {
			log.Fatal(err)
		}
		for _, blocks := range resp.Blocks {
			for p, b := range blocks {
				if b.Err != sarama.ErrNoError {
					log.Fatalf("partition %d: %v", p, b.Err)
				}
			}
		}
		<-l.inFlight
		l.sent.Done()
	})
	if err != nil {
		log.Fatal(err)
	}
	return true
}

// warm is the share of the records after which the clock starts.
const warm = 5

// run is the bare loop.
func (l *loop) run(counts *table) {
	offsets := make([]int64, l.parts)
	done, mark := 0, 0
	var used time.Duration
	for done < l.records {
		done += l.read(offsets, counts)
		for l.flush(l.to, batchRecords) {
		}
		if mark == 0 && done > l.records/warm {
			mark, used = done, cpu()
		}
	}
	for l.flush(l.to, 1) {
	}
	l.sent.Wait()
	fmt.Printf("%.4f\n", (cpu()-used).Seconds()*1e6/float64(done-mark))
}

func (l *loop) read(offsets []int64, counts *table) (n int) {
	req := &sarama.FetchRequest{Version: 11, MaxWaitTime: 100, MinBytes: 1, MaxBytes: 64 << 20, Isolation: sarama.ReadCommitted}
	for p, at := range offsets {
		req.AddBlock(l.topic, int32(p), at, fetchBytes, -1)
	}
	resp, err := l.fetch.Fetch(req)
	if err != nil {
		log.Fatal(err)
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
	return n
}

func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		log.Fatal(err)
	}
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
