package checkpoint

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/weirstream/weir/record"
)

// InstanceIDLength is the number of letters and digits in the id of an instance.
const InstanceIDLength = 12

// NewRun names a run of the job: an attempt in one process. Two processes that believe to be the same attempt get
// different names. The attempt must be higher than that of every checkpoint that the run restores from. instance, of
// InstanceIDLength small letters and digits, is the id of whoever runs it.
func NewRun(attempt record.Attempt, instance string) string {
	return fmt.Sprintf("%06d.%s%s", attempt, instance, strings.ToLower(rand.Text()[:12]))
}

// RunInstance returns the id of the instance that NewRun was given, "" where the name has none.
func RunInstance(run string) string {
	parts := runForm.FindStringSubmatch(run)
	if parts == nil || len(parts[2]) <= InstanceIDLength {
		return ""
	}
	return parts[2][:InstanceIDLength]
}

var runForm = regexp.MustCompile(`^([0-9]{6,18})\.([a-z0-9]{1,64})$`)

// RunAttempt returns the attempt of a run that NewRun named.
func RunAttempt(run string) (attempt record.Attempt, ok bool) {
	parts := runForm.FindStringSubmatch(run)
	if parts == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	return record.Attempt(n), err == nil && n > 0
}
