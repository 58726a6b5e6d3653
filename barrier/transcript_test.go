package barrier

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/weirstream/weir/record"
)

// TestTranscripts replays the scenarios under testdata. Run with -rewrite to write what the cores answer now.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.run(t, d)
		})
	})
}

// script is the state of one transcript.
type script struct {
	coordinator *Coordinator
	aligner     *Aligner
	recovery    *Recovery
	attempt     record.Attempt
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "coordinator":
		return s.newCoordinator(t, d)
	case "aligner":
		mode := Aligned
		if d.HasArg("at-least-once") {
			mode = AtLeastOnce
		}
		s.aligner = NewAligner(intArg(t, d, "channels", 1), mode)
		return ""
	case "arrive":
		return s.arrive(t, d)
	case "recovery":
		return s.newRecovery(t, d)
	case "rolled-forward":
		return describeRecovery(s.recovery.Step(RolledForward{d.HasArg("committed")}))
	case "all-fenced":
		return describeRecovery(s.recovery.Step(AllFenced{}))
	case "ledger":
		return describeRecovery(s.recovery.Step(LedgerRead{record.CheckpointID(intArg(t, d, "last", 0)), d.HasArg("held-back")}))
	}
	return describe(s.coordinator.Step(s.event(t, d)))
}

func (s *script) newCoordinator(t *testing.T, d *datadriven.TestData) string {
	s.attempt = record.Attempt(intArg(t, d, "attempt", 1))
	c, err := NewCoordinator(CoordinatorOptions{
		Attempt: s.attempt, Subtasks: intArg(t, d, "subtasks", 1), Next: record.CheckpointID(intArg(t, d, "next", 1)),
		Slots: intArg(t, d, "slots", 2), MaxInFlight: intArg(t, d, "in-flight", 2),
	})
	if err != nil {
		return "error: " + err.Error()
	}
	s.coordinator = c
	return ""
}

func (s *script) arrive(t *testing.T, d *datadriven.TestData) string {
	b := record.Barrier{Checkpoint: record.CheckpointID(intArg(t, d, "checkpoint", 0)),
		Attempt: record.Attempt(intArg(t, d, "attempt", 1)), Final: d.HasArg("final"), Next: identityArg(t, d, "next")}
	done, err := s.aligner.Arrive(intArg(t, d, "channel", 0), b)
	var out strings.Builder
	switch {
	case err != nil && !errors.Is(err, ErrProtocol):
		t.Fatalf("error of no known class: %v", err)
	case err != nil:
		fmt.Fprintf(&out, "error: %v\n", err)
	case done:
		out.WriteString("done\n")
	}
	out.WriteString("held:")
	for i := range s.aligner.last {
		if s.aligner.Held(i) {
			fmt.Fprintf(&out, " %d", i)
		}
	}
	return out.String()
}

// newRecovery reads one candidate a line: CHECKPOINT IDENTITY.
func (s *script) newRecovery(t *testing.T, d *datadriven.TestData) string {
	var candidates []Candidate
	for line := range strings.Lines(d.Input) {
		var c Candidate
		var id string
		if _, err := fmt.Sscan(line, &c.Checkpoint, &id); err != nil {
			t.Fatalf("%s: candidate %q: %v", d.Pos, line, err)
		}
		c.Identity = parseIdentity(t, d, id)
		candidates = append(candidates, c)
	}
	var first RecoveryAction
	s.recovery, first = NewRecovery(record.CheckpointID(intArg(t, d, "known", 0)), candidates)
	return describeRecovery(first)
}

func describeRecovery(a RecoveryAction) string {
	switch a := a.(type) {
	case RollForward:
		return fmt.Sprintf("roll forward %d in %s", a.Permit.Checkpoint(), short(a.Permit.Identity()))
	case FenceAll:
		return "fence all"
	case ReadLedger:
		return "read the ledger"
	case Restore:
		return fmt.Sprintf("restore %d", a.Checkpoint)
	case Refuse:
		return "refuse: " + a.Cause.Error()
	}
	return fmt.Sprintf("unknown action %T", a)
}

