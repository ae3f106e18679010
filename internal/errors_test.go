package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// program is what the source says to people, tests left out.
type program struct {
	texts  []string // every string
	logged []string // those that are logged as warnings and errors
	checks []string // what the doctor looks at
	codes  []string // of refusals
	exits  []string
}

// readProgram reads the source.
func readProgram(t *testing.T) program {
	t.Helper()
	var p program
	for _, dir := range []string{"../internal", "../config", "../cmd"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasSuffix(path, "test") {
				return fs.SkipDir // claimtest: no part of the program
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				p.read(filepath.ToSlash(path), file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, list := range []*[]string{&p.logged, &p.checks, &p.codes, &p.exits} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return p
}

func (p *program) read(path string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, ok := literal(n); ok {
				p.texts = append(p.texts, text)
			}
		case *ast.ValueSpec:
			p.constant(path, n)
		case *ast.CompositeLit:
			if kind, ok := n.Type.(*ast.Ident); ok && kind.Name == "Finding" && len(n.Elts) > 0 {
				first := n.Elts[0]
				if pair, ok := first.(*ast.KeyValueExpr); ok {
					first = pair.Value
				}
				if text, ok := literal(first); ok {
					p.checks = append(p.checks, text)
				}
			}
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) == 0 {
				break
			}
			text, isText := literal(n.Args[0])
			switch called.Sel.Name {
			case "Warn", "Error":
				if isText {
					p.logged = append(p.logged, text)
				}
			case "ok", "warn", "problem", "failed":
				if isText && strings.HasPrefix(path, "../internal/doctor/") {
					p.checks = append(p.checks, text)
				}
			}
		}
		return true
	})
}

// constant notes a code, of a refusal or of an exit.
func (p *program) constant(path string, spec *ast.ValueSpec) {
	if path != "../internal/claim/denied.go" && path != "../internal/api/code.go" || len(spec.Values) == 0 {
		return
	}
	switch name := spec.Names[0].Name; {
	case strings.HasPrefix(name, "Code"):
		if text, ok := literal(spec.Values[0]); ok { // or it is one of the other package's
			p.codes = append(p.codes, text)
		}
	case strings.HasPrefix(name, "Exit"):
		p.exits = append(p.exits, spec.Values[0].(*ast.BasicLit).Value)
	}
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	verb   = regexp.MustCompile(`%(\[\d+\])?[#+]?[a-z]`)
)

// rows are what the pages about errors explain, by the heading above: each item of their lists begins
// with it.
func rows(t *testing.T) map[string][]string {
	t.Helper()
	pages, err := filepath.Glob("../docs/errors*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]string)
	for _, name := range append(pages, "../docs/doctor-checks.md") {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		heading := ""
		for block := range strings.SplitSeq(string(page), "\n\n") {
			if title, list, ok := strings.Cut(block, "\n"); strings.HasPrefix(block, "## ") {
				heading = strings.TrimPrefix(title, "## ")
				if block = list; !ok {
					continue
				}
			}
			for item := range strings.SplitSeq("\n"+block, "\n- ") {
				item = strings.Join(strings.Fields(item), " ")
				if !strings.HasPrefix("\n"+block, "\n- ") || item == "" {
					continue
				}
				what, explained, ok := strings.Cut(item, "`: ")
				if what += "`"; !ok {
					what, explained, _ = strings.Cut(item, ": ")
				}
				if explained == "" {
					t.Errorf("%s: nothing is said of: %s", name, item)
				}
				found[heading] = append(found[heading], what)
			}
		}
	}
	return found
}

// TestErrorsAreExplained compares docs/errors.md with the program: what a person
// may meet is on the page, and what is on the page can be met.
func TestErrorsAreExplained(t *testing.T) {
	testkit.SkipUnderRace(t)
	p, page := readProgram(t), rows(t)
	if len(p.codes) < 25 || len(p.exits) < 7 || len(p.logged) < 20 || len(p.checks) < 15 {
		t.Fatalf("found %d codes, %d exit codes, %d logged texts, %d checks", len(p.codes), len(p.exits), len(p.logged), len(p.checks))
	}
	for heading, want := range map[string][]string{
		"Exit codes":                  p.exits,
		"Codes":                       p.codes,
		"What the daemon logs":        p.logged,
		"What `dibs doctor` looks at": p.checksOnPage(),
	} {
		got := make([]string, 0, len(page[heading]))
		for _, cell := range page[heading] {
			got = append(got, strings.Trim(cell, "`"))
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: in the program, and not on the page (-), or the other way round (+):\n%s", heading, diff)
		}
		delete(page, heading)
	}
	if len(page) < 4 {
		t.Errorf("further tables: %v", slices.Sorted(maps.Keys(page)))
	}
	for heading, cells := range page {
		for _, cell := range cells {
			texts := quoted.FindAllStringSubmatch(cell, -1)
			if len(texts) == 0 {
				t.Errorf("%s: no text in %s", heading, cell)
			}
			for _, text := range texts {
				if !p.says(text[1]) {
					t.Errorf("%s: dibs never says %q", heading, text[1])
				}
			}
		}
	}
}

// checksOnPage are the checks with those whose names are put together.
func (p program) checksOnPage() []string {
	all := append(slices.Clone(p.checks), "databases.tasks", "databases.task_log", "databases.mesh_log")
	slices.Sort(all)
	return slices.Compact(all)
}

// says reports whether the program has the text, in which … stands for whatever it
// fills in.
func (p program) says(text string) bool {
	for _, s := range p.texts {
		rest := verb.ReplaceAllString(s, "…")
		found := true
		for part := range strings.SplitSeq(text, "…") {
			at := strings.Index(rest, part)
			if at < 0 {
				found = false
				break
			}
			rest = rest[at+len(part):]
		}
		if found {
			return true
		}
	}
	return false
}
