package demo

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/internal/instance"
)

// victim is the instance under test, and how often it was killed.
type victim struct {
	*instance.Instance
	kills atomic.Int64
}

// torment kills the instance and starts it again, about once in every, until ctx ends. It leaves a running instance.
func (v *victim) torment(ctx context.Context, every time.Duration, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0x6b696c6c))
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-v.Exited():
			return v.Ended(err)
		case <-time.After(every/2 + time.Duration(random.Int64N(int64(every)))):
		}
		if err := v.Kill(); err != nil {
			return err
		}
		v.kills.Add(1)
		if err := v.Start(); err != nil {
			return err
		}
	}
}
