package statestore

import (
	"encoding/binary"
	"errors"
)

// An arena holds the entries of one shard in byte chunks, so that the garbage collector sees a handful of pointers
// whatever the number of entries. A ref addresses an entry in units of eight bytes: the chunk in the upper bits, the
// place within a chunk of at most maxChunk bytes in the lower. Ref 0 is never handed out. An entry larger than a chunk
// gets a chunk of its own, at its beginning.
const (
	unit       = 8
	minChunk   = 512
	maxChunk   = 256 << 10
	chunkShift = 15 // maxChunk / unit = 1 << chunkShift
	chunkMask  = 1<<chunkShift - 1
	maxChunks  = 1 << (32 - chunkShift)
)

// maxEntry bounds one entry: keys and values come from Kafka records and stay far below.
const maxEntry = 1 << 30

var errArenaFull = errors.New("a key group of a table holds more than 32 GiB in memory: lower the cache size")

type arena struct {
	chunks [][]byte
	next   int // bytes used of the last chunk
	size   int // bytes of all chunks
}

// alloc returns n bytes of zeroed memory and their ref; grown tells that a chunk was added.
func (a *arena) alloc(n int) (ref uint32, b []byte, grown bool, err error) {
	n = roundUp(n)
	if len(a.chunks) == 0 || n > len(a.chunks[len(a.chunks)-1])-a.next {
		if err := a.grow(n); err != nil {
			return 0, nil, false, err
		}
		grown = true
	}
	last := len(a.chunks) - 1
	ref = uint32(last<<chunkShift | a.next/unit)
	b = a.chunks[last][a.next : a.next+n : a.next+n]
	a.next += n
	return ref, b, grown, nil
}

func (a *arena) grow(n int) error {
	if len(a.chunks) == maxChunks {
		return errArenaFull
	}
	size, next := min(max(a.size, minChunk), maxChunk), 0
	if len(a.chunks) == 0 {
		next = unit // keeps ref 0 free
	}
	if next+n > size {
		size = next + n
	}
	if size > maxChunk {
		size, next = n, 0
		if len(a.chunks) == 0 { // an oversize first entry must not get ref 0
			a.chunks = append(a.chunks, nil)
		}
	}
	a.chunks = append(a.chunks, make([]byte, size))
	a.next = next
	a.size += size
	return nil
}

// used is the bytes of all chunks but for what is free in the last.
func (a *arena) used() int {
	if len(a.chunks) == 0 {
		return 0
	}
	return a.size - len(a.chunks[len(a.chunks)-1]) + a.next
}

func (a *arena) entry(ref uint32) entry { return entryAt(a.chunks, ref) }

func entryAt(chunks [][]byte, ref uint32) entry {
	return entry(chunks[ref>>chunkShift][int(ref&chunkMask)*unit:])
}

// walk calls f for every entry in chunks, of which the last is used up to next: in the order of allocation, and those that
// were replaced or buried among them. What a chunk has left at its end reads as empty clean entries.
func walk(chunks [][]byte, next int, f func(entry)) {
	for i, chunk := range chunks {
		at, end := 0, len(chunk)
		if i == 0 {
			at = unit
		}
		if i == len(chunks)-1 {
			end = next
		}
		for at+headerSize <= end {
			e := entry(chunk[at:])
			f(e)
			at += e.size()
		}
	}
}

func roundUp(n int) int { return (n + unit - 1) &^ (unit - 1) }

// An entry is a header, the key and room for the value:
//
//	0  generation that last changed it
//	4  length of the key
//	8  length of the value, and two flags
//	12 room for the value
//
// A tombstone says that the key does not exist, whatever lies beneath. A dead entry was replaced within the generation
// that wrote it and must not be persisted.
type entry []byte

const (
	headerSize        = 16
	flagTombstone     = 1 << 31
	flagDead          = 1 << 30
	flags             = flagTombstone | flagDead
	keyAt             = headerSize
	offsetKeyLength   = 4
	offsetValueLength = 8
	offsetRoom        = 12
)

func entrySize(key, value int) int { return roundUp(headerSize + key + value) }

func (e entry) generation() uint32     { return binary.LittleEndian.Uint32(e) }
func (e entry) setGeneration(g uint32) { binary.LittleEndian.PutUint32(e, g) }
func (e entry) keyLength() int         { return int(binary.LittleEndian.Uint32(e[offsetKeyLength:])) }
func (e entry) valueWord() uint32      { return binary.LittleEndian.Uint32(e[offsetValueLength:]) }
func (e entry) valueLength() int       { return int(e.valueWord() &^ flags) }
func (e entry) room() int              { return int(binary.LittleEndian.Uint32(e[offsetRoom:])) }
func (e entry) tombstone() bool        { return e.valueWord()&flagTombstone != 0 }
func (e entry) dead() bool             { return e.valueWord()&flagDead != 0 }
func (e entry) size() int              { return headerSize + e.keyLength() + e.room() }
func (e entry) key() []byte            { return e[keyAt : keyAt+e.keyLength()] }

func (e entry) setValueWord(w uint32) { binary.LittleEndian.PutUint32(e[offsetValueLength:], w) }
func (e entry) bury()                 { e.setValueWord(flagTombstone) }
func (e entry) kill()                 { e.setValueWord(e.valueWord() | flagDead) }

// value is capped, so that an append by the caller cannot reach the next entry.
func (e entry) value() []byte {
	from := keyAt + e.keyLength()
	to := from + e.valueLength()
	return e[from:to:to]
}

func (e entry) init(generation uint32, key []byte, value int) {
	e.setGeneration(generation)
	binary.LittleEndian.PutUint32(e[offsetKeyLength:], uint32(len(key)))
	e.setValueWord(uint32(value))
	binary.LittleEndian.PutUint32(e[offsetRoom:], uint32(entrySize(len(key), value)-headerSize-len(key)))
	copy(e[keyAt:], key)
}
