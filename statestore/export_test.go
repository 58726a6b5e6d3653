package statestore

import "github.com/cockroachdb/pebble/v2/vfs"

// WithFS puts a file system under Pebble.
func WithFS(o Options, fs vfs.FS) Options {
	o.fs = fs
	return o
}

// Reserve is the disk space below which no snapshot is begun.
const Reserve = reserve
