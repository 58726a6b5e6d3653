package record

// Blob names a durable, immutable file of a checkpoint store by its content.
type Blob struct {
	// Name is the path within the store, with forward slashes.
	Name string `json:"name"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// SHA256 is the digest of the content in hexadecimal.
	SHA256 string `json:"sha256"`
}

// StateHandle says where the keyed state of one subtask at one checkpoint lies and how to read it back.
type StateHandle struct {
	// Subtask is the subtask that wrote it.
	Subtask int `json:"subtask"`
	// Operator is the name of the operator that the state belongs to.
	Operator string `json:"operator"`
	// Backend is the back end that wrote the state; Format its version of the layout.
	Backend string `json:"backend"`
	Format  int    `json:"format"`
	// KeyGroups are the key groups that may hold entries here, ascending; a restore skips handles that share none.
	KeyGroups []KeyGroup `json:"key_groups,omitempty"`
	// Inline is the state itself where the back end keeps it in the manifest.
	Inline []byte `json:"inline,omitempty"`
	Blobs  []Blob `json:"blobs,omitempty"`
	// Paths gives for each blob the file name that the back end wants it under at restore.
	Paths []string `json:"paths,omitempty"`
}
