package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dibs/internal/api"
)

// TestMain lets garbage lie for longer than usual: most of what is read of the source lives to the end.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// module is what the pages for those who work on dibs may name.
type module struct {
	packages []string                   // their paths
	names    map[string]map[string]bool // by package: Name, Type.Method, Type.Field
	tests    map[string]bool
	tasks    map[string]bool            // of .ci/task
	routes   map[string]bool            // such as "GET /v1/events"
	commands map[string]bool            // such as "dibs init"
	keys     string                     // the configuration with all keys
	imports  map[string]map[string]bool // of this module, by package, tests aside
}

// readModule reads the source.
func readModule(t *testing.T) *module {
	t.Helper()
	m := &module{
		names: make(map[string]map[string]bool), tests: make(map[string]bool), tasks: make(map[string]bool),
		routes: make(map[string]bool), commands: make(map[string]bool), imports: make(map[string]map[string]bool),
	}
	for _, op := range api.Operations() {
		m.routes[op.Pattern()] = true
	}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if _, none := os.Stat(filepath.Join(file, "go.mod")); none == nil && file != ".." {
			return fs.SkipDir // a module of its own
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err == nil {
			pkg := strings.TrimPrefix(path.Dir(filepath.ToSlash(file)), "../")
			m.read(pkg, parsed, strings.HasSuffix(file, "_test.go"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m.keys = string(example)
	script, err := os.ReadFile("../.ci/task")
	if err != nil {
		t.Fatal(err)
	}
	_, help, _ := strings.Cut(string(script), "<<'END'\n")
	help, _, _ = strings.Cut(help, "\nEND\n")
	for _, line := range regexp.MustCompile(`(?m)^  (\w+) `).FindAllStringSubmatch(help, -1) {
		m.tasks[line[1]] = true
	}
	slices.Sort(m.packages)
	m.packages = slices.Compact(m.packages)
	if len(m.packages) < 30 || len(m.tests) < 300 || len(m.routes) < 8 || len(m.commands) < 15 {
		t.Fatalf("found %d packages, %d tests, %d routes, %d commands", len(m.packages), len(m.tests), len(m.routes), len(m.commands))
	}
	return m
}

func (m *module) read(pkg string, file *ast.File, test bool) {
	m.packages = append(m.packages, pkg)
	names := m.names[pkg]
	if names == nil {
		names = make(map[string]bool)
		m.names[pkg] = names
	}
	if !test && m.imports[pkg] == nil {
		m.imports[pkg] = make(map[string]bool)
	}
	for _, spec := range file.Imports {
		if ours, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "dibs/"); ok && !test {
			m.imports[pkg][ours] = true
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			switch {
			case test:
				m.tests[d.Name.Name] = strings.HasPrefix(d.Name.Name, "Test")
			case d.Recv == nil:
				names[d.Name.Name] = true
			default:
				names[receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if !test {
					declare(names, spec)
				}
			}
		}
	}
	if !test && pkg == "internal/cli" {
		ast.Inspect(file, m.asked)
	}
}

// receiver is the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func declare(names map[string]bool, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			names[name.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		var parts *ast.FieldList
		switch under := s.Type.(type) {
		case *ast.StructType:
			parts = under.Fields
		case *ast.InterfaceType:
			parts = under.Methods
		default:
			return
		}
		for _, part := range parts.List {
			for _, name := range part.Names {
				names[s.Name.Name+"."+name.Name] = true
			}
		}
	}
}

// asked notes the commands.
func (m *module) asked(n ast.Node) bool {
	lit, ok := n.(*ast.CompositeLit)
	if !ok {
		return true
	}
	values := make(map[string]string)
	for _, e := range lit.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, ok := pair.Key.(*ast.Ident)
		if !ok {
			continue
		}
		if text, ok := literal(pair.Value); ok {
			values[key.Name] = text
		}
	}
	if use := strings.Fields(values["Use"]); len(use) > 0 {
		m.commands["dibs "+use[0]] = true
	}
	return true
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// pkg returns the package that a name, which may lack internal/, stands for.
func (m *module) pkg(name string) (string, bool) {
	for _, full := range []string{name, "internal/" + name} {
		if slices.Contains(m.packages, full) {
			return full, true
		}
	}
	return "", false
}

// last returns the package whose path ends in a word, if there is one only.
func (m *module) last(word string) (string, bool) {
	var found []string
	for _, pkg := range m.packages {
		if path.Base(pkg) == word {
			found = append(found, pkg)
		}
	}
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}

var (
	selector = regexp.MustCompile(`^([a-z]+)\.(\w+(?:\.\w+)?)$`)
	request  = regexp.MustCompile(`^(GET|POST) /`)
	fenced   = regexp.MustCompile("(?s)```mermaid\n(.*?)```\n")
	arrow    = regexp.MustCompile("`([^`]+)` → `([^`]+)`")
	quoted   = regexp.MustCompile("`([^`]+)`")
	room     = regexp.MustCompile("\\*\\*`([^`]+)`\\*\\*")
)

// has says whether there is what the page names, in whatever way it does that.
func (m *module) has(name string) bool {
	if _, ok := m.pkg(name); ok {
		return true
	}
	if m.tests[name] || m.routes[name] || m.commands[name] || m.commands["dibs "+name] {
		return true
	}
	if parts := selector.FindStringSubmatch(name); parts != nil {
		if pkg, ok := m.last(parts[1]); ok && m.names[pkg][parts[2]] {
			return true
		}
		section := regexp.MustCompile(`(?m)^` + parts[1] + `:\n(?:(?:[ #].*)?\n)*?  ` + parts[2] + `:`)
		if section.MatchString(m.keys) {
			return true
		}
	}
	if task, ok := strings.CutPrefix(name, ".ci/task "); ok {
		return m.tasks[task]
	}
	if request.MatchString(name) || !strings.ContainsAny(name, "./") {
		return false
	}
	_, err := os.Stat(filepath.Join("..", name))
	return err == nil
}

// faults are what the page says that is not so, and what it leaves out.
func (m *module) faults(page string) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	imports := func(from, to string) {
		if !m.imports[from][to] {
			add("%s does not import %s", from, to)
		}
	}

	diagrams := fenced.FindAllStringSubmatch(page, -1)
	page = fenced.ReplaceAllString(page, "")
	arrows := 0
	for _, d := range diagrams {
		if !strings.Contains(d[1], "graph TD") {
			continue // it shows no imports
		}
		for line := range strings.Lines(d[1]) {
			ends := strings.Split(strings.TrimSpace(line), " --> ")
			for i := range len(ends) - 1 {
				for _, from := range strings.Split(ends[i], " & ") {
					for _, to := range strings.Split(ends[i+1], " & ") {
						a, aok := m.last(from)
						b, bok := m.last(to)
						if !aok || !bok {
							add("%s → %s in the diagram: no such packages", from, to)
							continue
						}
						imports(a, b)
						arrows++
					}
				}
			}
		}
	}
	if arrows < 20 {
		add("the diagram has %d arrows", arrows)
	}
	for _, a := range arrow.FindAllStringSubmatch(page, -1) {
		from, fok := m.pkg(a[1])
		to, tok := m.pkg(a[2])
		if fok && tok {
			imports(from, to)
		}
	}

	named := make(map[string]bool)
	for _, q := range quoted.FindAllStringSubmatch(page, -1) {
		named[q[1]] = true
		if !m.has(q[1]) {
			add("there is no %s", q[1])
		}
	}
	for _, pkg := range m.packages {
		if !named[pkg] {
			add("package %s is not on the page", pkg)
		}
	}

	rooms := room.FindAllStringSubmatchIndex(page, -1)
	described := make(map[string]bool)
	for i, at := range rooms {
		end := len(page)
		if i+1 < len(rooms) {
			end = rooms[i+1][0]
		}
		pkg := page[at[2]:at[3]]
		if described[pkg] {
			add("package %s has two rooms", pkg)
		}
		described[pkg] = true
		if !m.begins(pkg, page[at[1]:end]) {
			add("the room of %s does not say where to begin reading", pkg)
		}
	}
	for pkg := range m.imports {
		if !described[pkg] {
			add("package %s has no room", pkg)
		}
	}
	return out
}

// begins says whether a reader of a room knows where to begin: with the package's doc.go, with the
// file of its name, or with one that the text names.
func (m *module) begins(pkg, text string) bool {
	for _, file := range []string{"doc.go", path.Base(pkg) + ".go"} {
		if _, err := os.Stat(filepath.Join("..", pkg, file)); err == nil {
			return true
		}
	}
	for _, q := range quoted.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(q[1], pkg+"/") && strings.HasSuffix(q[1], ".go") || strings.HasPrefix(q[1], path.Base(pkg)+".") {
			return true
		}
	}
	return false
}

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

