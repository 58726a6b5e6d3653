package consumer

import (
	"log/slog"
	"time"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
)

// Source is one topic to read. Its place in Options.Sources is its index in the plan.
type Source struct {
	Name, Topic string
	// Start says where to begin a partition without a position: kafka.Earliest, kafka.Latest or a time in milliseconds since
	// the Unix epoch.
	Start int64
	// AcceptLoss says that positions which the topic does not have any more may be left behind.
	AcceptLoss bool
}

// Options are what a consumer is built from.
type Options struct {
	Sources []Source
	// Positions are those of the checkpoint to go on from; empty at the first start of a job. A partition that is missing
	// although others are there was added since, and is read from its first record.
	Positions []record.Position
	// Subtasks is the number of lanes, Owner the lane of each partition, Wake wakes the subtask of a lane.
	Subtasks int
	Owner    func(source, partition int32) int
	Wake     func(subtask int)
	// Prefetch bounds the memory of the batches that wait in one lane, in bytes. One fetch may go beyond it, and batches that
	// share a response with other lanes may keep four times their own size alive.
	Prefetch int
	// FetchBytes is what one fetch asks of a partition at most. A record batch larger than that is fetched all the same.
	FetchBytes int32
	// MaxWait is how long a broker may wait for data before it answers a fetch.
	MaxWait time.Duration
	// Discovery is the time between two looks for new partitions.
	Discovery time.Duration
	// MissingAfter is how long a topic may be gone; MissingAfter where it is 0.
	MissingAfter time.Duration
	Logger       *slog.Logger
}

// Defaults of the options that are zero.
const (
	DefaultPrefetch   = 8 << 20
	DefaultFetchBytes = 1 << 20
	DefaultMaxWait    = 100 * time.Millisecond
	DefaultDiscovery  = time.Minute
	// pausedWait is the MaxWait while some partition is left out because its lane is full: once there is room, it must not wait
	// for the others' data.
	pausedWait = 5 * time.Millisecond
	// maxFetchBytes bounds one response over all partitions, and the growth for a record batch that does not fit.
	maxFetchBytes = 64 << 20
	// batchRecords is the most records that are handed on at once: enough to spread the cost of a hand-over, few enough to
	// stay in a core's cache on their way through the operators.
	batchRecords = 2048
)

func (o *Options) setDefaults() {
	if o.Prefetch == 0 {
		o.Prefetch = DefaultPrefetch
	}
	if o.FetchBytes == 0 {
		o.FetchBytes = DefaultFetchBytes
	}
	if o.MaxWait == 0 {
		o.MaxWait = DefaultMaxWait
	}
	if o.Discovery == 0 {
		o.Discovery = DefaultDiscovery
	}
	if o.MissingAfter == 0 {
		o.MissingAfter = MissingAfter
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func (o *Options) topics() []string {
	var all []string
	for _, s := range o.Sources {
		all = append(all, s.Topic)
	}
	return all
}

// StartAt returns the Start of a source for a time.
func StartAt(t time.Time) int64 { return t.UnixMilli() }

// Starts of a source beside a time.
const (
	StartEarliest = kafka.Earliest
	StartLatest   = kafka.Latest
)
