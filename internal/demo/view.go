package demo

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/weirstream/weir/internal/verify"
)

// view shows how the demo comes along: a block that is written over on a terminal, plain lines elsewhere.
type view struct {
	o       Options
	kills   *atomic.Int64
	start   time.Time
	shown   time.Time
	lines   int
	last    verify.Progress
	effects []sample
}

// sample is how many effects were seen at a moment.
type sample struct {
	at      time.Time
	effects int64
}

const (
	liveEvery  = 200 * time.Millisecond
	plainEvery = 3 * time.Second
	// rateOver is the time over which the rate is averaged.
	rateOver = 2 * time.Second
	barWidth = 40
)

func newView(o Options, kills *atomic.Int64) *view {
	return &view{o: o, kills: kills, start: time.Now()}
}

// progress takes note of p, and shows it where it is time.
func (v *view) progress(p verify.Progress) {
	now := time.Now()
	v.last = p
	v.effects = append(v.effects, sample{now, p.Effects})
	for now.Sub(v.effects[0].at) > rateOver {
		v.effects = v.effects[1:]
	}
	every := plainEvery
	if v.o.Live {
		every = liveEvery
	}
	if now.Sub(v.shown) >= every {
		v.shown = now
		v.show()
	}
}

// end shows the last state.
func (v *view) end() {
	v.show()
}

func (v *view) show() {
	if !v.o.Live {
		fmt.Fprintf(v.o.Out, "%4.0fs  %s views in, %s effects committed (%s/s) in %s transactions, %s behind, %d kills, %d wrong\n",
			time.Since(v.start).Seconds(), comma(v.last.Input), comma(v.last.Effects), comma(v.rate()), comma(v.last.Transactions),
			comma(v.last.Outstanding), v.kills.Load(), v.last.Wrong)
		return
	}
	block := v.block()
	if v.lines > 0 {
		fmt.Fprintf(v.o.Out, "\x1b[%dA\x1b[J", v.lines)
	}
	v.lines = strings.Count(block, "\n")
	fmt.Fprint(v.o.Out, block)
}

// block is the view on a terminal.
func (v *view) block() string {
	elapsed := min(time.Since(v.start), v.o.Duration)
	done := int(barWidth * elapsed / max(v.o.Duration, 1))
	wrong := v.paint("32", "0 duplicated, reordered, torn or wrong so far")
	if v.last.Wrong > 0 {
		wrong = v.paint("31", fmt.Sprintf("%d duplicated, reordered, torn or wrong", v.last.Wrong))
	}
	return fmt.Sprintf("\n  %s%s %3.0fs of %.0fs\n\n", strings.Repeat("━", done), v.paint("2", strings.Repeat("─", barWidth-done)),
		elapsed.Seconds(), v.o.Duration.Seconds()) +
		fmt.Sprintf("  page views in       %12s\n", comma(v.last.Input)) +
		fmt.Sprintf("  effects committed   %12s   %s/s, %s behind\n", comma(v.last.Effects), comma(v.rate()), comma(v.last.Outstanding)) +
		fmt.Sprintf("  transactions        %12s\n", comma(v.last.Transactions)) +
		fmt.Sprintf("  SIGKILLs            %12s\n", v.paint("33", fmt.Sprintf("%12d", v.kills.Load()))) +
		fmt.Sprintf("  verdict so far      %s\n", wrong)
}

// paint colours text where colours are wanted.
func (v *view) paint(code, text string) string {
	if !v.o.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// rate is the number of effects a second lately.
func (v *view) rate() int64 {
	if len(v.effects) < 2 {
		return 0
	}
	first, last := v.effects[0], v.effects[len(v.effects)-1]
	seconds := last.at.Sub(first.at).Seconds()
	if seconds == 0 {
		return 0
	}
	return int64(float64(last.effects-first.effects) / seconds)
}

func comma(n int64) string { return humanize.Comma(n) }
