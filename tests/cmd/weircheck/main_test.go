package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/verify"
	"github.com/weirstream/weir/tests/kafkatest"
)

// TestVerdictDecidesTheExitStatus checks a "job" that is nothing but a copy of its input, complete and not.
func TestVerdictDecidesTheExitStatus(t *testing.T) {
	k := kafkatest.Fake(t).Endpoint
	in, out := k.CreateTopic("views", 2), k.CreateTopic("passed", 2)
	var views []kafkatest.Record
	for i := range int64(20) {
		views = append(views, kafkatest.Record{Value: verify.NewView("u", i+1, "/", 200, 5).Encode()})
	}
	k.Produce(in, views...)
	k.Produce(out, views[:19]...)
	args := []string{"-brokers", strings.Join(k.Brokers(), ","), "-input", in, "-passed", out, "-drain", "1s"}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, &stdout, &stderr); code != 1 || !strings.Contains(stdout.String(), "1 lost") {
		t.Errorf("a lost view: exit %d, %s%s", code, &stdout, &stderr)
	}
	k.Produce(out, views[19])
	stdout.Reset()
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "exactly once: 20 records in") {
		t.Errorf("all there: exit %d, %s%s", code, &stdout, &stderr)
	}
}

func TestBadUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"-rate", "x"}} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%v: exit %d, %q", args, code, &stderr)
		}
	}
}
