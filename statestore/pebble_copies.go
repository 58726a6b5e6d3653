package statestore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/record"
)

// The Pebble checkpoints that were uploaded stay in the folder until a newer one is committed: a restart in the same
// place links their tables instead of downloading them. They are what a crash may have left, so no byte of them is
// trusted before its digest is that of the checkpoint.

func localCopy(dir string, n record.CheckpointID) string {
	return filepath.Join(dir, fmt.Sprintf("chk-%08d", n))
}

// copyOf returns the checkpoint of which the entry of a store's folder is a local copy.
func copyOf(name string) (n record.CheckpointID, ok bool) {
	_, err := fmt.Sscanf(name, "chk-%d", &n)
	return n, err == nil
}

// dropCopies removes the local copies of checkpoints before n.
func dropCopies(dir string, n record.CheckpointID) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if id, ok := copyOf(e.Name()); ok && id < n {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// reuse links a table to path if a local copy of any checkpoint has it, and says whether it did.
func reuse(dir, file string, blob record.Blob, path string) bool {
	copies, err := filepath.Glob(filepath.Join(dir, "chk-*", file))
	if err != nil {
		return false
	}
	for _, c := range copies {
		if same, err := hasContent(c, blob); err == nil && same {
			return os.Link(c, path) == nil
		}
	}
	return false
}

func hasContent(path string, blob record.Blob) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || info.Size() != blob.Size {
		return false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)) == blob.SHA256, errors.Join(err, f.Close())
}