// architecture are the pages that are one to TestArchitectureIsAsDescribed.
var architecture = []string{"ARCHITECTURE.md", "architecture/rooms.md", "architecture/outside.md"}

// readPages returns pages of docs/, one after the other.
func readPages(t *testing.T, names ...string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range names {
		page, err := os.ReadFile("../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(page)
	}
	return all.String()
}

// TestImportsAreListed compares the list of imports with the code's. An arrow that is new stands
// there, for whoever reads it to see that it points one way.
func TestImportsAreListed(t *testing.T) {
	m := readModule(t)
	made(t, "architecture/imports.md", "imports", m.importsList())
}

// TestArchitectureIsAsDescribed compares the pages on the architecture with the module.
func TestArchitectureIsAsDescribed(t *testing.T) {
	page := readPages(t, architecture...)
	m := readModule(t)
	for _, fault := range m.faults(page) {
		t.Error(fault)
	}

	// What the comparison must not miss.
	for _, tt := range []struct{ old, new, want string }{
		{"`internal/bench`", "a bench", "package internal/bench is not on the page"},
		{"**`internal/keylock`**", "`internal/keylock`", "package internal/keylock has no room"},
		{"**`internal/clock`**", "**`internal/keylock`**", "package internal/keylock has two rooms"},
		{"`cmd/dibs/main.go`", "main.go", "the room of cmd/dibs does not say where to begin reading"},
		{"mirror --> claim", "claim --> mirror", "internal/claim does not import internal/mirror"},
		{"mirror --> claim", "mirror --> claims", "mirror → claims in the diagram: no such packages"},
		{"## Back\n", "## Back\n`internal/claim` → `internal/journal`\n", "internal/claim does not import internal/journal"},
		{"`internal/claim/visit.go`", "`internal/claim/look.go`", "there is no internal/claim/look.go"},
		{"`claim.Store`", "`claim.Stored`", "there is no claim.Stored"},
		{"`claim.Ledger.Reserve`", "`claim.Ledger.Reserved`", "there is no claim.Ledger.Reserved"},
		{"`claim.settle`", "`claim.setle`", "there is no claim.setle"},
		{"`GET /v1/events`", "`GET /v1/event`", "there is no GET /v1/event"},
		{"`TestMutants`", "`TestMutations`", "there is no TestMutations"},
		{"`dibs init`", "`dibs install`", "there is no dibs install"},
	} {
		broken := strings.ReplaceAll(page, tt.old, tt.new)
		if faults := m.faults(broken); !slices.Contains(faults, tt.want) {
			t.Errorf("%s for %s: found %q, want %q", strconv.Quote(tt.new), strconv.Quote(tt.old), faults, tt.want)
		}
	}
}

// checked are the names on a page that has others, too, which are there or not.
var checked = regexp.MustCompile("`(Test\\w+|\\.ci/task \\w+|[a-z]+\\.[\\w.]+|[\\w./-]+\\.(?:go|md|sh|yaml)|(?:cmd|config|docs|fixtures|internal|packaging)/[^`]+)`")

// TestContributingNamesWhatThereIs looks for what the pages on working on dibs name.
func TestContributingNamesWhatThereIs(t *testing.T) {
	page := readPages(t, "CONTRIBUTING.md", "contributing/tests.md", "contributing/how-to-add.md")
	m := readModule(t)
	names := checked.FindAllStringSubmatch(page, -1)
	if len(names) < 60 {
		t.Errorf("found %d names", len(names))
	}
	for _, name := range names {
		if !m.has(name[1]) {
			t.Errorf("there is no %s", name[1])
		}
	}
	for task := range m.tasks {
		if task != "help" && !strings.Contains(page, "`.ci/task "+task+"`") {
			t.Errorf(".ci/task %s is not on the page", task)
		}
	}
}
