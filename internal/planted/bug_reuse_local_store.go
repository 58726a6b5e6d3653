//go:build bug_reuse_local_store

package planted

const active = ReuseLocalStore
