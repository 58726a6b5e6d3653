package statestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/record"
)

// The keys of the database are: number of the table plus one (4 bytes), key group (2 bytes), key. Number 0 is about the
// database itself: group 0 has its format and the number of key groups, group 1 the name of each table by number. All
// is big endian. The values are the values of the tables as they are; what their bytes mean belongs to the operators.
const (
	pebbleFormat = 1 // of the database
	chainFormat  = 2 // of a handle: a database and deltas
	prefixSize   = 6

	aboutFormat = 0
	aboutTables = 1
)

func appendPrefix(b []byte, table uint32, group record.KeyGroup) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(b, table+1), uint16(group))
}

func aboutKey(group uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, 0), group)
}

// database is the cold tier: one Pebble database without a log, to which changes come as ingested tables.
type database struct {
	db    *pebble.DB
	write sstable.WriterOptions // for tables to ingest
	key   []byte                // scratch of get
	value []byte
}

// openDatabase opens the database in dir, new or out of a checkpoint. fail is called from any goroutine when the
// database can no longer be trusted.
func openDatabase(dir string, o Options, readOnly bool, fail func(error)) (*database, error) {
	cache := pebble.NewCache(max(o.CacheBytes/8, 4<<20))
	defer cache.Unref()
	options := &pebble.Options{
		Cache:              cache,
		DisableWAL:         true,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             logger{o.Log.With("operator", o.Operator, "subtask", o.Subtask), fail},
		MaxOpenFiles:       500,
		MemTableSize:       256 << 10, // nothing is written there
		ReadOnly:           readOnly,
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	options.EnsureDefaults()
	var failed atomic.Pointer[error]
	options.FS = &guardedFS{o.fs, func(err error) { failed.CompareAndSwap(nil, &err); fail(err) }}
	d := &database{}
	err := orderly(func() error {
		if err := failed.Load(); err != nil {
			return *err
		}
		return nil
	}, func() (err error) {
		d.db, err = pebble.Open(dir, options)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening the state database: %w", err)
	}
	d.write = options.MakeWriterOptions(0, d.db.TableFormat())
	return d, nil
}

// orderly makes a call of Pebble. Where a folder cannot be made durable, Pebble panics (vfs/atomicfs.Marker). The file system has
// told that by then, which failed answers with; so it becomes the error of the call, and the process ends in order.
func orderly(failed, call func() error) (err error) {
	defer func() {
		if cause := failed(); cause != nil {
			_ = recover()
			err = cause
		}
	}()
	return call()
}

func (d *database) get(table uint32, group record.KeyGroup, key []byte) ([]byte, bool, error) {
	d.key = append(appendPrefix(d.key[:0], table, group), key...)
	value, closer, err := d.db.Get(d.key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading the state database: %w", err)
	}
	d.value = append(d.value[:0], value...)
	return d.value, true, closer.Close()
}

// about reads the names of the tables, by number, of a database of a job with so many key groups.
func (d *database) about(groups int) ([]string, error) {
	value, closer, err := d.db.Get(aboutKey(aboutFormat))
	if err != nil {
		return nil, fmt.Errorf("state database without a format: %w", damaged(err))
	}
	defer closer.Close()
	if len(value) < 4 || binary.BigEndian.Uint32(value) != pebbleFormat {
		return nil, fmt.Errorf("state database: %w", ErrFormat)
	}
	if len(value) != 8 {
		return nil, fmt.Errorf("state database: bad format record: %w", ErrCorrupt)
	}
	if stored := binary.BigEndian.Uint32(value[4:]); stored != uint32(groups) {
		return nil, groupsDiffer(int64(stored), groups)
	}
	var names []string
	err = d.scan(aboutKey(aboutTables), aboutKey(aboutTables+1), func(key, value []byte) error {
		if len(key) != prefixSize+4 || binary.BigEndian.Uint32(key[prefixSize:]) != uint32(len(names)) {
			return fmt.Errorf("state database: table numbers have gaps: %w", ErrCorrupt)
		}
		names = append(names, string(value))
		return nil
	})
	return names, err
}

func aboutFormatValue(groups int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, pebbleFormat), uint32(groups))
}

// scan calls f for each key from lower on, below upper.
func (d *database) scan(lower, upper []byte, f func(key, value []byte) error) (err error) {
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := f(it.Key(), value); err != nil {
			return err
		}
	}
	return it.Error()
}

// scanGroup calls f for each entry of a key group of a table.
func (d *database) scanGroup(table uint32, group record.KeyGroup, f func(key, value []byte) error) error {
	upper := appendPrefix(nil, table, group+1)
	if group == math.MaxUint16 {
		upper = appendPrefix(nil, table+1, 0)
	}
	return d.scan(appendPrefix(nil, table, group), upper, func(key, value []byte) error { return f(key[prefixSize:], value) })
}

func (d *database) close() error { return d.db.Close() }

// logger passes on what Pebble has to say. Its own default for a fatal error is to end the process; here the store is
// marked as failed, and whoever asks for Err decides.
type logger struct {
	log  *slog.Logger
	fail func(error)
}

func (l logger) Infof(format string, args ...any) {
	l.log.Debug("pebble: " + fmt.Sprintf(format, args...))
}

func (l logger) Errorf(format string, args ...any) {
	l.log.Warn("pebble: " + fmt.Sprintf(format, args...))
}

func (l logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("%w: "+format, append([]any{ErrBroken}, args...)...)
	l.log.Error("the state database is unusable", "cause", err)
	l.fail(err)
}

// guardedFS notices failed fsyncs. It is used by pointer: Pebble compares file systems.
type guardedFS struct {
	vfs.FS
	fail func(error)
}

func (g *guardedFS) guard(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return guardedFile{File: f, fail: g.fail}, nil
}

func (g *guardedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.guard(g.FS.Create(name, c))
}

func (g *guardedFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return g.guard(g.FS.OpenReadWrite(name, c, o...))
}

func (g *guardedFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.guard(g.FS.ReuseForWrite(from, to, c))
}

func (g *guardedFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return guardedFile{File: f, fail: g.fail, folder: true}, nil
}

type guardedFile struct {
	vfs.File
	fail   func(error)
	folder bool
}

// check marks the store as failed when an fsync fails: the kernel may have dropped the pages, and the next fsync would
// succeed. A file on a full disk is no such case: it is thrown away, and trying again writes another.
func (f guardedFile) check(err error) error {
	if err != nil && (f.folder || !vfs.IsNoSpaceError(err)) {
		err = fmt.Errorf("%w: %w", ErrSync, err)
		f.fail(err)
	}
	return err
}

func (f guardedFile) Sync() error     { return f.check(f.File.Sync()) }
func (f guardedFile) SyncData() error { return f.check(f.File.SyncData()) }

func (f guardedFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.check(err)
}
