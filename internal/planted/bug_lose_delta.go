//go:build bug_lose_delta

package planted

const active = LoseDelta
