package sidecar

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/txsink"
)

// prepared finds the checkpoints after the hint whose manifests are durable, and which may therefore be committed still. Of
// several runs that tried the same number only the latest can have an open transaction, for each fenced those before.
func prepared(ctx context.Context, catalog *checkpoint.Catalog, hint *txsink.Witness, logger *slog.Logger) ([]txsink.Witness, error) {
	var after record.CheckpointID
	if hint != nil {
		after = hint.Checkpoint
	}
	refs, err := catalog.Prepared(ctx, after)
	if err != nil {
		return nil, err
	}
	var run string
	for _, r := range refs { // by checkpoint, and within one by run
		if r.Checkpoint == after+1 {
			run = r.Run
		}
	}
	var found []txsink.Witness
	for _, r := range refs {
		if r.Run != run || r.Checkpoint != after+1 {
			continue
		}
		m, err := catalog.Read(ctx, r.Location, "")
		var corrupt *checkpoint.CorruptError
		if errors.As(err, &corrupt) { // torn: it was never decided upon
			logger.Warn("a manifest is damaged; its checkpoint is not rolled forward", "location", r.Location, "error", err)
			break
		}
		if err != nil {
			return nil, err
		}
		w, err := witnessOf(m, r.Location)
		if err != nil {
			return nil, err
		}
		found = append(found, w)
		after = r.Checkpoint
	}
	return found, nil
}

// witnessOf is the witness that the transaction of a manifest has, or should get.
func witnessOf(m *checkpoint.Manifest, location string) (txsink.Witness, error) {
	content, err := m.Encode()
	if err != nil {
		return txsink.Witness{}, err
	}
	digest := sha256.Sum256(content)
	return txsink.Witness{
		Job: m.Job, Checkpoint: m.Checkpoint, Attempt: m.Attempt, Identity: m.Transaction, Positions: m.Positions,
		Manifest: record.Blob{Name: location, Size: int64(len(content)), SHA256: hex.EncodeToString(digest[:])},
	}, nil
}
