// Package consumer reads topics: fetch loops on sarama's wire layer, one for each broker, that hand record batches to the
// subtasks owning the partitions.
//
// # Data flow
//
// New resolves where every partition starts. Run keeps a fetcher goroutine for each broker that leads a partition. A
// fetcher asks for all its partitions whose lane has room, in one request; it filters what comes by the rules of
// read_committed (kafka.CommittedFilter), turns it into batches of records that are views into the response, and appends
// them to the lane of the owning subtask. A Lane is polled by its subtask, which gives each batch back: that is what frees
// room.
//
// # Ownership
//
// A partition is held by one fetcher at a time. Only the holder changes its offset, and only the holder gives it up,
// when a broker says that it does not lead, or a connection fails. The manager goroutine (Run) then refreshes the
// metadata and gives the partition to the fetcher of its leader. So there is no moment at which two fetchers read the
// same partition, whatever the metadata says.
//
// # What stops
//
// Offsets that are gone, a topic deleted and created again, and partitions that disappear end Run with an error that
// says that only an operator can decide. Positions are never reset silently. A batch that lies wholly in aborted
// transactions, or holds control records, still moves the position: it is handed on as a batch without records.
package consumer
