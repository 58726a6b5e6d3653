package statestore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/record"
)

// ErrInlineLimit means that the state outgrew what the Memory back end may put into a manifest.
var ErrInlineLimit = fmt.Errorf("state is over the %d MiB that back end memory can snapshot: set state.backend to pebble",
	InlineLimit>>20)

// inline is the Memory back end: the snapshot is a dump within the handle.
type inline struct {
	groups int
}

func (inline) absorb(context.Context, *Snapshot) error { return nil }

func (b inline) persist(_ context.Context, snaps []*Snapshot, _ Uploader) (record.StateHandle, error) {
	var out bounded
	if err := snaps[len(snaps)-1].dumpAll(&out, b.groups); err != nil {
		return record.StateHandle{}, err
	}
	return record.StateHandle{Format: dumpVersion, Inline: out.Bytes()}, nil
}

func (inline) committed(record.CheckpointID) error { return nil }
func (inline) close() error                        { return nil }

// bounded is a buffer that refuses to outgrow InlineLimit.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > InlineLimit {
		return 0, ErrInlineLimit
	}
	return b.Buffer.Write(p)
}

// dumps is the FS back end: the snapshot is a dump in one file, which is uploaded.
type dumps struct {
	groups  int
	dir     string
	prefix  string // of names in the checkpoint store
	pending string // written and not yet uploaded: the file of the snapshot that is tried again
}

func (*dumps) absorb(context.Context, *Snapshot) error { return nil }

func (d *dumps) persist(ctx context.Context, snaps []*Snapshot, up Uploader) (record.StateHandle, error) {
	s := snaps[len(snaps)-1]
	name := fmt.Sprintf("%08d.dump", s.n)
	path := filepath.Join(d.dir, name)
	if d.pending != path {
		if err := writeFile(path, func(w io.Writer) error { return s.dumpAll(w, d.groups) }); err != nil {
			return record.StateHandle{}, errors.Join(err, remove(path))
		}
		d.pending = path
	}
	blob, err := up.Upload(ctx, d.prefix+name, path)
	if err != nil {
		return record.StateHandle{}, err
	}
	d.pending = ""
	return record.StateHandle{Format: dumpVersion, Blobs: []record.Blob{blob}, Paths: []string{name}}, remove(path)
}

func (*dumps) committed(record.CheckpointID) error { return nil }
func (*dumps) close() error                        { return nil }

// dumpAll writes all of the snapshot.
func (s *Snapshot) dumpAll(w io.Writer, groups int) error {
	return new(dumpWriter).dump(w, groups, s.parts, (*dumpWriter).write)
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 256<<10)
	err = write(out)
	if err == nil {
		err = out.Flush()
	}
	return errors.Join(err, f.Close())
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