func (s *script) event(t *testing.T, d *datadriven.TestData) Event {
	n := record.CheckpointID(intArg(t, d, "checkpoint", 0))
	switch d.Cmd {
	case "begin":
		return Begin{}
	case "interval":
		return IntervalElapsed{}
	case "opened":
		return TransactionOpened{Slot: intArg(t, d, "slot", 0), Identity: identityArg(t, d, "identity")}
	case "acknowledged":
		return Acknowledged{Attempt: record.Attempt(intArg(t, d, "attempt", int(s.attempt))), Checkpoint: n,
			Subtask: intArg(t, d, "subtask", 0)}
	case "prepared":
		return Prepared{n}
	case "committed":
		return Committed{n}
	case "commit-unknown":
		return CommitUnknown{n, errors.New("no answer")}
	case "released":
		return SlotReleased{intArg(t, d, "slot", 0)}
	case "expiring":
		return Expiring{n}
	case "failed":
		return Failed{errors.New("a subtask failed")}
	case "stop":
		return Stop{}
	}
	t.Fatalf("%s: unknown event %s", d.Pos, d.Cmd)
	return nil
}

func intArg(t *testing.T, d *datadriven.TestData, name string, otherwise int) int {
	d.MaybeScanArgs(t, name, &otherwise)
	return otherwise
}

// identityArg reads ID/PRODUCER/EPOCH.
func identityArg(t *testing.T, d *datadriven.TestData, name string) (i record.Identity) {
	var text string
	if !d.MaybeScanArgs(t, name, &text) {
		return i
	}
	return parseIdentity(t, d, text)
}

func parseIdentity(t *testing.T, d *datadriven.TestData, text string) (i record.Identity) {
	text = strings.ReplaceAll(text, "/", " ")
	if _, err := fmt.Sscanf(text, "%s %d %d", &i.TransactionalID, &i.ProducerID, &i.Epoch); err != nil {
		t.Fatalf("%s: identity %q: %v", d.Pos, text, err)
	}
	return i
}

func describe(actions []Action) string {
	if len(actions) == 0 {
		return "(nothing)"
	}
	lines := make([]string, len(actions))
	for i, a := range actions {
		lines[i] = describeAction(a)
	}
	return strings.Join(lines, "\n")
}

func describeAction(a Action) string {
	switch a := a.(type) {
	case OpenTransaction:
		return fmt.Sprintf("open transaction in slot %d", a.Slot)
	case Start:
		return "start in " + short(a.Identity)
	case Trigger:
		final := ""
		if a.Barrier.Final {
			final = ", final"
		}
		return fmt.Sprintf("trigger %d of attempt %d, next %s%s", a.Barrier.Checkpoint, a.Barrier.Attempt, short(a.Barrier.Next), final)
	case Prepare:
		return fmt.Sprintf("prepare %d in %s", a.Checkpoint, short(a.Identity))
	case Commit:
		return fmt.Sprintf("commit %d in %s", a.Permit.Checkpoint(), short(a.Permit.Identity()))
	case NotifyCommitted:
		return fmt.Sprintf("notify committed %d", a.Checkpoint)
	case ReleaseSlot:
		return fmt.Sprintf("release slot %d of %s", a.Slot, short(a.Identity))
	case AbortSlot:
		return fmt.Sprintf("abort slot %d of %s", a.Slot, short(a.Identity))
	case EndAttempt:
		return "end attempt: " + a.Cause.Error()
	case Finished:
		return "finished"
	}
	return fmt.Sprintf("unknown action %T", a)
}

func short(i record.Identity) string {
	if i.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%s/%d/%d", i.TransactionalID, i.ProducerID, i.Epoch)
}
