// Package failpoint names moments at which a test may have the process killed. Only a build with the tag failpoints can be
// killed so; in any other Pass does nothing and is inlined away.
//
// Such a process kills itself with SIGKILL when it passes the moment that WEIR_FAILPOINT names, after WEIR_FAILPOINT_AFTER
// passes that it survives.
package failpoint

// Point is a moment.
type Point string

// The moments, in the order in which a checkpoint passes them.
const (
	// BarriersOut is after the first subtask got its barrier and before the others did.
	BarriersOut Point = "barriers-out"
	// FileUnpublished is when a file of the checkpoint store is whole and does not have its name yet.
	FileUnpublished Point = "file-unpublished"
	// StateStored is when a subtask's state is in the store and the coordinator does not know.
	StateStored Point = "state-stored"
	// WritesAcknowledged is when Kafka has acknowledged all writes of a subtask and the coordinator does not know.
	WritesAcknowledged Point = "writes-acknowledged"
	// AllAcknowledged is when the coordinator has every acknowledgement, before the manifest.
	AllAcknowledged Point = "all-acknowledged"
	// ManifestWritten is when the manifest is in the store and the coordinator does not know.
	ManifestWritten Point = "manifest-written"
	// WitnessWritten is when witness and offsets are in the transaction, before it is committed.
	WitnessWritten Point = "witness-written"
	// TransactionCommitted is when Kafka has committed and nobody here knows.
	TransactionCommitted Point = "transaction-committed"
	// ManifestsRemoved is while old checkpoints are collected: their manifests are gone, their files are not.
	ManifestsRemoved Point = "manifests-removed"
	// Fenced is in a recovery, when the transactional ids are fenced and nothing else is done.
	Fenced Point = "fenced"
	// Restored is in a recovery, when the state is restored and no record is read.
	Restored Point = "restored"
)

// Points returns all moments.
func Points() []Point {
	return []Point{
		BarriersOut, FileUnpublished, StateStored, WritesAcknowledged, AllAcknowledged, ManifestWritten, WitnessWritten,
		TransactionCommitted, ManifestsRemoved, Fenced, Restored,
	}
}
