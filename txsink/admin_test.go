package txsink_test

import (
	"testing"
	"time"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/tests/kafkatest"
	"github.com/weirstream/weir/txsink"
)

// operator makes transactions as a command does that an operator runs beside the job, or instead of it.
func (s *stand) operator(slots int) *txsink.Transactions {
	return txsink.NewTransactions(s.cluster, txsink.TransactionOptions{
		Job: s.ledger + "-job", Slots: slots, Outputs: s.outputs, Ledger: s.ledger, Timeout: time.Minute,
	})
}

// acceptAdministration is what must hold on every broker.
func acceptAdministration(t *testing.T, e *kafkatest.Endpoint) {
	t.Run("StatesAreTold", func(t *testing.T) {
		s := newStand(t, e)
		absent, err := s.operator(2).States(t.Context())
		if err != nil || len(absent) != 2 || absent[0].State != txsink.Absent {
			t.Fatalf("before the first attempt: %+v, %v", absent, err)
		}
		s.attempt()
		id := s.open(0)
		states, err := s.operator(2).States(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := states[0]; got.State != "Ongoing" || got.Identity != id || len(got.Partitions) != 6 || got.Started.IsZero() {
			t.Errorf("an open transaction: %+v", got)
		}
		if got := states[1]; got.State != "Empty" || len(got.Partitions) != 0 {
			t.Errorf("a fresh id: %+v", got)
		}
	})
	t.Run("AbortAllEndsWhatIsOpen", func(t *testing.T) {
		s := newStand(t, e)
		s.attempt()
		a := s.open(0)
		s.lane.Begin(a)
		s.write(1, 5)
		s.finish(1, record.Identity{})
		if w, err := s.operator(2).AbortAll(t.Context()); err != nil || w != nil {
			t.Fatalf("%+v, %v", w, err)
		}
		if err := s.txns.Commit(t.Context(), txsink.PermitFor(t, 1, a), witness(1, a)); err == nil {
			t.Error("what was aborted can be committed")
		}
		s.wantCommitted(0)
	})
	t.Run("CommitPreparedNeedsAManifest", func(t *testing.T) {
		s := newStand(t, e)
		s.attempt()
		a, _ := s.writeTwo()
		if _, err := s.operator(2).CommitPrepared(t.Context(), nil); err == nil {
			t.Fatal("a commit without a manifest")
		}
		w := witness(1, a)
		w.Job = s.ledger + "-job"
		last, err := s.operator(2).CommitPrepared(t.Context(), []txsink.Witness{w})
		if err != nil || last == nil || last.Checkpoint != 1 {
			t.Fatalf("%+v, %v", last, err)
		}
		s.wantCommitted(5, 1)
	})
	t.Run("Rule01IdsOfAFormerConfigurationAreFencedToo", func(t *testing.T) {
		s := newStand(t, e)
		s.attempt()
		s.open(0)
		b := s.open(1)
		s.lane.Begin(b)
		s.write(1, 5)
		s.finish(1, record.Identity{})
		if _, err := s.operator(1).AbortAll(t.Context()); err != nil { // its configuration has one id
			t.Fatal(err)
		}
		if err := s.txns.Commit(t.Context(), txsink.PermitFor(t, 1, b), witness(1, b)); err == nil {
			t.Error("an id that the new configuration does not have can still commit")
		}
		s.wantCommitted(0)
	})
}

func TestAdministrationOnFake(t *testing.T) { acceptAdministration(t, kafkatest.Fake(t).Endpoint) }
