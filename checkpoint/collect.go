package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/internal/failpoint"
	"github.com/weirstream/weir/record"
)

// Retention says what Collect must leave.
type Retention struct {
	// Keep is how many committed checkpoints stay, the newest; at least 1.
	Keep int
	// Committed is the newest checkpoint that is known to be committed. Everything after it stays.
	Committed record.CheckpointID
	// Run is the run of the caller, which may have uploaded files that no manifest refers to yet.
	Run string
}

// Collected counts what Collect removed.
type Collected struct {
	Manifests, Blobs int
}

// abandoned is the age at which an unnamed file belongs to a writer that died. Where it does not, the writer fails and
// tries again.
const abandoned = 24 * time.Hour

// Collect removes checkpoints beyond the retention and files that nothing needs. It may stop anywhere: manifests go
// before the files that they refer to, and what is left over goes the next time. A collector that was deposed without
// knowing does no harm, see the package comment.
func (c *Catalog) Collect(ctx context.Context, r Retention, now time.Time) (Collected, error) {
	attempt, ok := RunAttempt(r.Run)
	if r.Keep < 1 || r.Committed < 1 || !ok {
		return Collected{}, fmt.Errorf("cannot collect checkpoints: keep %d, committed %d, run %q", r.Keep, r.Committed, r.Run)
	}
	names, err := c.store.List(ctx, c.job)
	if err != nil {
		return Collected{}, fmt.Errorf("listing the checkpoints of %s: %w", c.job, err)
	}
	k := &collection{catalog: c, attempt: attempt, needed: map[string]bool{}, freed: map[string]bool{}}
	if err := k.choose(ctx, c.refs(names), r); err != nil {
		return Collected{}, err
	}
	if err := k.removeManifests(ctx); err != nil {
		return k.done, err
	}
	failpoint.Pass(failpoint.ManifestsRemoved)
	if err := k.removeBlobs(ctx, names); err != nil {
		return k.done, err
	}
	return k.done, c.store.Sweep(ctx, now.Add(-abandoned))
}

// collection is one run of Collect.
type collection struct {
	catalog *Catalog
	attempt record.Attempt
	remove  []Ref           // manifests to remove, oldest first
	needed  map[string]bool // files that a manifest which stays refers to
	freed   map[string]bool // files that a removed manifest refers to
	done    Collected
}

// choose decides which manifests stay. One that cannot be read does not count towards Keep, so that there are always as
// many to fall back to.
func (k *collection) choose(ctx context.Context, refs []Ref, r Retention) error {
	if !slices.ContainsFunc(refs, func(ref Ref) bool { return ref.Checkpoint == r.Committed }) {
		return fmt.Errorf("nothing is collected: the manifest of committed checkpoint %d is not listed", r.Committed)
	}
	kept, last := 0, record.CheckpointID(0)
	for _, ref := range refs { // newest first
		old := ref.Checkpoint <= r.Committed && kept >= r.Keep && ref.Checkpoint != last
		if old {
			k.remove = append(k.remove, ref)
		}
		m, err := k.catalog.Read(ctx, ref.Location, "")
		if corrupt := (*CorruptError)(nil); errors.As(err, &corrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if old {
			mark(k.freed, m)
			continue
		}
		mark(k.needed, m)
		if ref.Checkpoint <= r.Committed && ref.Checkpoint != last {
			kept, last = kept+1, ref.Checkpoint
		}
	}
	slices.Reverse(k.remove)
	return nil
}

func mark(set map[string]bool, m *Manifest) {
	for _, b := range m.Blobs() {
		set[b.Name] = true
	}
}

func (k *collection) removeManifests(ctx context.Context) error {
	for _, ref := range k.remove {
		if err := k.catalog.store.Remove(ctx, ref.Location); err != nil {
			return fmt.Errorf("removing checkpoint %d: %w", ref.Checkpoint, err)
		}
		k.done.Manifests++
	}
	return nil
}

func (k *collection) removeBlobs(ctx context.Context, names []string) error {
	for _, name := range names {
		rest, shared := strings.CutPrefix(name, k.catalog.shared()+"/")
		if !shared || k.needed[name] || !k.freed[name] && !k.orphan(rest) {
			continue
		}
		if err := k.catalog.store.Remove(ctx, name); err != nil {
			return fmt.Errorf("removing %s: %w", name, err)
		}
		k.done.Blobs++
	}
	return nil
}

// orphan says whether a file without a reference can no longer get one: it is of an attempt before ours, which is fenced.
func (k *collection) orphan(name string) bool {
	run, _, _ := strings.Cut(name, "/")
	attempt, ok := RunAttempt(run)
	return ok && attempt < k.attempt
}
