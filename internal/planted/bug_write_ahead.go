//go:build bug_write_ahead

package planted

const active = WriteAhead
