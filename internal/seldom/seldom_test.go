package seldom

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneLineInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, nil))
		var l Log
		for range 100 {
			l.Warn(logger, "failed", "broker", 1)
			time.Sleep(Every / 10)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 10 {
			t.Fatalf("%d lines, want 10:\n%s", len(lines), out.String())
		}
		if strings.Contains(lines[0], "left_out") || !strings.HasSuffix(lines[1], "msg=failed broker=1 left_out=9") {
			t.Errorf("the first lines are\n%s\n%s", lines[0], lines[1])
		}
	})
}

// TestTheEndOfAnOutageIsToldOnce, and only where the outage was.
func TestTheEndOfAnOutageIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, nil))
		var l Log
		for range 2 {
			l.Over(logger, "over")
			for range 4 {
				l.Warn(logger, "failed")
				time.Sleep(Every / 2)
			}
			l.Over(logger, "over", "broker", 1)
			l.Over(logger, "over", "broker", 1)
		}
		want := "msg=failed msg=failed left_out=1 msg=over broker=1 after=10s tries=4"
		var got []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, "msg=")
			got = append(got, "msg="+strings.TrimSpace(rest))
		}
		if text := strings.Join(got, " "); text != want+" "+want {
			t.Errorf("logged\n%s\nwant twice\n%s", text, want)
		}
	})
}
