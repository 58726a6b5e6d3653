// Package imports holds the test of who may import what.
package imports

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/weirstream/weir/"

// direction says for each package, sub-packages included, what it may import of the project besides its own sub-packages and
// the leaves under internal that belong to nobody. Arrows point one way: towards record. What is "declared by the consumer"
// needs no arrow: task declares the interfaces that it calls, and sidecar joins them with what implements them.
var direction = map[string][]string{
	"record":     {},
	"topology":   {"record"},
	"barrier":    {"record", "internal/planted"},
	"statestore": {"record", "internal/planted"},
	"checkpoint": {"record", "internal/planted"},
	"consumer":   {"record", "internal/kafka"},
	"exchange":   {"record"},
	"txsink":     {"record", "barrier", "internal/kafka", "internal/planted"},
	"task":       {"record", "barrier", "topology", "exchange", "internal/planted"},
	"raftcoord":  {"record", "barrier"},
	"config":     {"record", "topology"},
	"admin":      {},
	"sidecar":    {everything},
	"cmd":        {everything},
	"examples":   {everything},
	"tests":      {everything},
}

// leaves says the same of the packages under internal. One that is not listed imports nothing of the project and may be
// imported by all; one that is listed may be imported only by those who name it in direction, or by those with everything.
var leaves = map[string][]string{
	"internal/kafka":    {},
	"internal/verify":   {},
	"internal/embedded": {},
	"internal/instance": {},
	"internal/planted":  {"record"},
	"internal/demo":     {"internal/embedded", "internal/instance", "internal/verify"},
	"internal/dev":      {"internal/embedded", "internal/instance"},
}

// homes are the packages that a driver is confined to.
var homes = map[string][]string{
	// verify reads on its own: what the job's reader gets wrong must show.
	"github.com/IBM/sarama":              {"internal/kafka", "consumer", "txsink", "internal/verify", "tests"},
	"github.com/cockroachdb/pebble":      {"statestore"},
	"github.com/hashicorp/raft":          {"raftcoord"},
	"github.com/hashicorp/raft-wal":      {"raftcoord"},
	"github.com/spf13/viper":             {"config"},
	"github.com/minio/minio-go":          {"checkpoint"},
	"github.com/expr-lang/expr":          {"topology/expression"},
	"github.com/twmb/franz-go/pkg/kfake": {"internal/embedded", "tests"},
	"github.com/twmb/franz-go":           {"internal/embedded", "tests"},
}

const everything = "*"

func TestImportDirection(t *testing.T) {
	found, err := violations(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

func TestViolationsAreNamed(t *testing.T) {
	tree := fstest.MapFS{
		"record/r.go":              source("record", "fmt"),
		"record/up.go":             source("record", module+"barrier"),
		"consumer/c.go":            source("consumer", "github.com/IBM/sarama", module+"internal/kafka", module+"internal/words"),
		"consumer/c_test.go":       source("consumer", module+"tests/kafkatest"),
		"statestore/s.go":          source("statestore", "github.com/IBM/sarama", module+"statestore/tables"),
		"task/t.go":                source("task", module+"internal/verify"),
		"internal/words/w.go":      source("words", module+"record"),
		"admin/a.go":               source("admin", module+"tests/kafkatest"),
		"pipelines/p.go":           source("pipelines", module+"record"),
		"sidecar/coordinator/s.go": source("coordinator", module+"task", "github.com/twmb/franz-go/pkg/kfake"),
	}
	got, err := violations(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"admin/a.go: admin may not import tests/kafkatest",
		"internal/words/w.go: internal/words may not import record",
		"pipelines/p.go: package pipelines has no rule: add it to direction",
		"record/up.go: record may not import barrier",
		"sidecar/coordinator/s.go: github.com/twmb/franz-go/pkg/kfake belongs to internal/embedded, tests",
		"statestore/s.go: github.com/IBM/sarama belongs to internal/kafka, consumer, txsink, internal/verify, tests",
		"task/t.go: task may not import internal/verify",
	}
	if !slices.Equal(got, want) {
		t.Errorf("violations:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func source(pkg string, imports ...string) *fstest.MapFile {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n", pkg)
	for _, i := range imports {
		fmt.Fprintf(&b, "import _ %q\n", i)
	}
	return &fstest.MapFile{Data: []byte(b.String())}
}

// violations reads the imports of every file but the tests, whatever its build tags.
func violations(tree fs.FS) ([]string, error) {
	var found []string
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			if fault := check(path.Dir(name), strings.Trim(i.Path.Value, `"`)); fault != "" {
				found = append(found, name+": "+fault)
			}
		}
		return nil
	})
	return found, err
}

// check says what is wrong with pkg importing imported, or nothing.
func check(pkg, imported string) string {
	if ours, ok := strings.CutPrefix(imported, module); ok {
		return checkOurs(pkg, ours)
	}
	var home []string
	longest := ""
	for driver, at := range homes {
		if within(imported, driver) && len(driver) > len(longest) {
			longest, home = driver, at
		}
	}
	if longest != "" && !slices.ContainsFunc(home, func(h string) bool { return within(pkg, h) }) {
		return longest + " belongs to " + strings.Join(home, ", ")
	}
	return ""
}

func checkOurs(pkg, imported string) string {
	owner := unit(pkg)
	may, known := direction[owner]
	if strings.HasPrefix(owner, "internal/") {
		may, known = leaves[owner], true
	}
	_, reserved := leaves[unit(imported)]
	switch {
	case !known:
		return "package " + owner + " has no rule: add it to direction"
	case unit(imported) == "tests" && owner != "tests":
	case unit(imported) == owner, slices.Contains(may, everything), slices.Contains(may, unit(imported)):
		return ""
	case strings.HasPrefix(imported, "internal/") && !reserved:
		return ""
	}
	return pkg + " may not import " + imported
}

// unit is the part of the project that a package belongs to: its first folder, or the first two under internal.
func unit(pkg string) string {
	parts := strings.SplitN(pkg, "/", 3)
	if parts[0] == "internal" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// within says whether pkg is parent or lies below it; a major version is below, raft-wal is not below raft.
func within(pkg, parent string) bool {
	return pkg == parent || strings.HasPrefix(pkg, parent+"/")
}
