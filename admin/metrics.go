package admin

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Phase is a part of the way of a checkpoint from its trigger to its commit. There are few, for they are a label.
type Phase string

// The phases. Those of a subtask are reported once per subtask and checkpoint, the others once per checkpoint.
const (
	// PhaseAlign: channels are held until the barrier has arrived on all.
	PhaseAlign Phase = "align"
	// PhaseFreeze: the stream stands still while the changes are marked.
	PhaseFreeze Phase = "freeze"
	// PhasePersist: the state of a subtask is made durable.
	PhasePersist Phase = "persist"
	// PhaseWrite: a subtask waits for the acknowledgement of its writes, after its state is durable.
	PhaseWrite Phase = "write"
	// PhaseBarrier: from the trigger until every subtask has reported.
	PhaseBarrier Phase = "barrier"
	// PhaseManifest: the manifest is written.
	PhaseManifest Phase = "manifest"
	// PhaseCommit: witness and offsets are written into the transaction and Kafka is asked to commit it.
	PhaseCommit Phase = "commit"
	// PhaseWitness, PhaseEndTxn and PhaseMarkers are the steps of a commit: witness and offsets are written, the transaction is
	// committed, and, behind the stream, its markers reach all partitions so that its id may be used again.
	PhaseWitness Phase = "witness"
	PhaseEndTxn  Phase = "end_txn"
	PhaseMarkers Phase = "markers"
	// PhaseTotal: from the trigger until the commit.
	PhaseTotal Phase = "total"
)

func phases() []Phase {
	return []Phase{
		PhaseAlign, PhaseFreeze, PhasePersist, PhaseWrite, PhaseBarrier, PhaseManifest, PhaseCommit, PhaseWitness, PhaseEndTxn, PhaseMarkers,
		PhaseTotal,
	}
}

// phaseBuckets reach from a freeze of microseconds to a checkpoint that is near its transaction's timeout, in seconds.
func phaseBuckets() []float64 {
	return []float64{0.00001, 0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
}

// Metrics takes what happens as an event with a duration. Its methods may be called by any goroutine.
type Metrics struct {
	registry *prometheus.Registry
	phases   map[Phase]prometheus.Observer
}

// NewMetrics returns metrics in a registry of their own, next to those of the Go runtime and the process.
func NewMetrics() *Metrics {
	histogram := newPhases()
	m := &Metrics{registry: prometheus.NewRegistry(), phases: map[Phase]prometheus.Observer{}}
	for _, p := range phases() {
		m.phases[p] = histogram.WithLabelValues(string(p))
	}
	m.registry.MustRegister(histogram, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func newPhases() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: phaseMetric, Help: phaseHelp, Buckets: phaseBuckets()},
		[]string{"phase"})
}

const (
	phaseMetric = "weir_checkpoint_phase_duration_seconds"
	phaseHelp   = "How long the phases of checkpoints took."
)

// Phase notes how long a phase took. A phase that is not one of the constants is left out.
func (m *Metrics) Phase(p Phase, took time.Duration) {
	if o := m.phases[p]; o != nil {
		o.Observe(took.Seconds())
	}
}

const (
	scrapesAtOnce = 4
	scrapeTimeout = 10 * time.Second
)

// handler serves the metrics together with those rendered from the status of a job.
func (m *Metrics) handler(j Job) http.Handler {
	rendered := prometheus.NewRegistry()
	rendered.MustRegister(newCollector(j))
	return promhttp.HandlerFor(prometheus.Gatherers{m.registry, rendered},
		promhttp.HandlerOpts{MaxRequestsInFlight: scrapesAtOnce, Timeout: scrapeTimeout})
}
