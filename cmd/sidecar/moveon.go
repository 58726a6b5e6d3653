package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/weirstream/weir/sidecar"
)

// override is the option of weir run that goes on in spite of an error, "" where there is none. What it gives up is the
// operator's to decide.
func override(err error) string {
	var (
		lost       interface{ Loss() string }
		rival      *sidecar.AnotherInstanceError
		checkpoint *sidecar.LostCheckpointError
	)
	switch {
	case errors.As(err, &lost):
		return "--accept-loss=" + lost.Loss()
	case errors.As(err, &rival) && !rival.Local:
		return "--take-over"
	case errors.As(err, &checkpoint):
		return anew(checkpoint.Job)
	}
	return ""
}

var numbered = regexp.MustCompile(`^(.*)-([0-9]{1,9})$`)

// anew is the option that begins a job again under another name, with empty state.
func anew(job string) string {
	if parts := numbered.FindStringSubmatch(job); parts != nil {
		if n, err := strconv.Atoi(parts[2]); err == nil {
			return fmt.Sprintf("--job=%s-%d", parts[1], n+1)
		}
	}
	return "--job=" + job + "-2"
}
