package kafka

import (
	"context"
	"fmt"
	"time"
)

// backoff between two tries: quick at first, since most reasons to wait pass within milliseconds.
const (
	backoffMin = 2 * time.Millisecond
	backoffMax = 250 * time.Millisecond
)

// Repeat calls try until it succeeds, again says of its error that another try cannot help, or ctx ends. again is called with
// each error before the wait, to look for leaders again and the like. op names the request in the error of an ended ctx.
func Repeat(ctx context.Context, op string, try func() error, again func(error) bool) error {
	for wait := backoffMin; ; wait = min(2*wait, backoffMax) {
		err := try()
		if err == nil || !again(err) {
			return err
		}
		if ctxErr := Sleep(ctx, wait); ctxErr != nil {
			return fmt.Errorf("%s: %w; the last answer was: %w", op, ctxErr, err)
		}
	}
}

// Sleep waits for d or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
