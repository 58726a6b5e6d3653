package admin

import (
	"errors"
	"strings"
	"testing"
)

func TestFailuresKeepTheLatestAndCountRestarts(t *testing.T) {
	var f Failures
	for i := range 25 {
		f.Record(Failure{Attempt: int64(i), Cause: CauseKafka, Error: strings.Repeat("x", 10_000)}, true)
	}
	f.Record(Failure{Attempt: 25, Cause: CauseData}, false)
	var s Status
	f.Fill(&s)
	if n := len(s.Failures); n != failuresKept || s.Failures[n-1].Attempt != 25 || s.Failures[0].Attempt != 16 {
		t.Errorf("kept %d failures: %+v", n, s.Failures)
	}
	if len(s.Failures[0].Error) != failureTextBytes {
		t.Errorf("kept %d bytes of a text", len(s.Failures[0].Error))
	}
	if s.Restarts[CauseKafka] != 25 || s.Restarts[CauseData] != 0 {
		t.Errorf("restarts %v, want 25 for kafka only", s.Restarts)
	}
}

func TestRetriesAreAddedUp(t *testing.T) {
	var r Retries
	r.Record("51", errors.New("concurrent transactions"))
	r.Record("connection", errors.New("broker gone"))
	s := Status{Incidents: Incidents{Retries: map[string]int64{"51": 2, "19": 1}}}
	r.Fill(&s)
	if s.Retries["51"] != 3 || s.Retries["19"] != 1 || s.Retries["connection"] != 1 {
		t.Errorf("retries %v", s.Retries)
	}
	if s.LastRetry == nil || s.LastRetry.Code != "connection" || s.LastRetry.Error != "broker gone" {
		t.Errorf("the last retry is %+v", s.LastRetry)
	}
}
