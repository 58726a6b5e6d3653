package sidecar

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/topology"
)

// LayoutError says that state in a checkpoint is not what the pipeline's operator would read it as.
type LayoutError struct {
	Operator string
	// Stored and Wanted describe the state's bytes, in the checkpoint and of the operator.
	Stored, Wanted string
}

// Error names both layouts, and the two ways to go on.
func (e *LayoutError) Error() string {
	return fmt.Sprintf("the state of operator %s was written as %s, but the operator now keeps %s: "+
		"undo the change, or give the operator another name, under which it starts without state", e.Operator, e.Stored, e.Wanted)
}

// OperatorDecides marks errors that no restart can mend.
func (e *LayoutError) OperatorDecides() bool { return true }

// PlanError says that the job cannot be laid out over its topics as they are now.
type PlanError struct{ Cause error }

// Error is the text of the cause, which the planner words for a person.
func (e *PlanError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *PlanError) Unwrap() error { return e.Cause }

// OperatorDecides marks errors that no restart can mend.
func (e *PlanError) OperatorDecides() bool { return true }

// layouts describes the state of a plan's operators, for the manifest.
func layouts(p *topology.Plan) string {
	m := map[string]string{}
	for _, st := range p.Steps {
		if st.Keyed {
			m[st.Name] = st.Layout
		}
	}
	text, _ := json.Marshal(m) // a map of strings always can be written
	return string(text)
}

// fits checks the state in a checkpoint against the plan. State whose operator is gone is left behind, with a warning: its
// name may have been changed by mistake.
func fits(m *checkpoint.Manifest, p *topology.Plan, logger *slog.Logger) error {
	var stored map[string]string
	if err := json.Unmarshal([]byte(m.Plan), &stored); err != nil {
		return &LostCheckpointError{m.Job, m.Checkpoint, "its manifest", fmt.Errorf("description of the state: %w; another version wrote it", err)}
	}
	for _, st := range p.Steps {
		if was, have := stored[st.Name]; have && was != st.Layout {
			return &LayoutError{Operator: st.Name, Stored: was, Wanted: st.Layout}
		}
		delete(stored, st.Name)
	}
	for name := range stored {
		logger.Warn("the checkpoint holds state of an operator that the pipeline does not have; it is left behind", "operator", name)
	}
	return nil
}
