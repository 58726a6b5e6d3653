package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/weirstream/weir/record"
)

// Files is a checkpoint store in memory. It keeps the rules of statestore.Uploader and Fetcher, and can be told to fail.
type Files struct {
	mu      sync.Mutex
	content map[string][]byte
	fail    error
	uploads int
	fetched []string
	damaged bool
}

// FailWith makes every upload fail, until it is called with nil.
func (f *Files) FailWith(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

// Uploads returns how many files were stored under a new name.
func (f *Files) Uploads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.uploads
}

// Fetched returns the names of the files that were downloaded.
func (f *Files) Fetched() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.fetched)
}

// Damage changes a bit of every stored file whose name has the suffix, and lets downloads pass that nevertheless: what
// comes after the digest's check must not rest on it.
func (f *Files) Damage(suffix string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.damaged = true
	for name, content := range f.content {
		if strings.HasSuffix(name, suffix) && len(content) > 0 {
			content[len(content)/2] ^= 1
		}
	}
}

// Upload stores a file.
func (f *Files) Upload(_ context.Context, name, path string) (record.Blob, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return record.Blob{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return record.Blob{}, f.fail
	}
	if old, ok := f.content[name]; ok && string(old) != string(content) {
		return record.Blob{}, fmt.Errorf("%s is stored with other content", name)
	} else if !ok {
		f.uploads++
	}
	if f.content == nil {
		f.content = map[string][]byte{}
	}
	f.content[name] = content
	return record.Blob{Name: name, Size: int64(len(content)), SHA256: digest(content)}, nil
}

// Download writes a stored file to path.
func (f *Files) Download(_ context.Context, blob record.Blob, path string) error {
	f.mu.Lock()
	content, ok := f.content[blob.Name]
	f.fetched = append(f.fetched, blob.Name)
	damaged := f.damaged
	f.mu.Unlock()
	if !ok || !damaged && digest(content) != blob.SHA256 || int64(len(content)) != blob.Size {
		return errors.New(blob.Name + " is not stored, or differs")
	}
	return os.WriteFile(path, content, 0o444)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
