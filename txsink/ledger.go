package txsink

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
)

// ledgerVersion is the version of the witness's form. A reader refuses others.
const ledgerVersion = 1

// Witness is the record that is visible in the ledger topic exactly when a checkpoint is committed.
type Witness struct {
	Version    int                 `json:"version"`
	Job        string              `json:"job"`
	Checkpoint record.CheckpointID `json:"checkpoint"`
	Attempt    record.Attempt      `json:"attempt"`
	Identity   record.Identity     `json:"transaction"`
	// Manifest says where the checkpoint's manifest lies, and its digest.
	Manifest record.Blob `json:"manifest"`
	// Positions are the offsets up to which the results are in the output, for people and tools.
	Positions []record.Position `json:"positions"`
}

// encodeWitness is deterministic: recovery writes the very same record again.
func encodeWitness(w Witness) ([]byte, error) {
	w.Version = ledgerVersion
	return json.Marshal(w)
}

// decodeWitness refuses what it does not know: an older binary must not act on half of what a newer one wrote.
func decodeWitness(value []byte) (Witness, error) {
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(value, &version); err != nil {
		return Witness{}, fmt.Errorf("ledger record: %w", err)
	}
	if version.Version != ledgerVersion {
		return Witness{}, fmt.Errorf("ledger record of version %d; this binary knows version %d: use a newer one", version.Version, ledgerVersion)
	}
	var w Witness
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return Witness{}, fmt.Errorf("ledger record: %w", err)
	}
	if w.Checkpoint < 1 || w.Manifest.Name == "" {
		return Witness{}, fmt.Errorf("ledger record: checkpoint %d with manifest %q", w.Checkpoint, w.Manifest.Name)
	}
	return w, nil
}

// ledgerBatch is the record batch of a witness, the first and only one of its identity in the ledger.
func ledgerBatch(w Witness) (*sarama.RecordBatch, error) {
	value, err := encodeWitness(w)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	b := &sarama.RecordBatch{
		Version: 2, FirstTimestamp: now, MaxTimestamp: now, Records: []*sarama.Record{{Key: []byte(w.Job), Value: value}},
		ProducerID: w.Identity.ProducerID, ProducerEpoch: w.Identity.Epoch, IsTransactional: true,
	}
	if w.Identity.IsZero() {
		b.ProducerID, b.ProducerEpoch, b.FirstSequence, b.IsTransactional = -1, -1, -1, false
	}
	return b, nil
}

// writeWitness produces the witness within its transaction and returns its offset. Repeating it is harmless: the sequence is
// the same, so a broker that has it already says so by success.
func (t *Transactions) writeWitness(ctx context.Context, w Witness) (int64, error) {
	b, err := ledgerBatch(w)
	if err != nil {
		return 0, err
	}
	op := fmt.Sprintf("write the witness of checkpoint %d", w.Checkpoint)
	var offset int64
	err = t.onLedger(ctx, kafka.ProduceBatch, op, func(broker *sarama.Broker) (sarama.KError, error) {
		req := &sarama.ProduceRequest{Version: 8, RequiredAcks: sarama.WaitForAll, Timeout: int32(t.opts.RequestTimeout / time.Millisecond)}
		if !w.Identity.IsZero() {
			req.TransactionalID = &w.Identity.TransactionalID
		}
		req.AddBatch(t.opts.Ledger, 0, b)
		resp, err := broker.Produce(req)
		if err != nil {
			return 0, err
		}
		block := resp.GetBlock(t.opts.Ledger, 0)
		if block == nil {
			return 0, errNoAnswer
		}
		offset = block.Offset
		return block.Err, nil
	})
	return offset, err
}

// onLedger makes a request to the leader of the ledger partition, again and again while waiting or looking for the leader
// can help.
func (t *Transactions) onLedger(ctx context.Context, r kafka.Request, op string, request func(*sarama.Broker) (sarama.KError, error)) error {
	return kafka.Repeat(ctx, op, func() error { return t.onceOnLedger(ctx, op, request) }, func(err error) bool {
		return t.again(ctx, r, err, t.opts.Ledger)
	})
}

// again says that an error of a request to the leader of a topic's partition is worth another try, and looks for the leader
// where that may help.
func (t *Transactions) again(ctx context.Context, r kafka.Request, err error, topic string) bool {
	class := kafka.Classify(r, err)
	if class >= kafka.Fenced {
		return false
	}
	t.tried(err)
	if class == kafka.Refresh {
		_ = t.cluster.Refresh(ctx, topic) // the next try tells
	}
	return true
}

