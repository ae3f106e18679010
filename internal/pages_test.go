package internal_test

import (
	"flag"
	"fmt"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/imports.txt anew")

// module is the source, as far as pages name it and the list of imports needs it.
type module struct {
	names   map[string]map[string]bool // by package, tests aside: what begins a line, such as a field
	imports map[string]map[string]bool // of this module, by package, tests aside
	tests   map[string]bool            // functions, and scripts such as claim.txtar
}

var declared = regexp.MustCompile(`^(?:func (?:\([^)]*\) )?|type |var |const |\t+)(\w+)\b`)

// readModule reads the source, once.
var readModule = sync.OnceValues(func() (*module, error) {
	m := &module{names: make(map[string]map[string]bool), imports: make(map[string]map[string]bool), tests: make(map[string]bool)}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if _, none := os.Stat(filepath.Join(file, "go.mod")); none == nil && file != ".." {
			return fs.SkipDir // a module of its own
		}
		if strings.HasSuffix(file, ".txtar") {
			m.tests[filepath.Base(file)] = true
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(path.Dir(filepath.ToSlash(file)), "../")
		if strings.HasSuffix(file, "_test.go") {
			for line := range strings.Lines(string(text)) {
				if test, ok := strings.CutPrefix(line, "func Test"); ok {
					name, _, _ := strings.Cut(test, "(")
					m.tests["Test"+name] = true
				}
			}
			return nil
		}
		if m.imports[pkg] == nil {
			m.imports[pkg], m.names[pkg] = make(map[string]bool), make(map[string]bool)
		}
		for line := range strings.Lines(string(text)) {
			if named := declared.FindStringSubmatch(line); named != nil {
				m.names[pkg][named[1]] = true
			}
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			if ours, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "dibs/"); ok {
				m.imports[pkg][ours] = true
			}
		}
		return nil
	})
	if err == nil && (len(m.imports) < 30 || len(m.tests) < 300) {
		err = fmt.Errorf("found %d packages and %d tests", len(m.imports), len(m.tests))
	}
	return m, err
})

// importsList lists for each package which others it imports, in lines of less than 100 characters.
func (m *module) importsList() string {
	short := func(pkg string) string { return strings.TrimPrefix(pkg, "internal/") }
	var b strings.Builder
	var none []string
	list := func(name string, of []string) {
		line := "- " + name + ":"
		for i, pkg := range of {
			word := " " + short(pkg)
			if i+1 < len(of) {
				word += ","
			}
			if len(line)+len(word) > 98 {
				b.WriteString(line + "\n")
				line = " "
			}
			line += word
		}
		b.WriteString(line + "\n")
	}
	for _, pkg := range slices.Sorted(maps.Keys(m.imports)) {
		if of := slices.Sorted(maps.Keys(m.imports[pkg])); len(of) > 0 {
			list("`"+short(pkg)+"`", of)
		} else {
			none = append(none, pkg)
		}
	}
	list("nothing of ours", none)
	return b.String()
}

// TestImportsAreListed compares the list of imports with the code's. An arrow that is new stands
// there, for whoever reads it to see that it points one way.
func TestImportsAreListed(t *testing.T) {
	const file = "testdata/imports.txt"
	m := testkit.Got(readModule())(t)
	want := m.importsList()
	if *update {
		testkit.Must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got := testkit.Got(os.ReadFile(file))(t)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("imports (-code +%s; go test ./internal -run TestImportsAreListed -update writes it):\n%s", file, diff)
	}
}

// checked are the names on a page that have to be there: tests, tasks, files, and pkg.Name.
var checked = regexp.MustCompile("`(Test\\w+|\\w+\\.txtar|\\.ci/task \\w+|(?:cmd|config|docs|fixtures|internal|packaging)/[^`]+|[a-z]+\\.[A-Z][\\w.]+)`")

// has says whether there is what a page names.
func (m *module) has(name string) bool {
	if strings.HasPrefix(name, "Test") || strings.HasSuffix(name, ".txtar") {
		return m.tests[name]
	}
	if task, ok := strings.CutPrefix(name, ".ci/task "); ok {
		script, _ := os.ReadFile("../.ci/task")
		return regexp.MustCompile(`(?m)^  ` + task + ` `).Match(script)
	}
	if strings.Contains(name, "/") {
		_, err := os.Stat(filepath.Join("..", name))
		return err == nil
	}
	parts := strings.Split(name, ".")
	for pkg, names := range m.names {
		if path.Base(pkg) == parts[0] && !slices.ContainsFunc(parts[1:], func(name string) bool { return !names[name] }) {
			return true
		}
	}
	return false
}

// TestPagesNameWhatThereIs looks for what pages name: those on working on dibs, and the one on threats.
func TestPagesNameWhatThereIs(t *testing.T) {
	m := testkit.Got(readModule())(t)
	found := 0
	for _, file := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "contributing/tests.md", "contributing/how-to-add.md", "threats.md"} {
		page := testkit.Got(os.ReadFile("../docs/" + file))(t)
		for _, name := range checked.FindAllStringSubmatch(string(page), -1) {
			if found++; !m.has(name[1]) {
				t.Errorf("docs/%s: there is no %s", file, name[1])
			}
		}
		// Whatever a hostile party cannot do has a test beside it.
		for section := range strings.SplitSeq(string(page), "\n## ") {
			for _, item := range strings.Split(section, "\n- ")[1:] {
				if strings.HasPrefix(section, "A hostile ") && !strings.Contains(item, "`Test") && !strings.Contains(item, ".txtar`") {
					t.Errorf("docs/%s: no test is named for: %s", file, item)
				}
			}
		}
	}
	testkit.Check(t, found >= 100, "found %d names", found)
	for _, none := range []string{"TestNothing", "nothing.txtar", ".ci/task nothing", "internal/nothing", "claim.Nothing", "nothing.Claim"} {
		testkit.Check(t, !m.has(none), "%s is said to be there", none)
	}
}

// TestWingsImportOneWay holds that the folders of internal import each other one way, that each says
// what it is for, and that there are few enough to know.
func TestWingsImportOneWay(t *testing.T) {
	m := testkit.Got(readModule())(t)
	uses := map[string]map[string]string{}
	for pkg, imports := range m.imports {
		from, ours := wing(pkg)
		if !ours {
			continue
		}
		if uses[from] == nil {
			uses[from] = map[string]string{}
		}
		for used := range imports {
			if to, ours := wing(used); ours && to != from {
				uses[from][to] = pkg + " of " + used
			}
		}
	}
	if path := circle(uses); path != nil {
		t.Errorf("the folders of internal import each other in a circle: %s", strings.Join(path, ", "))
	}
	testkit.Check(t, len(uses) <= 17, "internal has %d folders: %v", len(uses), slices.Sorted(maps.Keys(uses)))
	for name := range uses {
		of, err := build.ImportDir(name, build.ImportComment)
		testkit.Check(t, err == nil && of.Doc != "", "internal/%s has no package documentation: %v", name, err)
	}
}

// wing returns the folder of internal that a package is in.
func wing(pkg string) (string, bool) {
	rest, ours := strings.CutPrefix(pkg, "internal/")
	name, _, _ := strings.Cut(rest, "/")
	return name, ours
}
