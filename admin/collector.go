package admin

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// collector renders the table from the status of a job, one picture for each scrape.
type collector struct {
	job   Job
	table []series
	descs []*prometheus.Desc
}

func newCollector(j Job) *collector {
	c := &collector{job: j, table: table()}
	for _, s := range c.table {
		c.descs = append(c.descs, prometheus.NewDesc(s.name, s.help, s.labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	status := picture(c.job)
	for i, s := range c.table {
		kind := prometheus.GaugeValue
		if s.counter {
			kind = prometheus.CounterValue
		}
		s.read(&status, func(value float64, labels ...string) {
			m, err := prometheus.NewConstMetric(c.descs[i], kind, value, labels...)
			if err != nil {
				m = prometheus.NewInvalidMetric(c.descs[i], err)
			}
			to <- m
		})
	}
}

// group makes one value from all items of a status that have the same labels.
type group[T any] struct {
	items  func(*Status) []T
	labels func(T) []string
}

func (g group[T]) sum(value func(T) int64) func(*Status, emit) {
	return g.reduce(value, func(a, b int64) int64 { return a + b })
}

func (g group[T]) most(value func(T) int64) func(*Status, emit) {
	return g.reduce(value, func(a, b int64) int64 { return max(a, b) })
}

func (g group[T]) reduce(value func(T) int64, both func(a, b int64) int64) func(*Status, emit) {
	return func(s *Status, emit emit) {
		values, labels := map[string]int64{}, map[string][]string{}
		for _, item := range g.items(s) {
			l := g.labels(item)
			key := strings.Join(l, "\x00")
			values[key], labels[key] = both(values[key], value(item)), l
		}
		for key, v := range values {
			emit(float64(v), labels[key]...)
		}
	}
}

// codesKept bounds the values of a label that comes from outside. Kafka has about 130 error codes.
const codesKept = 160

// bounded emits counts by name; what is too much goes into "other".
func bounded(counts map[string]int64, emit emit) {
	var other int64
	for i, name := range slices.Sorted(maps.Keys(counts)) {
		if i < codesKept {
			emit(float64(counts[name]), name)
		} else {
			other += counts[name]
		}
	}
	if other > 0 {
		emit(float64(other), "other")
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
