package checkpoint

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/weirstream/weir/record"
)

// NewRun names a run of the job: an attempt in one process. Two processes that believe to be the same attempt get
// different names. The attempt must be higher than that of every checkpoint that the run restores from.
func NewRun(attempt record.Attempt) string {
	return fmt.Sprintf("%06d.%s", attempt, strings.ToLower(rand.Text()[:12]))
}

var runForm = regexp.MustCompile(`^([0-9]{6,18})\.[a-z0-9]{1,64}$`)

// RunAttempt returns the attempt of a run that NewRun named.
func RunAttempt(run string) (attempt record.Attempt, ok bool) {
	parts := runForm.FindStringSubmatch(run)
	if parts == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	return record.Attempt(n), err == nil && n > 0
}
