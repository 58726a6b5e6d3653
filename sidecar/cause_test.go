package sidecar

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/weirstream/weir/admin"
	"github.com/weirstream/weir/barrier"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/consumer"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/task"
	"github.com/weirstream/weir/txsink"
)

func TestCauseOfAnEnd(t *testing.T) {
	full := &StoreError{Path: "/c", What: "state", Last: syscall.ENOSPC}
	for _, c := range []struct {
		err   error
		cause admin.Cause
		final bool
	}{
		{fmt.Errorf("%w: %w", barrier.ErrExpiring, full), admin.CauseStore, false},
		{&StoreError{Last: syscall.EACCES}, admin.CauseStore, true},
		{&LostCheckpointError{Job: "j", Checkpoint: 7, Cause: errors.New("gone")}, admin.CauseState, true},
		{&LayoutError{Operator: "count"}, admin.CauseState, true},
		{&StateLeftError{Operators: []string{"count"}}, admin.CauseState, true},
		{fmt.Errorf("subtask 1: %w", statestore.ErrSync), admin.CauseState, true},
		{fmt.Errorf("collect: %w", checkpoint.ErrSync), admin.CauseStore, true},
		{fmt.Errorf("subtask 1: %w", statestore.ErrBroken), admin.CauseState, false},
		{&consumer.GapError{Source: "in"}, admin.CauseData, true},
		{fmt.Errorf("checkpoint 7: %w: %w", barrier.ErrCommitUnknown, &txsink.RecreatedError{Topic: "out"}), admin.CauseData, true},
		{fmt.Errorf("%w (%w)", &AnotherInstanceError{Job: "j"}, txsink.ErrFenced), admin.CauseFenced, true},
		{txsink.ErrFenced, admin.CauseFenced, false},
		{fmt.Errorf("subtask 1: %w", task.ErrOperator), admin.CauseOperator, false},
		{&kafka.Error{Op: "fetch", Code: 3}, admin.CauseKafka, false},
		{barrier.ErrExpiring, admin.CauseTimeout, false},
		{errors.New("odd"), admin.CauseOther, false},
	} {
		if got := causeOf(c.err); got != c.cause || final(c.err) != c.final {
			t.Errorf("%v: cause %s, final %t; want %s, %t", c.err, got, final(c.err), c.cause, c.final)
		}
	}
}
