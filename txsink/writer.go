package txsink

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/internal/seldom"
	"github.com/weirstream/weir/record"
)

// Output is a topic to write.
type Output struct {
	Topic      string
	Partitions int32
}

// WriterOptions are what a writer is built from.
type WriterOptions struct {
	// Outputs are those of the plan, in its order.
	Outputs []Output
	// Subtasks is the number of lanes; Wake wakes the subtask of one.
	Subtasks int
	Wake     func(subtask int)
	// Acked is called, by a goroutine of the writer or the lane's own, when everything of checkpoint n in a lane is
	// acknowledged and nothing of it in flight.
	Acked func(subtask int, n record.CheckpointID)
	// Transactional says that the identities are real. Without, batches may be written twice after a failure.
	Transactional bool
	// Buffer bounds the bytes of one lane that are gathered and not acknowledged; the results of one batch may go beyond.
	Buffer int64
	// BatchRecords and BatchBytes bound a record batch. The topic's max.message.bytes must not be smaller than BatchBytes.
	BatchRecords, BatchBytes int
	Codec                    sarama.CompressionCodec
	// RequestTimeout is how long a leader may wait for its replicas.
	RequestTimeout time.Duration
	Logger         *slog.Logger
}

// Defaults of the options that are zero.
const (
	DefaultBuffer         = 16 << 20
	DefaultBatchRecords   = 2048
	DefaultBatchBytes     = 900_000
	DefaultRequestTimeout = 10 * time.Second
)

func (o *WriterOptions) setDefaults() {
	if o.Buffer == 0 {
		o.Buffer = DefaultBuffer
	}
	if o.BatchRecords == 0 {
		o.BatchRecords = DefaultBatchRecords
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = DefaultBatchBytes
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = DefaultRequestTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Writer writes the results of all subtasks of an instance.
type Writer struct {
	cluster *kafka.Cluster
	opts    WriterOptions
	lanes   []*Lane
	parts   []*partition
	failure chan error
	// lost tells the manager that a partition needs a sender.
	lost  chan struct{}
	slabs sync.Pool
	stats WriterStats
	mu    sync.Mutex // guards the queues of the partitions, the periods, the senders and stale
	// senders, by address of the broker.
	senders map[string]*sender
	// stale says that the manager should ask for metadata: no broker has named the new leader by itself.
	stale bool
	// noMetadata and refused are what may have to be said again and again.
	noMetadata, refused seldom.Log
}

// partition is one output partition, guarded by the writer's lock.
type partition struct {
	tp kafka.TopicPartition
	// output is the index of its output.
	output int
	queue  queue
	// lane is the only one that writes here, known from the first batch on.
	lane *Lane
	// sender is where the leader is, nil while it is looked for.
	sender *sender
	// late says that its lane goes on gathering until the queue is short again.
	late bool
	// last is the offset of the last acknowledged record of each identity whose fate is open.
	last map[record.Identity]int64
	// refusedSince is when the oldest batch was first not taken.
	refusedSince time.Time
}

// NewWriter makes the writer; it does nothing until Run.
func NewWriter(cluster *kafka.Cluster, o WriterOptions) *Writer {
	o.setDefaults()
	w := &Writer{cluster: cluster, opts: o, failure: make(chan error, 1), lost: make(chan struct{}, 1), senders: map[string]*sender{}}
	w.stats.outputs = make([]outputStats, len(o.Outputs))
	for i, out := range o.Outputs {
		for p := range out.Partitions {
			window := maxUnacknowledged
			if !o.Transactional {
				window = 1 // without sequences a second batch could get ahead of a failed first one
			}
			w.parts = append(w.parts, &partition{
				tp: kafka.TopicPartition{Topic: out.Topic, Partition: p}, output: i, queue: queue{window: window}, last: map[record.Identity]int64{},
			})
		}
	}
	for i := range o.Subtasks {
		w.lanes = append(w.lanes, w.newLane(i))
	}
	return w
}

func (w *Writer) newLane(subtask int) *Lane {
	l := &Lane{writer: w, subtask: subtask}
	at := 0
	for _, out := range w.opts.Outputs {
		parts := make([]gathering, out.Partitions)
		for p := range parts {
			parts[p].partition = w.parts[at]
			at++
		}
		l.gather = append(l.gather, parts)
	}
	return l
}

// Lane returns the lane of a subtask.
func (w *Writer) Lane(subtask int) *Lane { return w.lanes[subtask] }

// Run sends until ctx ends or the attempt must end, with the cause: ErrFenced, or what Kafka refused.
func (w *Writer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case err := <-w.failure:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	g.Go(func() error { return w.manage(ctx, g) })
	return g.Wait()
}

// fail ends Run.
func (w *Writer) fail(err error) {
	select {
	case w.failure <- err:
	default:
	}
}

// leaderPause is the wait between two looks for the leader of a partition that has none.
const leaderPause = 50 * time.Millisecond

// manage finds the leaders of partitions and keeps a sender for each broker.
func (w *Writer) manage(ctx context.Context, g *errgroup.Group) error {
	for {
		var again <-chan time.Time
		if w.assign(ctx, g) {
			again = time.After(leaderPause)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again:
		case <-w.lost:
			if !w.takeStale() {
				continue
			}
		}
		if err := w.cluster.Refresh(ctx, w.topics()...); err != nil && ctx.Err() == nil {
			if kafka.Permanent(err) {
				return fmt.Errorf("metadata of the outputs: %w", err)
			}
			w.noMetadata.Warn(w.opts.Logger, "metadata of the outputs is not to be had, trying again", "error", err)
		} else if err == nil {
			w.noMetadata.Over(w.opts.Logger, "the metadata of the outputs is there again")
		}
	}
}

func (w *Writer) takeStale() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	stale := w.stale
	w.stale = false
	return stale
}

func (w *Writer) topics() []string {
	var all []string
	for _, o := range w.opts.Outputs {
		all = append(all, o.Topic)
	}
	return all
}

// assign gives partitions without a sender to that of their leader, and reports whether some remain.
func (w *Writer) assign(ctx context.Context, g *errgroup.Group) (remain bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts {
		if p.sender != nil {
			continue
		}
		addr, _, err := w.cluster.Leader(p.tp.Topic, p.tp.Partition)
		if err != nil {
			remain = true
			continue
		}
		s := w.senders[addr]
		if s == nil {
			s = newSender(w, addr)
			w.senders[addr] = s
			g.Go(func() error { return s.run(ctx) })
		}
		p.sender = s
		s.kick()
	}
	return remain
}

// enqueue takes a sealed batch.
func (w *Writer) enqueue(p *partition, b *batch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.lane == nil {
		p.lane = b.period.lane
	}
	if p.lane != b.period.lane {
		return fmt.Errorf("output partition %v belongs to subtask %d, not to %d", p.tp, p.lane.subtask, b.period.lane.subtask)
	}
	b.period.open++
	p.queue.push(b)
	if p.sender != nil {
		p.sender.kick()
	}
	return nil
}

// keepsUp says that p's queue is no longer than what may be on its way, and otherwise has its subtask woken when it is.
func (w *Writer) keepsUp(p *partition) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.late = len(p.queue.batches) >= maxUnacknowledged
	return !p.late
}

