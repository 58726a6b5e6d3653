package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/weirstream/weir/record"
)

// Files is a checkpoint store in memory. It keeps the rules of statestore.Uploader and Fetcher, and can be told to fail.
type Files struct {
	mu      sync.Mutex
	content map[string][]byte
	fail    error
	uploads int
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
	f.mu.Unlock()
	if !ok || digest(content) != blob.SHA256 || int64(len(content)) != blob.Size {
		return errors.New(blob.Name + " is not stored, or differs")
	}
	return os.WriteFile(path, content, 0o444)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
