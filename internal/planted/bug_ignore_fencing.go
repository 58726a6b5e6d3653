//go:build bug_ignore_fencing

package planted

const active = IgnoreFencing
