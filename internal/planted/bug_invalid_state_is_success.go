//go:build bug_invalid_state_is_success

package planted

const active = InvalidStateIsSuccess
