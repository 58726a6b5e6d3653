//go:build race

package barrier

// raceDetector says that the test runs under the race detector: ten times slower, and of no use to a single goroutine.
const raceDetector = true
