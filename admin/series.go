package admin

import "slices"

// series is one metric that is rendered from a Status.
type series struct {
	name, help string
	counter    bool
	labels     []string
	// read emits the values of s, each with the values of the labels.
	read func(s *Status, emit emit)
}

type emit func(value float64, labels ...string)

// table lists every metric that is rendered from a Status. Labels take their values from the pipeline file (names of sources,
// sinks, operators, edges and topics) or from short lists, never from data; partitions and subtasks are added up.
func table() []series {
	return slices.Concat(jobSeries(), checkpointSeries(), sourceSeries(), outputSeries(), subtaskSeries(), channelSeries(),
		stateSeries())
}

func jobSeries() []series {
	return []series{
		{name: "weir_info", help: "Always 1; the labels name the job, the instance and the version of the binary.",
			labels: []string{"weir_job", "weir_instance", "version"},
			read:   func(s *Status, emit emit) { emit(1, s.Job, s.Instance, s.Version) }},
		{name: "weir_job_state", help: "1 for the state that the job is in, 0 for the others.", labels: []string{"state"},
			read: func(s *Status, emit emit) {
				for _, state := range states() {
					emit(truth(s.State == state), string(state))
				}
			}},
		{name: "weir_job_attempt", help: "Number of the present run of the job; it goes up with every restart.",
			read: func(s *Status, emit emit) { emit(float64(s.Attempt)) }},
		{name: "weir_restarts_total", counter: true, help: "Attempts that ended and were followed by another, by cause.",
			labels: []string{"cause"},
			read: func(s *Status, emit emit) {
				for _, c := range causes() {
					emit(float64(s.Restarts[c]), string(c))
				}
			}},
		{name: "weir_kafka_retries_total", counter: true, labels: []string{"code"},
			help: "Requests to Kafka that had to be repeated, by error code; connection without an answer, no_leader without a leader.",
			read: func(s *Status, emit emit) { bounded(s.Retries, emit) }},
	}
}

func checkpointSeries() []series {
	return []series{
		{name: "weir_checkpoint_committed_id", help: "Number of the last committed checkpoint.",
			read: func(s *Status, emit emit) {
				if c := s.Checkpoints.Committed; c != nil {
					emit(float64(c.ID))
				}
			}},
		{name: "weir_checkpoint_age_seconds", help: "Time since the last commit; absent before the first.",
			read: func(s *Status, emit emit) {
				if c := s.Checkpoints.Committed; c != nil {
					emit(c.AgeSeconds)
				}
			}},
		{name: "weir_checkpoint_interval_seconds", help: "Configured time between two checkpoints.",
			read: func(s *Status, emit emit) { emit(s.Checkpoints.IntervalSeconds) }},
		{name: "weir_checkpoints_in_progress", help: "Checkpoints between trigger and commit.",
			read: func(s *Status, emit emit) { emit(float64(len(s.Checkpoints.InProgress))) }},
		{name: "weir_checkpoints_in_progress_limit", help: "Checkpoints in progress at which the next barrier waits for a commit.",
			read: func(s *Status, emit emit) { emit(float64(s.Checkpoints.MaxInFlight)) }},
		{name: "weir_store_retries_total", counter: true, help: "Writes to the checkpoint store that failed and were tried again.",
			read: func(s *Status, emit emit) { emit(float64(s.Store.Retries)) }},
		{name: "weir_store_failing_seconds", help: "How long the checkpoint store has not taken a write; 0 while it takes all.",
			read: func(s *Status, emit emit) {
				if s.Store.FailingSince.IsZero() {
					emit(0)
					return
				}
				emit(max(0, s.Time.Sub(s.Store.FailingSince).Seconds()))
			}},
		{name: "weir_transactions_open", help: "Transactions of the job that are open on the brokers.",
			read: func(s *Status, emit emit) { emit(float64(len(s.Transactions))) }},
		{name: "weir_transaction_oldest_seconds", help: "Age of the oldest open transaction; absent where none is open.",
			read: func(s *Status, emit emit) {
				if len(s.Transactions) > 0 {
					oldest := slices.MinFunc(s.Transactions, func(a, b Transaction) int { return a.Since.Compare(b.Since) })
					emit(max(0, s.Time.Sub(oldest.Since).Seconds()))
				}
			}},
		{name: "weir_transaction_timeout_seconds", help: "Age at which the broker aborts a transaction; absent without transactions.",
			read: func(s *Status, emit emit) {
				if s.TransactionTimeoutSeconds > 0 {
					emit(s.TransactionTimeoutSeconds)
				}
			}},
	}
}
