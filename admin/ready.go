package admin

import (
	"fmt"
	"time"
)

// alive says why the process should be replaced, nil if it should not. A job that restarts is alive: it mends itself.
func (s *Status) alive() error {
	if s.State == Failed {
		return fmt.Errorf("the job has failed for good: %s", s.reason())
	}
	return nil
}

// ready says why no fresh results come from the job, nil if they do: it runs, and its last commit is younger than within.
func (s *Status) ready(within time.Duration) error {
	switch {
	case s.State != Running:
		return fmt.Errorf("the job is %s%s", s.State, s.because())
	case s.Checkpoints.Committed == nil:
		return fmt.Errorf("no checkpoint is committed yet%s", s.because())
	}
	c := s.Checkpoints.Committed
	if age := seconds(c.AgeSeconds); age > within {
		return fmt.Errorf("the last commit, of checkpoint %d, is %v old, more than %v%s", c.ID, age, within, s.because())
	}
	return nil
}

// retriedSince names the error that was tried again last, if that was after t.
func (s *Status) retriedSince(t time.Time) string {
	if s.LastRetry == nil || s.LastRetry.Time.Before(t) {
		return ""
	}
	return "; tried again because of: " + s.LastRetry.Error
}

func (s *Status) reason() string {
	switch {
	case s.Reason != "":
		return s.Reason
	case len(s.Failures) > 0:
		return s.Failures[len(s.Failures)-1].Error
	}
	return "no cause is known"
}

// because completes a sentence with what is known of the cause.
func (s *Status) because() string {
	if s.Reason == "" && s.State == Running && s.Store.Error != "" {
		return "; " + s.Store.Error
	}
	if p := s.Checkpoints.InProgress; s.Reason == "" && s.State == Running && len(p) > 0 {
		return fmt.Sprintf("; checkpoint %d has been in phase %s for %v, acknowledged by %d of %d subtasks%s", p[0].ID, p[0].Phase,
			s.Time.Sub(p[0].Since).Round(time.Millisecond), len(p[0].Acknowledged), len(s.Subtasks), s.retriedSince(p[0].Since))
	}
	if s.Reason == "" && len(s.Failures) == 0 {
		return ""
	}
	return ": " + s.reason()
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}
