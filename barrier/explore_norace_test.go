//go:build !race

package barrier

const raceDetector = false
