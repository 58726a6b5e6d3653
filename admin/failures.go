package admin

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Cause is a class of reasons for the end of an attempt. There are few, for they are a label of a metric.
type Cause string

// The causes.
const (
	// CauseKafka: a broker could not be reached, or refused what it should not.
	CauseKafka Cause = "kafka"
	// CauseFenced: another process has taken over the job's transactions.
	CauseFenced Cause = "fenced"
	// CauseTimeout: a checkpoint came near its transaction's timeout.
	CauseTimeout Cause = "transaction_timeout"
	// CauseStore: the checkpoint store did not take state or a manifest.
	CauseStore Cause = "store"
	// CauseState: state could not be read or restored, or is not what the pipeline's operators keep.
	CauseState Cause = "state"
	// CauseOperator: an operator returned an error or panicked.
	CauseOperator Cause = "operator"
	// CauseData: the input is not what the checkpoint says it was; only an operator of the job may decide.
	CauseData Cause = "data"
	// CauseUndecided: Kafka did not tell whether a transaction was committed, which recovery finds out.
	CauseUndecided Cause = "undecided"
	// CauseOther: none of these.
	CauseOther Cause = "other"
)

func causes() []Cause {
	return []Cause{CauseKafka, CauseFenced, CauseTimeout, CauseStore, CauseState, CauseOperator, CauseData, CauseUndecided, CauseOther}
}

// Failure is the end of an attempt that was not asked for.
type Failure struct {
	Time    time.Time `json:"time"`
	Attempt int64     `json:"attempt"`
	Cause   Cause     `json:"cause"`
	Error   string    `json:"error"`
}

const (
	failuresKept     = 10
	failureTextBytes = 4 << 10
)

// Failures remembers how attempts ended: the latest ones, and how many of each cause were followed by another attempt. The
// zero value is ready; any goroutine may use it.
type Failures struct {
	mu struct {
		sync.Mutex
		latest   []Failure
		restarts map[Cause]int64
	}
}

// Record notes the end of an attempt; restart says that another follows. Only the beginning of a very long text is kept.
func (f *Failures) Record(e Failure, restart bool) {
	e.Error = e.Error[:min(len(e.Error), failureTextBytes)]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.latest = append(f.mu.latest, e)
	f.mu.latest = f.mu.latest[max(0, len(f.mu.latest)-failuresKept):]
	if !restart {
		return
	}
	if f.mu.restarts == nil {
		f.mu.restarts = map[Cause]int64{}
	}
	f.mu.restarts[e.Cause]++
}

// Fill sets s's Failures and Restarts.
func (f *Failures) Fill(s *Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Failures, s.Restarts = slices.Clone(f.mu.latest), maps.Clone(f.mu.restarts)
}
