package admin

import (
	"maps"
	"sync"
	"time"
)

// Retry is a request that had to be repeated.
type Retry struct {
	Time time.Time `json:"time"`
	// Code is Kafka's error code, "connection" where there was no answer.
	Code  string `json:"code"`
	Error string `json:"error"`
}

// Retries counts requests that are repeated until they succeed, and remembers the last: while a job waits for something, that
// is what it waits for. The zero value is ready; any goroutine may use it.
type Retries struct {
	mu struct {
		sync.Mutex
		counts map[string]int64
		last   *Retry
	}
}

// Record notes that a request is repeated because of an error.
func (r *Retries) Record(code string, err error) {
	text := err.Error()
	last := &Retry{Time: time.Now(), Code: code, Error: text[:min(len(text), failureTextBytes)]}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.counts == nil {
		r.mu.counts = map[string]int64{}
	}
	r.mu.counts[code]++
	r.mu.last = last
}

// Fill adds the counts to s's and sets LastRetry.
func (r *Retries) Fill(s *Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.LastRetry = r.mu.last
	sum := maps.Clone(r.mu.counts)
	if sum == nil {
		sum = map[string]int64{}
	}
	for code, n := range s.Retries {
		sum[code] += n
	}
	s.Retries = sum
}
