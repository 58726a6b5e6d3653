//go:build bug_commit_before_durable

package planted

const active = CommitBeforeDurable
