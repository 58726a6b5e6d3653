package statestore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/statestore"
	"github.com/weirstream/weir/statestore/storetest"
)

const (
	benchKeys   = 1 << 20
	benchGroups = 128
)

func openBench(b testing.TB, o statestore.Options) (*statestore.Store, *counter) {
	b.Helper()
	o.Groups, o.Operator, o.Run, o.Dir = benchGroups, "count", "bench", filepath.Join(b.TempDir(), "state")
	s, err := statestore.Open(context.Background(), o, nil, new(storetest.Files), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	t, err := s.Table("counts")
	if err != nil {
		b.Fatal(err)
	}
	return s, &counter{Table: t}
}

// benchKey makes the n-th key in key and returns its group, spread as a hash spreads them.
func benchKey(n int, key []byte) record.KeyGroup {
	binary.BigEndian.PutUint64(key, uint64(n))
	return record.KeyGroup(uint32(n) * 0x9e3779b1 >> 7 % benchGroups)
}

// counter counts in a table; like a batch's, its keys lie in memory that is there already.
type counter struct {
	*statestore.Table
	key [8]byte
}

func count(b testing.TB, t *counter, n int) {
	v, _, err := t.Upsert(benchKey(n, t.key[:]), t.key[:], 8)
	if err != nil {
		b.Fatal(err)
	}
	binary.BigEndian.PutUint64(v, binary.BigEndian.Uint64(v)+1)
}

func fill(b testing.TB, t *counter) {
	for n := range benchKeys {
		count(b, t, n)
	}
}

// BenchmarkUpsert counts in a million keys of eight bytes. hot: keys that the interval has changed already; first: the
// first change of an interval; copied: the first while the interval before is not persisted.
func BenchmarkUpsert(b *testing.B) {
	b.Run("hot", func(b *testing.B) {
		_, t := openBench(b, statestore.Options{})
		fill(b, t)
		b.ReportAllocs()
		r := rand.New(rand.NewPCG(1, 2))
		for b.Loop() {
			count(b, t, r.IntN(benchKeys))
		}
	})
	for _, persisted := range []bool{true, false} {
		b.Run(map[bool]string{true: "first", false: "copied"}[persisted], func(b *testing.B) {
			s, t := openBench(b, statestore.Options{})
			fill(b, t)
			var n record.CheckpointID
			var took time.Duration
			for b.Loop() {
				n++
				if snap := s.Freeze(n); persisted {
					persist(b, snap)
				} else {
					snap.Release()
				}
				begin := time.Now()
				for i := range benchKeys {
					count(b, t, i*7919%benchKeys)
				}
				took += time.Since(begin)
			}
			b.ReportMetric(float64(took)/float64(b.N*benchKeys), "ns/key")
		})
	}
}

// BenchmarkWarm counts in random keys of a million, as BenchmarkUpsert/hot, in batches that the table is told of.
func BenchmarkWarm(b *testing.B) {
	_, t := openBench(b, statestore.Options{})
	fill(b, t)
	keys := make([]byte, 8*256)
	records := make([]record.Record, 256)
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; b.Loop(); i++ {
		at := i % len(records)
		if at == 0 {
			for j := range records {
				key := keys[8*j : 8*j+8]
				records[j].Group, records[j].Key = benchKey(r.IntN(benchKeys), key), key
			}
		}
		if at%32 == 0 {
			t.Warm(records[at:])
		}
		v, _, err := t.Upsert(records[at].Group, records[at].Key, 8)
		if err != nil {
			b.Fatal(err)
		}
		v[7]++
	}
}

func persist(b *testing.B, s *statestore.Snapshot) {
	if _, err := s.Persist(context.Background(), new(storetest.Files)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFreeze freezes with a hundred and with a million changed keys.
func BenchmarkFreeze(b *testing.B) {
	for _, dirty := range []int{100, benchKeys} {
		b.Run(fmt.Sprint(dirty), func(b *testing.B) {
			s, t := openBench(b, statestore.Options{})
			fill(b, t)
			persist(b, s.Freeze(1))
			var took time.Duration
			for n := record.CheckpointID(2); b.Loop(); n++ {
				for i := range dirty {
					count(b, t, i)
				}
				snap := s.Freeze(n)
				took += s.Metrics().Freeze
				persist(b, snap)
			}
			b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/freeze")
		})
	}
}

// BenchmarkPersist reports the cost of storing one changed key of a million, for small and large sets of changes.
func BenchmarkPersist(b *testing.B) {
	for _, dirty := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(dirty), func(b *testing.B) {
			s, t := openBench(b, statestore.Options{})
			fill(b, t)
			persist(b, s.Freeze(1))
			files := new(storetest.Files)
			var took time.Duration
			for n := record.CheckpointID(2); b.Loop(); n++ {
				for i := range dirty {
					count(b, t, i*7919%benchKeys)
				}
				if _, err := s.Freeze(n).Persist(context.Background(), files); err != nil {
					b.Fatal(err)
				}
				took += s.Metrics().Persist
				if err := s.Committed(n); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(took)/float64(b.N*dirty), "ns/key")
		})
	}
}

// BenchmarkPebble counts in the same keys by Get and Set, without a log: what the tables are compared with.
func BenchmarkPebble(b *testing.B) {
	db, err := pebble.Open(b.TempDir(), &pebble.Options{DisableWAL: true, Logger: quiet{}})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	var key, v [8]byte
	add := func(n int) {
		benchKey(n, key[:])
		clear(v[:])
		old, closer, err := db.Get(key[:])
		if err == nil {
			copy(v[:], old)
			err = closer.Close()
		}
		if err != nil && !errors.Is(err, pebble.ErrNotFound) {
			b.Fatal(err)
		}
		binary.BigEndian.PutUint64(v[:], binary.BigEndian.Uint64(v[:])+1)
		if err := db.Set(key[:], v[:], pebble.NoSync); err != nil {
			b.Fatal(err)
		}
	}
	for n := range benchKeys {
		add(n)
	}
	b.ReportAllocs()
	r := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		add(r.IntN(benchKeys))
	}
}

type quiet struct{ pebble.Logger }

func (quiet) Infof(string, ...any) {}

// BenchmarkEvict counts in keys of which memory holds a quarter, snapshots included.
func BenchmarkEvict(b *testing.B) {
	s, t := openBench(b, statestore.Options{CacheBytes: benchKeys * 48 / 4})
	var n record.CheckpointID
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; b.Loop(); i++ {
		count(b, t, r.IntN(benchKeys))
		if s.Full() {
			n++
			persist(b, s.Freeze(n))
			if err := s.Committed(n); err != nil {
				b.Fatal(err)
			}
		}
	}
	m := s.Metrics()
	b.ReportMetric(float64(m.Hits)/float64(m.Hits+m.Misses), "hits")
	b.ReportMetric(float64(m.Bytes)/(benchKeys*48/4), "memory/limit")
}
