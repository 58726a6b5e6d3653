//go:build bug_drop_buffered

package planted

const active = DropBuffered
