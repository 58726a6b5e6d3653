package txsink

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
)

// findStrays looks for transactional ids of the job beyond its slots: an earlier run may have used more of them, and be
// alive. Left alone, it could commit a checkpoint behind the back of a recovery.
func (t *Transactions) findStrays(ctx context.Context) error {
	return kafka.Repeat(ctx, "list the job's transactional ids", func() error {
		ids, err := t.listIDs(ctx)
		if err == nil {
			t.takeStrays(ids)
		}
		return err
	}, func(err error) bool { return t.again(ctx, kafka.FindCoordinator, err, t.opts.Ledger) })
}

func (t *Transactions) takeStrays(ids []string) {
	t.strays = nil
	for _, id := range ids {
		if n, ok := t.slotNumber(id); ok && n >= len(t.slots) {
			s := t.newSlot(id)
			t.strays = append(t.strays, &s)
		}
	}
}

// slotNumber is the n of an id Job-n.
func (t *Transactions) slotNumber(id string) (int, bool) {
	digits, ok := strings.CutPrefix(id, t.opts.Job+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && strconv.Itoa(n) == digits
}

// listIDs asks every broker for the transactional ids that it coordinates and this user may see.
func (t *Transactions) listIDs(ctx context.Context) ([]string, error) {
	var ids []string
	for _, addr := range t.cluster.Brokers() {
		resp, err := kafka.Call(ctx, t.cluster, kafka.Control, addr, func(b *sarama.Broker) (*sarama.ListTransactionsResponse, error) {
			return b.ListTransactions(&sarama.ListTransactionsRequest{DurationFilter: -1})
		})
		if err != nil {
			return nil, fmt.Errorf("list the transactions of broker %s: %w", addr, err)
		}
		if resp.ErrorCode != sarama.ErrNoError {
			return nil, &kafka.Error{Op: "list the transactions of broker " + addr, Code: resp.ErrorCode}
		}
		for _, x := range resp.TransactionStates {
			ids = append(ids, x.TransactionalID)
		}
	}
	return ids, nil
}
