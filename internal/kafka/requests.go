package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/IBM/sarama"
)

// Coordinator is where the coordinator of one transactional id or consumer group was last found.
type Coordinator struct {
	cluster *Cluster
	kind    sarama.CoordinatorType
	key     string
	mu      struct {
		sync.Mutex
		addr string
	}
}

// TransactionCoordinator returns a look-up for a transactional id.
func (c *Cluster) TransactionCoordinator(id string) *Coordinator {
	return &Coordinator{cluster: c, kind: sarama.CoordinatorTransaction, key: id}
}

// GroupCoordinator returns a look-up for a consumer group.
func (c *Cluster) GroupCoordinator(group string) *Coordinator {
	return &Coordinator{cluster: c, kind: sarama.CoordinatorGroup, key: group}
}

// Do makes a request to the coordinator until it is answered by something that neither waiting nor looking again can
// change: success, or an error of class Fenced, Witness or Stop, as an *Error that names op. ctx bounds it. tried, if not
// nil, is told of each error on the way.
func (co *Coordinator) Do(ctx context.Context, r Request, op string, tried func(error),
	request func(*sarama.Broker) (sarama.KError, error),
) error {
	return Repeat(ctx, op, func() error { return co.once(ctx, op, request) }, func(err error) bool {
		class := Classify(r, err)
		if class >= Fenced {
			return false
		}
		if tried != nil {
			tried(err)
		}
		if class == Refresh {
			co.forget()
		}
		return true
	})
}

func (co *Coordinator) once(ctx context.Context, op string, request func(*sarama.Broker) (sarama.KError, error)) error {
	addr, err := co.find(ctx)
	if err != nil {
		return err
	}
	code, err := Call(ctx, co.cluster, Transaction, addr, request)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if code != sarama.ErrNoError {
		return &Error{Op: op, Code: code}
	}
	return nil
}

func (co *Coordinator) forget() {
	co.mu.Lock()
	co.mu.addr = ""
	co.mu.Unlock()
}

// find asks any broker where the coordinator is, unless that is known.
func (co *Coordinator) find(ctx context.Context) (string, error) {
	co.mu.Lock()
	addr := co.mu.addr
	co.mu.Unlock()
	if addr != "" {
		return addr, nil
	}
	req := &sarama.FindCoordinatorRequest{Version: 2, CoordinatorKey: co.key, CoordinatorType: co.kind}
	resp, err := AnyBroker(ctx, co.cluster, func(b *sarama.Broker) (*sarama.FindCoordinatorResponse, error) { return b.FindCoordinator(req) })
	if err != nil {
		return "", err
	}
	if resp.Err != sarama.ErrNoError {
		return "", &Error{Op: "find the coordinator of " + co.key, Code: resp.Err}
	}
	addr = resp.Coordinator.Addr()
	co.mu.Lock()
	co.mu.addr = addr
	co.mu.Unlock()
	return addr, nil
}

// AnyBroker makes a request that any broker can answer, to one after the other until one does.
func AnyBroker[T any](ctx context.Context, c *Cluster, request func(*sarama.Broker) (T, error)) (T, error) {
	known := c.Brokers()
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	for _, addr := range c.opts.Brokers {
		if !slices.Contains(known, addr) {
			known = append(known, addr)
		}
	}
	var none T
	var errs []error
	for _, addr := range known {
		resp, err := Call(ctx, c, Control, addr, request)
		if err == nil {
			return resp, nil
		}
		errs = append(errs, err)
		if Permanent(err) || ctx.Err() != nil {
			break // another broker would say the same
		}
	}
	return none, errors.Join(errs...)
}