// pause after a failure: the first writes of an identity are verified one at a time, so many are answered 19 at once.
const (
	pauseMin    = 5 * time.Millisecond
	pauseSpread = 15 * time.Millisecond
)

// outcome is what came of sending one batch: the offset of its first record, or an error.
type outcome struct {
	offset int64
	err    error
	// hinted says that a refusal named the new leader, and the cluster's metadata has it.
	hinted bool
}

// answered takes the outcome of one batch.
func (w *Writer) answered(p *partition, b *batch, o outcome) {
	w.mu.Lock()
	v, acked := p.queue.answer(b, o.err)
	var settled []record.CheckpointID
	switch v {
	case written:
		w.taken(p)
		if o.offset >= 0 {
			p.last[b.identity] = max(p.last[b.identity], o.offset+int64(b.wire.LastOffsetDelta))
		}
		for _, a := range acked {
			a.period.open--
		}
		settled = b.period.lane.settle()
	case refresh:
		p.sender = nil
		w.stale = w.stale || !o.hinted
		w.look()
	}
	if v == again || v == refresh {
		p.queue.notBefore = time.Now().Add(pauseMin + rand.N(pauseSpread))
		w.warn(p, b, o.err)
	}
	if p.sender != nil {
		p.sender.kick() // not only the one that asked: the partition may have moved to another broker in the meantime
	}
	caughtUp := p.late && len(p.queue.batches) < maxUnacknowledged
	p.late = p.late && !caughtUp
	w.mu.Unlock()
	if caughtUp {
		w.opts.Wake(b.period.lane.subtask)
	}
	if v == fatal {
		w.fail(explain(p, b, o.err))
	}
	w.recycle(p, b.period.lane, acked)
	b.period.lane.report(settled)
}

// refusedLong is how long a partition may refuse before that is worth a line in the log.
const refusedLong = 5 * time.Second

// warn tells of a partition that has refused for long. The writer's lock is held.
func (w *Writer) warn(p *partition, b *batch, err error) {
	if p.refusedSince.IsZero() {
		p.refusedSince = time.Now()
	}
	since := time.Since(p.refusedSince).Round(time.Second)
	if since < refusedLong {
		return
	}
	w.refused.Warn(w.opts.Logger, "a partition does not take the results; they wait, and are tried again and again", "partition", p.tp.String(),
		"since", since, "transaction", b.identity.String(), "sequence", b.sequence, "error", err)
}

// taken ends what warn has told of. The writer's lock is held.
func (w *Writer) taken(p *partition) {
	if p.refusedSince.IsZero() {
		return
	}
	if after := time.Since(p.refusedSince); after >= refusedLong {
		w.opts.Logger.Info("a partition takes results again", "partition", p.tp.String(), "after", after.Round(time.Millisecond))
	}
	p.refusedSince = time.Time{}
}

// recycle frees what acknowledged batches held.
func (w *Writer) recycle(p *partition, l *Lane, acked []*batch) {
	for _, b := range acked {
		size := int64(b.slab.bytes)
		w.stats.outputs[p.output].records.Add(int64(len(b.slab.records)))
		w.stats.outputs[p.output].bytes.Add(size)
		b.slab.reset()
		w.slabs.Put(b.slab)
		b.slab = nil
		if left := l.held.Add(-size); left < w.opts.Buffer && left+size >= w.opts.Buffer {
			w.opts.Wake(l.subtask)
		}
	}
}

func (w *Writer) takeSlab() *slab {
	if s, ok := w.slabs.Get().(*slab); ok {
		return s
	}
	return new(slab)
}

// look asks the manager to find senders for the partitions without one.
func (w *Writer) look() {
	select {
	case w.lost <- struct{}{}:
	default:
	}
}

// LastOffsets returns, for each partition, the offset of the last record acknowledged under an identity, and forgets it.
// The coordinator asks when the transaction has ended.
func (w *Writer) LastOffsets(id record.Identity) map[kafka.TopicPartition]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := map[kafka.TopicPartition]int64{}
	for _, p := range w.parts {
		if o, ok := p.last[id]; ok {
			last[p.tp] = o
			delete(p.last, id)
		}
	}
	return last
}
