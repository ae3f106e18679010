package internal_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dibs/internal/testkit"
)

// rooms are the packages whose files refer to each other one way, so that each can be read from the
// bottom up. testdata/oneway lists the exceptions of a room, each with its reason.
var rooms = []string{
	"../config",
	"api",
	"broker",
	"claim",
	"cli",
	"cluster",
	"daemon",
	"door/board",
	"door/mcp",
	"door/server",
	"journal",
	"mirror",
	"notion",
	"notion/emulator",
	"notion/transport",
	"outbox",
	"reserve",
	"run/runner",
	"setup",
	"setup/connect",
	"setup/doctor",
	"task",
}

func TestFilesReferOneWay(t *testing.T) {
	for _, room := range rooms {
		uses := references(t, room)
		testkit.Require(t, len(uses) != 0, "no file of package %s refers to others: the references were not found", room)
		excepted := exceptions(t, room)
		testkit.Check(t, len(excepted) <= 20, "package %s has %d exceptions", room, len(excepted))
		for _, arrow := range excepted {
			if uses[arrow[0]][arrow[1]] == "" {
				t.Errorf("package %s: %s refers to nothing of %s: take the exception out", room, arrow[0], arrow[1])
			}
			delete(uses[arrow[0]], arrow[1])
		}
		if path := circle(uses); path != nil {
			t.Errorf("files of package %s refer to each other in a circle: %s", room, strings.Join(path, ", "))
		}
	}
}

// exceptions returns the references that may run back in a room: FROM TO REASON, one a line.
func exceptions(t *testing.T, room string) (arrows [][2]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "oneway", strings.ReplaceAll(room, "/", "-")+".txt"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	testkit.Must(t, err)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		testkit.Require(t, len(words) >= 5, "package %s: %q has no reason: want FROM TO REASON", room, line)
		arrows = append(arrows, [2]string{words[0], words[1]})
	}
	return arrows
}

// circle returns a circle of references, each with what makes it; nil if there is none.
func circle(uses map[string]map[string]string) []string {
	var path, found []string
	clean := map[string]bool{}
	var visit func(from string)
	visit = func(from string) {
		if found != nil || clean[from] {
			return
		}
		if i := slices.Index(path, from); i >= 0 {
			in := append(path[i:], from)
			for j, to := range in[1:] {
				found = append(found, fmt.Sprintf("%s uses %s of %s", in[j], uses[in[j]][to], to))
			}
			return
		}
		path = append(path, from)
		for _, to := range slices.Sorted(maps.Keys(uses[from])) {
			visit(to)
		}
		path = path[:len(path)-1]
		clean[from] = true
	}
	for _, from := range slices.Sorted(maps.Keys(uses)) {
		visit(from)
	}
	return found
}

// references returns, for each file of a package, the files to whose functions, methods, types,
// constants and variables it refers, with one such name.
func references(t *testing.T, folder string) map[string]map[string]string {
	t.Helper()
	of := testkit.Got(build.ImportDir(folder, 0))(t)
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range of.GoFiles {
		f := testkit.Got(parser.ParseFile(fset, filepath.Join(folder, name), nil, parser.SkipObjectResolution))(t)
		files = append(files, f)
	}
	// Other packages are not read. What cannot be told without them is no reference within this
	// one.
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	check := types.Config{Importer: nothing{}, Error: func(error) {}}
	pkg, _ := check.Check(folder, fset, files, &info)
	uses := map[string]map[string]string{}
	for id, o := range info.Uses {
		method, _ := o.(*types.Func)
		if o.Pkg() != pkg || o.Parent() != pkg.Scope() && (method == nil || method.Signature().Recv() == nil) {
			continue
		}
		from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(o.Pos()).Filename)
		if from == to {
			continue
		}
		if uses[from] == nil {
			uses[from] = map[string]string{}
		}
		uses[from][to] = o.Name()
	}
	return uses
}

// nothing imports no package.
type nothing struct{}

func (nothing) Import(string) (*types.Package, error) { return nil, errors.New("not read") }
