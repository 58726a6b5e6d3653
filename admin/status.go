package admin

import "time"

// SchemaVersion is the version of the Status document. It goes up when a reader of the old one would be misled.
const SchemaVersion = 1

// Job is what the server asks. Status may be called by any goroutine, often; it must not block.
type Job interface {
	Status() Status
}

// State is where a job is in its life.
type State string

// The states of a job.
const (
	// Starting: connecting and checking, nothing is restored yet.
	Starting State = "starting"
	// Recovering: settling the transactions of before and restoring state.
	Recovering State = "recovering"
	// Running: records flow and checkpoints are taken.
	Running State = "running"
	// Draining: asked to stop, the last checkpoint is on its way.
	Draining State = "draining"
	// Stopped: ended in order; the last checkpoint is committed.
	Stopped State = "stopped"
	// Failed: ended for good; no restart can mend the cause.
	Failed State = "failed"
)

func states() []State {
	return []State{Starting, Recovering, Running, Draining, Stopped, Failed}
}

// Status is the document of /api/v1/job: a picture of a job at one moment. Counters count since the start of the process
// or, where a part was made anew, since the last restart of the job.
type Status struct {
	// SchemaVersion, Time and what is derived from them are filled in by the server.
	SchemaVersion int `json:"schema_version"`
	// Time is when the picture was taken.
	Time time.Time `json:"time"`
	Identity
	State State `json:"state"`
	// Reason says why the job failed, or what it waits for; empty where there is nothing to say.
	Reason string `json:"reason,omitempty"`
	// Attempt is the number of the present run of the job, from one restore to the next.
	Attempt int64 `json:"attempt"`
	// Started is when the process began to run the job, AttemptStarted when the attempt began.
	Started        time.Time `json:"started"`
	AttemptStarted time.Time `json:"attempt_started,omitzero"`

	Checkpoints  Checkpoints   `json:"checkpoints"`
	Transactions []Transaction `json:"transactions"`
	// TransactionTimeoutSeconds is the time after which the broker aborts an open transaction; 0 where there are none.
	TransactionTimeoutSeconds float64 `json:"transaction_timeout_seconds,omitempty"`

	Sources  []SourcePartition `json:"sources"`
	Outputs  []Output          `json:"outputs"`
	Subtasks []Subtask         `json:"subtasks"`
	Channels []Channel         `json:"channels"`
	States   []OperatorState   `json:"states"`

	// Store is the checkpoint store.
	Store Store `json:"store"`

	Incidents
}

// Identity says which job this is, and who runs it. It is part of the document's top level.
type Identity struct {
	// Job is the job's name, Instance the id of the process.
	Job      string `json:"job"`
	Instance string `json:"instance"`
	// Version is that of the binary.
	Version   string `json:"version"`
	Guarantee string `json:"guarantee,omitempty"`
}

// Incidents are what went wrong and was mended by trying again. They are part of the document's top level.
type Incidents struct {
	// Retries counts requests that had to be repeated, by Kafka's error code, "connection" where there was no
	// answer, "no_leader" where there was nobody to ask.
	Retries map[string]int64 `json:"retries"`
	// LastRetry is the latest of those that settle checkpoints; nil where there was none.
	LastRetry *Retry `json:"last_retry,omitempty"`
	// Restarts counts attempts that ended and were followed by another, by cause.
	Restarts map[Cause]int64 `json:"restarts"`
	// Failures are the latest ends of attempts, oldest first.
	Failures []Failure `json:"failures"`
}

// Checkpoints are the checkpoints of a job.
type Checkpoints struct {
	// Committed is the last one whose transaction is committed, of this attempt or the one restored; nil where there is none.
	Committed *Committed `json:"committed,omitempty"`
	// InProgress are those between trigger and commit, oldest first.
	InProgress []InProgress `json:"in_progress"`
	// MaxInFlight is the number in progress at which the next barrier waits for a commit.
	MaxInFlight int `json:"max_in_flight,omitempty"`
	// IntervalSeconds is the time between two triggers.
	IntervalSeconds float64 `json:"interval_seconds,omitempty"`
}

// Store is the checkpoint store as the job finds it.
type Store struct {
	Path string `json:"path"`
	// Retries counts writes that failed and were tried again.
	Retries int64 `json:"retries"`
	// FailingSince is when the oldest write that does not succeed was tried first, Error what its last try failed with; both
	// are absent while the store takes everything.
	FailingSince time.Time `json:"failing_since,omitzero"`
	Error        string    `json:"error,omitempty"`
}

