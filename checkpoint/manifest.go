package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/weirstream/weir/record"
)

// ManifestVersion is the version of the manifest that this version of Weir writes, and the only one that it reads.
const ManifestVersion = 1

// ErrVersion means that a manifest was written by another version of Weir than this one knows.
var ErrVersion = errors.New("unknown version of a checkpoint manifest: use a version of Weir at least as new as the writer")

// maxManifest bounds a manifest in bytes: state of back end memory lies inside, 5 MiB a subtask.
const maxManifest = 1 << 30

// Manifest says what a checkpoint consists of. On disk it is JSON with its own digest around it:
//
//	{"version":1,"sha256":"<of the manifest's bytes>","manifest":{…}}
//
// Names and meanings of a version are never changed.
type Manifest struct {
	Job        string              `json:"job"`
	Checkpoint record.CheckpointID `json:"checkpoint"`
	Attempt    record.Attempt      `json:"attempt"`
	// Run names the run of the job that wrote the checkpoint, see NewRun.
	Run string `json:"run"`
	// Instance names the process that wrote the checkpoint, for people.
	Instance string `json:"instance,omitempty"`
	// Parent is the checkpoint before, 0 at the beginning.
	Parent  record.CheckpointID `json:"parent"`
	Created time.Time           `json:"created"`
	// Transaction is the identity of the Kafka transaction that holds the checkpoint's output; zero without one.
	Transaction record.Identity `json:"transaction"`
	// Groups is the number of key groups of the job.
	Groups int `json:"key_groups"`
	// Plan is the fingerprint of the physical plan.
	Plan string `json:"plan"`
	// Outputs are the topics that hold the results, and the one that holds the witness.
	Outputs   []Topic              `json:"outputs,omitempty"`
	Positions []record.Position    `json:"positions"`
	States    []record.StateHandle `json:"states"`
}

// Topic is a topic as it was when a checkpoint was taken.
type Topic struct {
	Topic      string         `json:"topic"`
	ID         record.TopicID `json:"topic_id"`
	Partitions int            `json:"partitions"`
}

type envelope struct {
	Version  int             `json:"version"`
	SHA256   string          `json:"sha256"`
	Manifest json.RawMessage `json:"manifest"`
}

// Encode returns the manifest as it is stored, or every fault of it.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "{\"version\":%d,\"sha256\":\"%s\",\"manifest\":%s}\n", ManifestVersion, digestOf(body), body), nil
}

// Decode reads what Encode wrote, and nothing else.
func Decode(content []byte) (*Manifest, error) {
	var version struct{ Version int }
	if err := json.Unmarshal(content, &version); err != nil {
		return nil, err
	}
	if version.Version != ManifestVersion {
		return nil, fmt.Errorf("version %d: %w", version.Version, ErrVersion)
	}
	var e envelope
	if err := strict(content, &e); err != nil {
		return nil, err
	}
	if got := digestOf(e.Manifest); got != e.SHA256 {
		return nil, fmt.Errorf("its SHA-256 is %s, %s was written", got, e.SHA256)
	}
	m := new(Manifest)
	if err := strict(e.Manifest, m); err != nil {
		return nil, err
	}
	return m, m.Validate()
}

// strict decodes one JSON value that has no unknown fields and nothing behind it.
func strict(content []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the end")
	}
	return nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// faults collects what is wrong with a manifest.
type faults []error

func (f *faults) add(bad bool, format string, args ...any) {
	if bad {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Validate reports every fault of m at once.
func (m *Manifest) Validate() error {
	var f faults
	f.add(!validElement(m.Job), "job %q: must be letters, digits, dots, dashes or underscores", m.Job)
	f.add(m.Checkpoint < 1, "checkpoint %d: must be at least 1", m.Checkpoint)
	f.add(m.Attempt < 1, "attempt %d: must be at least 1", m.Attempt)
	attempt, ok := RunAttempt(m.Run)
	f.add(!ok || attempt != m.Attempt, "run %q does not belong to attempt %d", m.Run, m.Attempt)
	f.add(m.Parent < 0 || m.Parent >= m.Checkpoint, "parent %d: must be before checkpoint %d", m.Parent, m.Checkpoint)
	f.add(m.Groups < 1 || m.Groups > 1<<16, "%d key groups: must be between 1 and 65536", m.Groups)
	m.checkPositions(&f)
	m.checkStates(&f)
	return errors.Join(f...)
}

func (m *Manifest) checkPositions(f *faults) {
	type place struct {
		source    string
		partition int32
	}
	seen := map[place]bool{}
	for _, p := range m.Positions {
		at := place{p.Source, p.Partition}
		f.add(p.Source == "" || p.Topic == "", "position without a source or a topic")
		f.add(p.Partition < 0 || p.Offset < 0 || p.LeaderEpoch < -1, "position of %s/%d: negative figures", p.Source, p.Partition)
		f.add(seen[at], "position of %s/%d: given twice", p.Source, p.Partition)
		seen[at] = true
	}
}

func (m *Manifest) checkStates(f *faults) {
	type owner struct {
		subtask  int
		operator string
	}
	seen, blobs := map[owner]bool{}, map[string]record.Blob{}
	for _, s := range m.States {
		of, at := fmt.Sprintf("state of operator %q in subtask %d", s.Operator, s.Subtask), owner{s.Subtask, s.Operator}
		f.add(s.Subtask < 0 || s.Operator == "" || seen[at], "%s: given twice, or not named", of)
		f.add(s.Backend == "" || s.Format < 1, "%s: no back end or format", of)
		f.add(len(s.Paths) != len(s.Blobs), "%s: %d files with %d names", of, len(s.Blobs), len(s.Paths))
		seen[at] = true
		for _, g := range s.KeyGroups {
			f.add(g < 0 || int(g) >= m.Groups, "%s: key group %d of %d", of, g, m.Groups)
		}
		for _, b := range s.Blobs {
			other, ok := blobs[b.Name]
			f.add(!ValidName(b.Name) || b.Size < 0 || !sha256Hex.MatchString(b.SHA256), "file %q: bad name, size or digest", b.Name)
			f.add(ok && other != b, "file %s: two contents", b.Name)
			blobs[b.Name] = b
		}
	}
}

// Blobs returns the files that the checkpoint refers to, each once.
func (m *Manifest) Blobs() []record.Blob {
	var blobs []record.Blob
	seen := map[string]bool{}
	for _, s := range m.States {
		for _, b := range s.Blobs {
			if !seen[b.Name] {
				blobs = append(blobs, b)
			}
			seen[b.Name] = true
		}
	}
	return blobs
}

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

func validElement(s string) bool { return nameElement.MatchString(s) }
