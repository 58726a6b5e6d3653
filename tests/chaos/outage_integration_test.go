//go:build integration

package chaos

import (
	"testing"
	"time"

	"github.com/weirstream/weir/internal/failpoint"
)

// TestFault12And13AnOutageBeyondTheTransactionTimeout keeps the job down until Kafka has aborted what it left: a checkpoint
// that was prepared and not committed did not happen, one that was committed did, although nobody was told.
func TestFault12And13AnOutageBeyondTheTransactionTimeout(t *testing.T) {
	const timeout = 10 * time.Second
	b := newBed(t, number("SEED", 1), func(p *pipeline) { p.TransactionTimeout = timeout })
	for _, p := range []failpoint.Point{failpoint.ManifestWritten, failpoint.WitnessWritten, failpoint.TransactionCommitted} {
		b.must(b.job.Kill())
		b.dies(p, 5)
		for _, topic := range b.outputs() {
			b.kafka.Settled(topic) // by Kafka alone, when the transactions time out
		}
		b.wait(timeout)
		b.must(b.job.Start())
		what := "down beyond the timeout, after " + string(p)
		b.faults.add(what, b.awaitCommit(what))
	}
	b.judge()
}
