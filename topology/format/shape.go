// Package format says what the bytes of a record's value mean, and turns one form into another at the sinks.
package format

import (
	"slices"

	"github.com/weirstream/weir/topology/row"
)

// Format is the form of a value in a topic, or between operators.
type Format uint8

// The formats. Raw is bytes of which nothing is known, String is UTF-8 text, Int64 is eight bytes, big endian, as Kafka's
// LongSerializer writes them. Row is only found between operators.
const (
	Raw Format = iota
	String
	Int64
	JSON
	Row
)

var names = [...]string{Raw: "raw", String: "string", Int64: "int64", JSON: "json", Row: "row"}

// String returns the name in a pipeline file.
func (f Format) String() string { return names[f] }

// Names lists the formats that a topic may have.
func Names() []string { return names[:Row] }

// Parse returns the format of a topic called name.
func Parse(name string) (Format, bool) {
	for i, n := range Names() {
		if n == name {
			return Format(i), true
		}
	}
	return Raw, false
}

// Shape is what is known of the records of a stream before any is seen.
type Shape struct {
	Format Format
	// Fields are the columns of a row, or the members of JSON values whose type the source declares.
	Fields row.Schema
	// Key is the name by which expressions reach the record's key, after a step that set it from a field of that name.
	// Its Name is empty where there is no such name.
	Key row.Column
}

// Same says whether records of s can take the place of records of t.
func (s *Shape) Same(t *Shape) bool {
	return s.Format == t.Format && s.Key == t.Key && slices.Equal(s.Fields.Columns, t.Fields.Columns)
}
