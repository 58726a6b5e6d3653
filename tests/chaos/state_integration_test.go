//go:build integration

package chaos

import (
	"context"
	bigendian "encoding/binary"
	"path/filepath"
	"slices"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/verify"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/topology/row"
)

// judgeState compares the state in the last checkpoint of a job that has ended with the fold of the check, key by key. All that
// was fed is in that checkpoint.
func (b *bed) judgeState() {
	b.t.Helper()
	store, err := checkpoint.OpenDir(filepath.Join(b.Dir, "checkpoints"))
	b.must(err)
	catalog, err := checkpoint.NewCatalog(store, b.Job)
	b.must(err)
	list, err := catalog.List(context.Background())
	b.must(err)
	if len(list) == 0 {
		b.t.Fatal("no checkpoint is left")
	}
	m, err := catalog.Read(context.Background(), list[0].Location, "")
	b.must(err)
	for operator, branch := range map[string]verify.Branch{"per_user": verify.ByUser, "per_page": verify.ByPage} {
		b.compareState(catalog, m, operator, b.checker.Totals(branch))
	}
}

func (b *bed) compareState(catalog *checkpoint.Catalog, m *checkpoint.Manifest, operator string, want map[string]verify.Total) {
	b.t.Helper()
	handles := slices.DeleteFunc(slices.Clone(m.States), func(h record.StateHandle) bool { return h.Operator != operator })
	o := statestore.Options{Dir: b.t.TempDir(), Groups: m.Groups, Operator: operator, Run: "judge"}
	s, err := statestore.Open(context.Background(), o, handles, catalog, nil)
	b.must(err)
	defer func() { b.must(s.Close()) }()
	values, err := s.Table("values")
	b.must(err)
	for key, total := range want {
		acc, found, err := values.Get(record.GroupOf([]byte(key), m.Groups), []byte(key))
		b.must(err)
		if !found || len(acc) < 17 {
			b.t.Errorf("checkpoint %d: %s has no state of %s, want %d views", m.Checkpoint, operator, key, total.Views)
			continue
		}
		views, time := int64(bigendian.BigEndian.Uint64(acc)), row.Fixed(acc[8:], nil).Int()
		if views != total.Views || time != total.Time {
			b.t.Errorf("checkpoint %d: the state of %s in %s is %d views of %d ms, want %d of %d", m.Checkpoint, key, operator, views, time,
				total.Views, total.Time)
		}
	}
	b.t.Logf("checkpoint %d: the state of %s is compared for %d keys", m.Checkpoint, operator, len(want))
}
