package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/testkit"

	"golang.org/x/tools/go/packages"
)

// All packages and their tests are right by their types on macOS too, where these checks do not
// run. The types are read from source, because it takes minutes to compile what dibs imports.
func TestTypesOnMacOS(t *testing.T) {
	testkit.Long(t)
	testkit.SkipUnderRace(t)
	checkout := testkit.Got(filepath.Abs(".."))(t)
	all, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax, Dir: checkout, Tests: true,
		Env: append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0"),
		ParseFile: func(files *token.FileSet, name string, src []byte) (*ast.File, error) {
			f, err := parser.ParseFile(files, name, src, parser.SkipObjectResolution)
			if f != nil && !within(checkout, name) {
				withoutBodies(f)
			}
			return f, err
		},
	}, "./...")
	testkit.Must(t, err)
	testkit.Require(t, len(all) >= 100, "only %d packages were read", len(all))
	for _, p := range all {
		for _, e := range p.Errors {
			if file, _, _ := strings.Cut(e.Pos, ":"); file == "" || file == "-" || within(checkout, file) {
				t.Errorf("%s: %s", e.Pos, e.Msg)
			}
		}
	}
}

func within(folder, file string) bool {
	return strings.HasPrefix(file, folder+string(filepath.Separator))
}

// withoutBodies empties the functions of a file: what they do is not asked.
func withoutBodies(f *ast.File) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			fn.Body.List = nil
		}
	}
}