// Committed is a checkpoint whose results are visible.
type Committed struct {
	ID   int64     `json:"id"`
	Time time.Time `json:"time"`
	// AgeSeconds is the time since then.
	AgeSeconds float64 `json:"age_seconds"`
	// Manifest is the name of its manifest in the checkpoint store.
	Manifest string `json:"manifest"`
}

// InProgress is a checkpoint on its way.
type InProgress struct {
	ID int64 `json:"id"`
	// Phase is what it waits for: barrier (subtasks to report), manifest, prepared (earlier checkpoints) or commit. Since is
	// when that began.
	Phase string    `json:"phase"`
	Since time.Time `json:"since"`
	// Acknowledged are the subtasks that have made their share durable.
	Acknowledged []int `json:"acknowledged"`
}

// Transaction is an open transaction of the job.
type Transaction struct {
	TransactionalID string `json:"transactional_id"`
	ProducerID      int64  `json:"producer_id"`
	Epoch           int16  `json:"epoch"`
	// Since is when the broker's timeout began to run.
	Since time.Time `json:"since"`
}

// SourcePartition is one partition that is read.
type SourcePartition struct {
	Source    string `json:"source"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Position is the offset of the next record to be fetched.
	Position int64 `json:"position"`
	// HighWatermark is the end of the log as the broker said last, -1 before it did.
	HighWatermark int64 `json:"high_watermark"`
	// Lag is how many offsets the position is behind the end of the log; 0 where the end is not known.
	Lag int64 `json:"lag"`
	// Records and Bytes count what was handed to the operators.
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
}

// Output is one topic that is written.
type Output struct {
	// Output is the name of the sink in the pipeline file.
	Output string `json:"output"`
	Topic  string `json:"topic"`
	// Records and Bytes count what the brokers have acknowledged; not all of it need be committed yet.
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
}

// Subtask is one of the goroutines that process records.
type Subtask struct {
	Subtask    int   `json:"subtask"`
	RecordsIn  int64 `json:"records_in"`
	RecordsOut int64 `json:"records_out"`
	// Prefetch holds what was fetched and not processed, Produce what was processed and not acknowledged.
	Prefetch Buffer `json:"prefetch"`
	Produce  Buffer `json:"produce"`
}

// Buffer is a bounded buffer. It may exceed its limit by one batch.
type Buffer struct {
	Bytes      int64 `json:"bytes"`
	LimitBytes int64 `json:"limit_bytes"`
	// Full says that whoever fills it is held back.
	Full bool `json:"full"`
}

// Channel is the buffer between two subtasks on one edge of the plan.
type Channel struct {
	Edge string `json:"edge"`
	From int    `json:"from"`
	To   int    `json:"to"`
	Buffer
}

// OperatorState is the keyed state of an operator in one subtask.
type OperatorState struct {
	Operator string `json:"operator"`
	Subtask  int    `json:"subtask"`
	// Entries and Bytes are what memory holds.
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
	// DirtyBytes is the size of the changes that the last checkpoint froze, FrozenBytes of those not yet durable.
	DirtyBytes  int64 `json:"dirty_bytes"`
	FrozenBytes int64 `json:"frozen_bytes"`
}

// derive fills in what follows from the rest at a moment.
func (s *Status) derive(now time.Time) {
	s.SchemaVersion, s.Time = SchemaVersion, now
	if c := s.Checkpoints.Committed; c != nil {
		aged := *c
		aged.AgeSeconds = max(0, now.Sub(c.Time).Seconds())
		s.Checkpoints.Committed = &aged
	}
	for i := range s.Sources {
		p := &s.Sources[i]
		p.Lag = max(0, p.HighWatermark-p.Position)
	}
	s.Checkpoints.InProgress, s.Transactions = some(s.Checkpoints.InProgress), some(s.Transactions)
	s.Sources, s.Outputs, s.Subtasks = some(s.Sources), some(s.Outputs), some(s.Subtasks)
	s.Channels, s.States, s.Failures = some(s.Channels), some(s.States), some(s.Failures)
	if s.Retries == nil {
		s.Retries = map[string]int64{}
	}
	if s.Restarts == nil {
		s.Restarts = map[Cause]int64{}
	}
}

// some makes an absent list an empty one: readers of the document need not tell null from [].
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// picture asks a job and completes its answer.
func picture(j Job) Status {
	s := j.Status()
	s.derive(time.Now())
	return s
}
