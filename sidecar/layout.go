package sidecar

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/topology"
)

// LayoutError says that state in a checkpoint is not what the pipeline's operator would read it as.
type LayoutError struct {
	Operator string
	// Stored and Wanted describe the state's bytes, in the checkpoint and of the operator.
	Stored, Wanted string
}

// Error names both layouts, and what going on means.
func (e *LayoutError) Error() string {
	return fmt.Sprintf("the state of operator %s was written as %s, but the operator now keeps %s: "+
		"undo the change, or let the operator start without state", e.Operator, e.Stored, e.Wanted)
}

// Loss is the state that may be given up.
func (e *LayoutError) Loss() string { return operatorPrefix + e.Operator }

// OperatorDecides marks errors that no restart can mend.
func (e *LayoutError) OperatorDecides() bool { return true }

// StateLeftError says that a checkpoint holds state of operators that the pipeline does not have.
type StateLeftError struct{ Operators []string }

// Error names the operators, and the mistake that this may be.
func (e *StateLeftError) Error() string {
	return fmt.Sprintf("the checkpoint holds state of %s, which the pipeline does not have: an operator is known by its name, so one that was "+
		"renamed would start without state; give it its old name again, or let the state go", strings.Join(e.Operators, ", "))
}

// OperatorDecides marks errors that no restart can mend.
func (e *StateLeftError) OperatorDecides() bool { return true }

// Loss lists the states that may be given up.
func (e *StateLeftError) Loss() string {
	return operatorPrefix + strings.Join(e.Operators, ","+operatorPrefix)
}

// operatorPrefix goes before the name of an operator whose state may be lost, since the pipeline may not know the name.
const operatorPrefix = "operators."

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

// fits checks the state in a checkpoint against the plan, and returns the operators whose state is to be left behind, as
// accepted.
func fits(m *checkpoint.Manifest, p *topology.Plan, s *Settings) (leave []string, err error) {
	var stored map[string]string
	if err := json.Unmarshal([]byte(m.Plan), &stored); err != nil {
		return nil, &LostCheckpointError{m.Job, m.Checkpoint, "its manifest", fmt.Errorf("description of the state: %w; another version wrote it", err)}
	}
	for _, st := range p.Steps {
		was, have := stored[st.Name]
		delete(stored, st.Name)
		if !have || was == st.Layout {
			continue
		}
		if !s.accepts(operatorPrefix + st.Name) {
			return nil, &LayoutError{Operator: st.Name, Stored: was, Wanted: st.Layout}
		}
		leave = append(leave, st.Name)
	}
	gone := &StateLeftError{}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		switch {
		case !holdsState(m, name):
		case s.accepts(operatorPrefix + name):
			leave = append(leave, name)
		default:
			gone.Operators = append(gone.Operators, name)
		}
	}
	if len(gone.Operators) > 0 {
		return nil, gone
	}
	return leave, nil
}

// holdsState says whether a checkpoint may have entries of an operator.
func holdsState(m *checkpoint.Manifest, operator string) bool {
	return slices.ContainsFunc(m.States, func(h record.StateHandle) bool { return h.Operator == operator && len(h.KeyGroups) > 0 })
}
