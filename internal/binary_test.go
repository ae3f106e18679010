package internal_test

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/testkit"
)

// mayTest is the one file of the binary that may import package testing: the
// simulation's, for the virtual time of testing/synctest.
const mayTest = "dibs/internal/claim/simulate/bubble.go"

// What helps to test dibs is not part of the program that people install.
func TestBinaryHasNoTestHelpers(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,GoFiles,Imports", "dibs/cmd/dibs").Output()
	testkit.Require(t, err == nil, "go list: %v", err)
	found := false
	for packages := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg struct {
			ImportPath, Dir  string
			Standard         bool
			GoFiles, Imports []string
		}
		if err := packages.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		ours := strings.HasPrefix(pkg.ImportPath, "dibs/")
		found = found || pkg.ImportPath == "dibs/cmd/dibs"
		helper := ours && (strings.HasSuffix(pkg.ImportPath, "test") || strings.HasPrefix(pkg.ImportPath, "dibs/internal/testkit/"))
		if helper || strings.HasPrefix(pkg.ImportPath, "github.com/google/go-cmp/") {
			t.Errorf("the binary contains %s", pkg.ImportPath)
		}
		if !ours && (pkg.Standard || !strings.Contains(strings.Join(pkg.Imports, " "), "testing")) {
			continue
		}
		for _, name := range pkg.GoFiles {
			parsed := testkit.Got(parser.ParseFile(token.NewFileSet(), filepath.Join(pkg.Dir, name), nil, parser.ImportsOnly))(t)
			for _, spec := range parsed.Imports {
				imported := strings.Trim(spec.Path.Value, `"`)
				file := path.Join(pkg.ImportPath, name)
				if (imported == "testing" || strings.HasPrefix(imported, "testing/")) && file != mayTest {
					t.Errorf("%s, which is in the binary, imports %s", file, imported)
				}
			}
		}
	}
	if !found {
		t.Fatal("go list named no dibs/cmd/dibs")
	}
}
