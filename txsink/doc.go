// Package txsink writes results to Kafka, exactly once.
//
// # One transaction for all
//
// All lanes of a Writer write with one identity (transactional id, producer id, epoch) at a time. Each output partition has
// one lane that writes to it, so sequence numbers never conflict. The coordinator alone opens and ends transactions
// (Transactions); a lane is given the next identity inside the barrier and reports when everything before is acknowledged.
//
// # Data flow of the writer
//
// Lane.Write gathers records by partition; full or flushed gatherings are sealed into batches and queued (queue, in
// partition.go, is the state machine that decides what may be sent). A sender goroutine for each broker packs what is
// ready in its partitions into one request. Answers arrive on sarama's reader goroutine and go through Writer.answered,
// which never calls a connection. The manager goroutine finds leaders.
//
// # The witness
//
// A transaction also holds one record in the job's ledger topic, the witness. After a crash it alone tells whether the
// transaction was committed: Kafka's answers to a repeated EndTxn do not (see recovery.go).
package txsink
