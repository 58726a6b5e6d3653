package statestore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/weirstream/weir/internal/planted"
	"github.com/weirstream/weir/record"
)

// ErrFormat means that the state was written by a version that this one does not know.
var ErrFormat = errors.New("unknown format of stored state: use a version of Weir at least as new as the writer")

// ErrCorrupt means that stored state does not read back: use another checkpoint.
var ErrCorrupt = errors.New("stored state is corrupt: use the checkpoint before")

// A dump is a whole state, or what changed in it, in one stream:
//
//	"WEIRDUMP", version (4 bytes), key groups of the job (4 bytes)
//	blocks: length (4 bytes), CRC-32C of the payload (4 bytes), payload
//
// The payload of a block is: name of the table (its length in front), key group, then entries to the end: length of the
// key, length of the value plus one or 0 where the key was deleted, key, value. The last block has an empty name and the
// number of entries. Lengths within a payload, key groups and counts are unsigned varints, the others big endian. A
// version is never changed once released.
const (
	dumpMagic   = "WEIRDUMP"
	dumpVersion = 2
	dumpHeader  = 16
	blockHeader = 8
	blockTarget = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type dumpWriter struct {
	w       io.Writer
	table   *Table
	group   record.KeyGroup
	block   []byte
	entries uint64
	warmed  uint64 // see warmEntries
}

// dump writes a whole dump: each of the parts with write, which takes all of it or what its generation changed.
func (d *dumpWriter) dump(w io.Writer, groups int, parts []part, write func(*dumpWriter, part) error) error {
	if err := d.start(w, groups); err != nil {
		return err
	}
	for _, p := range parts {
		if err := write(d, p); err != nil {
			return err
		}
	}
	return d.finish()
}

// start begins a dump. The memory of the one before is used again.
func (d *dumpWriter) start(w io.Writer, groups int) error {
	*d = dumpWriter{w: w, block: d.block[:0]}
	header := binary.BigEndian.AppendUint32([]byte(dumpMagic), dumpVersion)
	_, err := w.Write(binary.BigEndian.AppendUint32(header, uint32(groups)))
	return err
}

func (d *dumpWriter) begin(t *Table, group record.KeyGroup) error {
	err := d.flush()
	d.table, d.group = t, group
	return err
}

func (d *dumpWriter) add(e entry) error {
	if len(d.block) == 0 {
		d.block = append(d.block[:0], make([]byte, blockHeader)...)
		d.block = appendString(d.block, d.table.name)
		d.block = binary.AppendUvarint(d.block, uint64(d.group))
	}
	d.block = binary.AppendUvarint(d.block, uint64(e.keyLength()))
	if e.tombstone() {
		d.block = append(append(d.block, 0), e.key()...)
	} else {
		d.block = binary.AppendUvarint(d.block, uint64(e.valueLength())+1)
		d.block = append(append(d.block, e.key()...), e.value()...)
	}
	d.entries++
	if len(d.block) < blockTarget {
		return nil
	}
	return d.flush()
}

func (d *dumpWriter) flush() error {
	if len(d.block) == 0 {
		return nil
	}
	payload := d.block[blockHeader:]
	binary.BigEndian.PutUint32(d.block, uint32(len(payload)))
	binary.BigEndian.PutUint32(d.block[4:], crc32.Checksum(payload, castagnoli))
	_, err := d.w.Write(d.block)
	d.block = d.block[:0]
	return err
}

func (d *dumpWriter) finish() error {
	if err := d.flush(); err != nil {
		return err
	}
	d.block = append(d.block[:0], make([]byte, blockHeader+1)...) // an empty name
	d.block = binary.AppendUvarint(d.block, d.entries)
	return d.flush()
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// write dumps all entries of the part that exist.
func (d *dumpWriter) write(p part) error {
	if err := d.begin(p.table, p.group); err != nil {
		return err
	}
	for _, slot := range p.index {
		if slot == 0 {
			continue
		}
		if e := entryAt(p.chunks, uint32(slot)); !e.tombstone() {
			if err := d.add(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeChanges dumps what the generation of the part's snapshot changed.
func (d *dumpWriter) writeChanges(p part) error {
	if err := d.begin(p.table, p.group); err != nil {
		return err
	}
	refs := p.refs
	if planted.Is(planted.LoseDelta) && len(refs) > 0 {
		refs = refs[:len(refs)-1]
	}
	for len(refs) > 0 {
		run := refs[:min(len(refs), warmAhead)]
		refs = refs[len(run):]
		d.warmed += warmEntries(p.chunks, run)
		if err := d.addAll(p.chunks, run); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumpWriter) addAll(chunks [][]byte, refs []uint32) error {
	for _, ref := range refs {
		if e := entryAt(chunks, ref); !e.dead() {
			if err := d.add(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// stored is one entry of stored state, or the deletion of one. The slices are valid during the call that it is given to.
type stored struct {
	table      string
	group      record.KeyGroup
	key, value []byte
	deleted    bool
}

type visitor func(stored) error

// readDump calls visit for every entry of a dump of a job with so many key groups. It fails on anything that a dumpWriter
// does not write; entries seen before that must be discarded.
func readDump(r io.Reader, groups int, visit visitor) error {
	in := bufio.NewReaderSize(r, 64<<10)
	header := make([]byte, dumpHeader)
	if _, err := io.ReadFull(in, header); err != nil {
		return short(err)
	}
	if string(header[:8]) != dumpMagic {
		return fmt.Errorf("not a dump of state: %w", ErrCorrupt)
	}
	if v := binary.BigEndian.Uint32(header[8:]); v != dumpVersion {
		return fmt.Errorf("dump version %d: %w", v, ErrFormat)
	}
	if g := binary.BigEndian.Uint32(header[12:]); g != uint32(groups) {
		return groupsDiffer(int64(g), groups)
	}
	var block bytes.Buffer
	entries := uint64(0)
	for {
		if err := readBlock(in, &block); err != nil {
			return err
		}
		total, last, n, err := visitBlock(block.Bytes(), groups, visit)
		if entries += n; err != nil {
			return err
		}
		if !last {
			continue
		}
		if _, err := in.ReadByte(); err != io.EOF || total != entries {
			return fmt.Errorf("dump of %d entries ends after %d, or goes on: %w", total, entries, ErrCorrupt)
		}
		return nil
	}
}

func groupsDiffer(stored int64, groups int) error {
	return fmt.Errorf("state was written with %d key groups, the job has %d: they are fixed when a job first starts; "+
		"restore the partition counts or start the job under a new name", stored, groups)
}

func readBlock(in io.Reader, block *bytes.Buffer) error {
	var header [blockHeader]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return short(err)
	}
	block.Reset()
	// The buffer grows with what arrives, not with what a broken length promises.
	if _, err := io.CopyN(block, in, int64(binary.BigEndian.Uint32(header[:]))); err != nil {
		return short(err)
	}
	if crc32.Checksum(block.Bytes(), castagnoli) != binary.BigEndian.Uint32(header[4:]) {
		return fmt.Errorf("checksum of a block differs: %w", ErrCorrupt)
	}
	return nil
}

func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("dump is cut off: %w", ErrCorrupt)
	}
	return err
}

// visitBlock visits the entries of a block and counts them; last tells that it is the final block, with the total.
func visitBlock(b []byte, groups int, visit visitor) (total uint64, last bool, entries uint64, err error) {
	c := cursor{rest: b}
	table := string(c.bytes(c.uvarint()))
	group := c.uvarint()
	if table == "" {
		return group, true, 0, c.end()
	}
	if c.bad || group >= uint64(groups) {
		return 0, false, 0, fmt.Errorf("bad head of a block: %w", ErrCorrupt)
	}
	for len(c.rest) > 0 {
		keyLength, valueLength := c.uvarint(), c.uvarint()
		e := stored{table: table, group: record.KeyGroup(group), key: c.bytes(keyLength), deleted: valueLength == 0}
		if !e.deleted {
			e.value = c.bytes(valueLength - 1)
		}
		if c.bad {
			return 0, false, entries, c.end()
		}
		if err := visit(e); err != nil {
			return 0, false, entries, err
		}
		entries++
	}
	return 0, false, entries, nil
}

// cursor reads from a payload; the first overrun marks it bad, and all later reads are empty.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.rest, c.bad = nil, true
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.rest)) {
		c.rest, c.bad = nil, true
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) end() error {
	if c.bad || len(c.rest) > 0 {
		return fmt.Errorf("a block does not end with an entry: %w", ErrCorrupt)
	}
	return nil
}
