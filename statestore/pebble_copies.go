package statestore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirstream/weir/record"
)

// A base and the deltas that follow it stay in a folder of their own until a checkpoint on a newer base is committed: a
// restart in the same place links these files instead of downloading them. They are what a crash may have left, so no
// byte of them is trusted before its digest is that of the checkpoint.

// localCopy is the folder of base n; the deltas before the first base are in that of number 0.
func localCopy(dir string, n record.CheckpointID) string {
	return filepath.Join(dir, fmt.Sprintf("chk-%08d", n))
}

// copyOf returns the base of which the entry of a store's folder is the local copy.
func copyOf(name string) (n record.CheckpointID, ok bool) {
	_, err := fmt.Sscanf(name, "chk-%d", &n)
	return n, err == nil
}

// copies lists the bases with a local copy.
func copies(dir string) ([]record.CheckpointID, error) {
	entries, err := os.ReadDir(dir)
	var list []record.CheckpointID
	for _, e := range entries {
		if n, ok := copyOf(e.Name()); ok {
			list = append(list, n)
		}
	}
	return list, err
}

// dropCopies removes the local copies that checkpoint n does not build on: those before the last base up to n.
func dropCopies(dir string, n record.CheckpointID) error {
	all, err := copies(dir)
	if err != nil {
		return err
	}
	base := record.CheckpointID(0)
	for _, c := range all {
		if c <= n {
			base = max(base, c)
		}
	}
	return removeCopies(dir, slices.DeleteFunc(all, func(c record.CheckpointID) bool { return c >= base }))
}

// dropAllCopies removes what earlier processes left.
func dropAllCopies(dir string) error {
	if dir == "" {
		return nil
	}
	all, err := copies(dir)
	if err != nil {
		return err
	}
	return removeCopies(dir, all)
}

func removeCopies(dir string, list []record.CheckpointID) error {
	for _, n := range list {
		if err := os.RemoveAll(localCopy(dir, n)); err != nil {
			return err
		}
	}
	return nil
}

// reuse links a file to path if a local copy of any checkpoint has it, and says whether it did.
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
