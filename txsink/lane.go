package txsink

import (
	"sync/atomic"

	"github.com/weirstream/weir/record"
)

// Lane is one subtask's way into the writer. It gathers records into batches; except for what says otherwise it belongs to
// the goroutine of the subtask.
type Lane struct {
	writer  *Writer
	subtask int
	// gather has a slot for each partition of each output; filled lists those that hold records.
	gather [][]gathering
	filled []*gathering
	// now is what the records written at present belong to.
	now *period
	// held counts the bytes gathered and not yet acknowledged. Any goroutine changes it.
	held atomic.Int64
	// periods are those not yet acknowledged, oldest first, guarded by the writer's lock.
	periods []*period
}

// gathering is what one partition has gathered since its last batch was sealed.
type gathering struct {
	partition *partition
	slab      *slab
	// identity is that of the last batch, sequence the one after it.
	identity record.Identity
	sequence int32
	// listed says that the lane's filled has it.
	listed bool
}

// period is the time of one transaction in one lane.
type period struct {
	lane     *Lane
	identity record.Identity
	// turn counts the periods of a lane. Every barrier passes every lane, so periods of one turn belong to one transaction.
	turn int
	// checkpoint is set when the period is over.
	checkpoint record.CheckpointID
	closed     bool
	open       int // batches not acknowledged, guarded by the writer's lock
}

// Begin sets the first transaction. It is called once, before the first Write.
func (l *Lane) Begin(first record.Identity) { l.start(first) }

func (l *Lane) start(id record.Identity) {
	turn := 0
	if l.now != nil {
		turn = l.now.turn + 1
	}
	l.now = &period{lane: l, identity: id, turn: turn}
	l.writer.mu.Lock()
	l.periods = append(l.periods, l.now)
	l.writer.mu.Unlock()
}

// Full says that the subtask should hold back: what was written is more than the bound, and not acknowledged. The subtask
// is woken when that changes.
func (l *Lane) Full() bool { return l.held.Load() >= l.writer.opts.Buffer }

// Bytes returns what the lane holds and its bound, in bytes. Any goroutine may call it.
func (l *Lane) Bytes() (held, limit int64) { return l.held.Load(), l.writer.opts.Buffer }

// Write takes results for an output. Each record's group must be set; its partition is the group mod the output's
// partition count, and belongs to this lane. The bytes of the records are referred to until Kafka has them.
func (l *Lane) Write(output int, records []record.Record) error {
	parts := l.gather[output]
	n := record.KeyGroup(len(parts))
	held := int64(0)
	for i := range records {
		r := &records[i]
		g := &parts[r.Group%n]
		cost := size(r)
		if g.slab != nil && (len(g.slab.records) >= l.writer.opts.BatchRecords || g.slab.bytes+cost > l.writer.opts.BatchBytes) {
			if err := l.seal(g); err != nil {
				return err
			}
		}
		if g.slab == nil {
			g.slab = l.writer.takeSlab()
			if !g.listed {
				g.listed = true
				l.filled = append(l.filled, g)
			}
		}
		g.slab.add(r)
		held += int64(cost)
	}
	l.held.Add(held)
	return nil
}

// Flush sends what is gathered: the subtask has nothing else to do. Partitions whose leader does not keep up go on gathering,
// so that they catch up in large batches instead of falling behind in small ones; the subtask is woken when one has caught up.
func (l *Lane) Flush() { l.flush((*Writer).keepsUp) }

// flush seals what is gathered for the partitions that now says are due.
func (l *Lane) flush(now func(*Writer, *partition) bool) {
	late := l.filled[:0]
	for _, g := range l.filled {
		if g.slab != nil && !now(l.writer, g.partition) {
			late = append(late, g)
			continue
		}
		g.listed = false
		if g.slab != nil {
			if err := l.seal(g); err != nil {
				l.writer.fail(err)
			}
		}
	}
	l.filled = late
}

// Barrier ends the transaction of checkpoint n for this lane and goes on with next. Acked is called when all that was
// written before is acknowledged.
func (l *Lane) Barrier(n record.CheckpointID, next record.Identity) {
	l.flush(func(*Writer, *partition) bool { return true })
	w := l.writer
	w.mu.Lock()
	l.now.checkpoint, l.now.closed = n, true
	acked := l.settle()
	w.mu.Unlock()
	l.report(acked)
	l.start(next)
}

// seal turns what g has gathered into a batch and queues it.
func (l *Lane) seal(g *gathering) error {
	id := l.now.identity
	if g.identity != id {
		g.identity, g.sequence = id, 0
	}
	b := &batch{identity: id, sequence: g.sequence, slab: g.slab, period: l.now, wire: g.slab.wire(id, g.sequence, l.writer.opts.Codec)}
	g.sequence = sequenceAfter(g.sequence, len(g.slab.records))
	g.slab = nil
	return l.writer.enqueue(g.partition, b)
}

// sequenceAfter counts on; after the highest 31-bit number comes 0 again, within a batch too
// (org.apache.kafka.common.record.DefaultRecordBatch.incrementSequence).
func sequenceAfter(sequence int32, records int) int32 {
	return int32((int64(sequence) + int64(records)) & 0x7fffffff)
}

// settle removes the periods from the front that are over and acknowledged, and returns their checkpoints. The writer's
// lock is held.
func (l *Lane) settle() (acked []record.CheckpointID) {
	for len(l.periods) > 0 && l.periods[0].closed && l.periods[0].open == 0 {
		acked = append(acked, l.periods[0].checkpoint)
		l.periods = l.periods[1:]
	}
	return acked
}

func (l *Lane) report(acked []record.CheckpointID) {
	for _, n := range acked {
		l.writer.opts.Acked(l.subtask, n)
	}
}