func (t *Transactions) onceOnLedger(ctx context.Context, op string, request func(*sarama.Broker) (sarama.KError, error)) error {
	addr, _, err := t.cluster.Leader(t.opts.Ledger, 0)
	if err != nil {
		return err
	}
	code, err := kafka.Call(ctx, t.cluster, kafka.Ledger, addr, request)
	if err != nil {
		return fmt.Errorf("%s: broker %s: %w", op, addr, err)
	}
	if code != sarama.ErrNoError {
		return &kafka.Error{Op: op, Code: code}
	}
	return nil
}

// ledgerStep is how far before the end the search for the last witness begins; each witness takes two offsets, one of them
// its marker.
const ledgerStep = 4096

// ledgerView is what a read of the ledger shows.
type ledgerView struct {
	// last is the last witness of the job, nil where there is none.
	last *Witness
	// committed are the identities of all witnesses read: the last one's, and those of before that are not compacted yet.
	committed map[record.Identity]bool
}

// lastWitness reads the ledger below offset end, back to the last witness at least.
func (t *Transactions) lastWitness(ctx context.Context, end int64) (ledgerView, error) {
	tp := kafka.TopicPartition{Topic: t.opts.Ledger}
	starts, err := t.cluster.ListOffsets(ctx, []kafka.TopicPartition{tp}, kafka.Earliest, sarama.ReadUncommitted)
	if err != nil {
		return ledgerView{}, err
	}
	for step := int64(ledgerStep); ; step *= 8 {
		from := max(starts[tp], end-step)
		v, err := t.scan(ctx, from, end)
		if v.last != nil || err != nil || from == starts[tp] {
			return v, err
		}
	}
}

// scan reads the ledger from one offset until its position reaches end. It waits for the last stable offset to get there.
func (t *Transactions) scan(ctx context.Context, from, end int64) (ledgerView, error) {
	v := ledgerView{committed: map[record.Identity]bool{}}
	var filter kafka.CommittedFilter
	for from < end {
		block, err := t.fetchLedger(ctx, from)
		if err != nil {
			return ledgerView{}, err
		}
		filter.Reset(block.AbortedTransactions)
		for _, set := range block.RecordsSet {
			b := set.RecordBatch
			if b == nil || b.PartialTrailingRecord {
				break
			}
			if filter.Accept(b) {
				if err := t.view(&v, b, from, end); err != nil {
					return ledgerView{}, err
				}
			}
			from = max(from, b.LastOffset()+1)
		}
	}
	return v, nil
}

// view adds the job's witnesses among b's records from one offset on and below another.
func (t *Transactions) view(v *ledgerView, b *sarama.RecordBatch, from, end int64) error {
	for _, r := range b.Records {
		offset := b.FirstOffset + r.OffsetDelta
		if offset < from || offset >= end || string(r.Key) != t.opts.Job || r.Value == nil {
			continue
		}
		w, err := decodeWitness(r.Value)
		if err != nil {
			return fmt.Errorf("%s at offset %d: %w", t.opts.Ledger, offset, err)
		}
		v.last = &w
		v.committed[w.Identity] = true
	}
	return nil
}

const (
	ledgerFetchBytes = 1 << 20
	ledgerFetchWait  = 100
)

func (t *Transactions) fetchLedger(ctx context.Context, from int64) (*sarama.FetchResponseBlock, error) {
	var block *sarama.FetchResponseBlock
	err := t.onLedger(ctx, kafka.FetchBatch, "read the ledger", func(broker *sarama.Broker) (sarama.KError, error) {
		req := &sarama.FetchRequest{Version: 11, MaxWaitTime: ledgerFetchWait, MinBytes: 1, MaxBytes: ledgerFetchBytes, Isolation: sarama.ReadCommitted}
		req.AddBlock(t.opts.Ledger, 0, from, ledgerFetchBytes, -1)
		resp, err := broker.Fetch(req)
		if err != nil {
			return 0, err
		}
		if block = resp.GetBlock(t.opts.Ledger, 0); block == nil {
			return 0, errNoAnswer
		}
		return block.Err, nil
	})
	return block, err
}
