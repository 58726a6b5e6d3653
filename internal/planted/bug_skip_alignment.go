//go:build bug_skip_alignment

package planted

const active = SkipAlignment
