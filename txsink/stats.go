package txsink

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/IBM/sarama"
)

// WriterStats count what a writer did since its start. Any goroutine may read them.
type WriterStats struct {
	outputs []outputStats
	mu      sync.Mutex
	retries map[string]int64
}

type outputStats struct{ records, bytes atomic.Int64 }

// Written returns what is acknowledged of an output; bytes are keys, values and an estimate of their encoding.
func (w *Writer) Written(output int) (records, bytes int64) {
	o := &w.stats.outputs[output]
	return o.records.Load(), o.bytes.Load()
}

// retry counts an answer that is not success by its code, "connection" for those without one.
func (s *WriterStats) retry(err error) {
	name := "connection"
	var code sarama.KError
	if errors.As(err, &code) {
		name = strconv.Itoa(int(code))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retries == nil {
		s.retries = map[string]int64{}
	}
	s.retries[name]++
}

// Retries returns how often each error code was answered.
func (s *WriterStats) Retries() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[string]int64{}
	for k, v := range s.retries {
		m[k] = v
	}
	return m
}

// Stats returns the writer's counters.
func (w *Writer) Stats() *WriterStats { return &w.stats }
