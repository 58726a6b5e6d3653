package sidecar

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/txsink"
)

// lookForTopic is the time between two looks for a topic that is gone.
const lookForTopic = time.Second

// TopicGoneError says that a topic of the job has been deleted and not created again.
type TopicGoneError struct{ Topic string }

// Error names the topic.
func (e *TopicGoneError) Error() string {
	return fmt.Sprintf("topic %s does not exist any more: create it again; if it was an input or output, the next start says what that means", e.Topic)
}

// OperatorDecides marks errors that no restart can mend.
func (e *TopicGoneError) OperatorDecides() bool { return true }

// LostLedgerError says that the ledger is not the one that the job's checkpoints were committed in.
type LostLedgerError struct {
	Topic string
	// Newest is the newest checkpoint in the store.
	Newest record.CheckpointID
}

// Error names the checkpoint that would be gone on from, and what that can lose.
func (e *LostLedgerError) Error() string {
	return fmt.Sprintf("ledger %s was deleted and created again: nothing tells any more which checkpoints are committed. "+
		"Going on from checkpoint %d, the newest in the store, repeats nothing, but can lose the results of checkpoints that were in "+
		"progress when the job last ended", e.Topic, e.Newest)
}

// OperatorDecides marks errors that no restart can mend.
func (e *LostLedgerError) OperatorDecides() bool { return true }

// Loss is the topic whose loss may be accepted: the newest checkpoint is taken for committed.
func (e *LostLedgerError) Loss() string { return e.Topic }

// topic waits for a topic that is gone for a while.
func (j *Job) topic(ctx context.Context, name string) (*kafka.Topic, error) {
	for begin := time.Now(); ; {
		exists, err := j.cluster.Exists(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case exists:
			return j.cluster.Topic(ctx, name)
		case time.Since(begin) > j.settings.MissingAfter:
			return nil, &TopicGoneError{name}
		}
		j.setState(j.currentState(), fmt.Sprintf("topic %s is gone, looking for it again", name))
		if err := kafka.Sleep(ctx, min(lookForTopic, j.settings.MissingAfter/4)); err != nil {
			return nil, err
		}
	}
}

// accepts says whether the loss of what a source or topic held is accepted.
func (s *Settings) accepts(name string) bool { return slices.Contains(s.AcceptLoss, name) }

// sameOutputs compares the topics that a checkpoint's results are in with those of now.
func (a *attempt) sameOutputs(m *checkpoint.Manifest) error {
	for _, was := range m.Outputs {
		i := slices.IndexFunc(a.outputs, func(t checkpoint.Topic) bool { return t.Topic == was.Topic })
		if i < 0 {
			continue // not written to any more
		}
		is, logger := a.outputs[i], a.job.settings.Logger
		if is.ID != was.ID {
			err := &txsink.RecreatedError{Topic: is.Topic, Old: was.ID, New: is.ID}
			if !a.job.settings.accepts(is.Topic) {
				return err
			}
			logger.Warn("the results of before are gone, as accepted", "topic", is.Topic, "because", err)
		} else if is.Partitions != was.Partitions {
			logger.Warn("an output topic has got partitions: records of a key may go to another partition than before, so their order holds "+
				"from here on only", "topic", is.Topic, "partitions", is.Partitions, "before", was.Partitions, "checkpoint", m.Checkpoint)
		}
	}
	return nil
}

// withoutWitness is called where the ledger has no witness. That is a new job, unless its checkpoints were committed in another
// ledger of the same name.
func (a *attempt) withoutWitness(ctx context.Context) error {
	m, manifest, err := a.newest(ctx)
	if err != nil || m == nil {
		return err
	}
	s := a.job.settings
	is := slices.IndexFunc(a.outputs, func(t checkpoint.Topic) bool { return t.Topic == s.Ledger })
	was := slices.IndexFunc(m.Outputs, func(t checkpoint.Topic) bool { return t.Topic == s.Ledger })
	if is < 0 || was < 0 || a.outputs[is].ID == m.Outputs[was].ID {
		return nil // its first checkpoints were never committed
	}
	lost := &LostLedgerError{s.Ledger, m.Checkpoint}
	if !s.accepts(s.Ledger) {
		return lost
	}
	s.Logger.Warn("the newest checkpoint is taken for committed, as accepted", "checkpoint", m.Checkpoint, "because", lost)
	return a.goOnFrom(m, manifest)
}
