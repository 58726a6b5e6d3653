package sidecar

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/task"
	"github.com/weirstream/weir/topology"
)

// stateFiles is what keyed state needs of the checkpoint store.
type stateFiles interface {
	statestore.Uploader
	statestore.Fetcher
}

// states opens and holds the keyed state of an attempt: one store for each keyed operator and subtask.
type states struct {
	settings *Settings
	plan     *topology.Plan
	run      string
	files    stateFiles
	writes   *storeWrites
	restore  []record.StateHandle
	mu       sync.Mutex
	open     []*operatorState
}

// operatorState is the task.State of one operator in one subtask.
type operatorState struct {
	*statestore.Store
	operator string
	subtask  int
	files    stateFiles
	writes   *storeWrites
}

// store opens the state of a step in a subtask, restored from the checkpoint.
func (s *states) store(ctx context.Context, subtask, step int) (task.State, error) {
	st := s.plan.Steps[step]
	var handles []record.StateHandle
	for _, h := range s.restore {
		if h.Operator == st.Name {
			handles = append(handles, h)
		}
	}
	route := s.routeTo(st.Chain)
	o := statestore.Options{
		Backend: s.settings.State.Backend, Dir: filepath.Join(s.settings.State.Dir, s.settings.Job, st.Name, strconv.Itoa(subtask)),
		CacheBytes: s.settings.State.Cache / int64(s.stores()), Groups: s.plan.Groups, Subtask: subtask, Operator: st.Name,
		Run: s.run, Log: s.settings.Logger,
	}
	store, err := statestore.Open(ctx, o, handles, s.files, func(g record.KeyGroup) bool { return route == nil || int(route[g]) == subtask })
	if err != nil {
		return nil, err
	}
	state := &operatorState{Store: store, operator: st.Name, subtask: subtask, files: s.files, writes: s.writes}
	s.mu.Lock()
	s.open = append(s.open, state)
	s.mu.Unlock()
	return state, nil
}

// routeTo returns the route of the edges that end in a chain; they agree, since a keyed chain's key decides.
func (s *states) routeTo(chain int) []int32 {
	for _, e := range s.plan.Chains[chain].Inputs {
		if r := s.plan.Edges[e].Route; r != nil {
			return r
		}
	}
	return nil
}

// stores is the number of stores that share the cache.
func (s *states) stores() int {
	n := 0
	for _, st := range s.plan.Steps {
		if st.Keyed {
			n += s.plan.Subtasks
		}
	}
	return max(n, 1)
}

// committed lets the stores drop what they keep for checkpoints before n.
func (s *states) committed(n record.CheckpointID) {
	s.mu.Lock()
	open := slices.Clone(s.open)
	s.mu.Unlock()
	for _, o := range open {
		if err := o.Committed(n); err != nil {
			s.settings.Logger.Warn("local copies of older checkpoints stay for now", "operator", o.operator, "error", err)
		}
	}
}

func (s *states) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.open {
		if err := o.Close(); err != nil {
			s.settings.Logger.Warn("state did not close cleanly; it is not used again", "operator", o.operator, "error", err)
		}
	}
	s.open = nil
}

// Table implements task.State.
func (o *operatorState) Table(name string) (topology.Table, error) {
	return o.Store.Table(name)
}

// Freeze implements task.State.
func (o *operatorState) Freeze(n record.CheckpointID) task.Snapshot {
	return &snapshot{o, n, o.Store.Freeze(n)}
}

type snapshot struct {
	state      *operatorState
	checkpoint record.CheckpointID
	frozen     *statestore.Snapshot
}

// Persist implements task.Snapshot.
func (s *snapshot) Persist(ctx context.Context) (h record.StateHandle, err error) {
	what := fmt.Sprintf("the state of operator %s in subtask %d at checkpoint %d", s.state.operator, s.state.subtask, s.checkpoint)
	err = s.state.writes.write(ctx, what, func(ctx context.Context) (err error) {
		h, err = s.frozen.Persist(ctx, s.state.files)
		if err != nil && s.state.Err() != nil {
			err = fmt.Errorf("%w: %w", task.ErrStateLost, err)
		}
		return err
	})
	return h, err
}
