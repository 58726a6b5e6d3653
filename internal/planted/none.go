//go:build !(bug_commit_before_durable || bug_skip_alignment || bug_drop_buffered || bug_reuse_local_store || bug_ignore_fencing || bug_invalid_state_is_success || bug_lose_delta || bug_write_ahead)

package planted

const active = None
