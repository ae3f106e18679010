package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// fault is a change of one place.
type fault struct {
	pkg, file string // the package's import path, and the file's path
	name      string // the same wherever in the package the function stands
	from, to  int    // the offsets of the expression
	// before and after are put round the expression. The fault's number stands in them as #.
	before, after string
}

// faultsOf returns the faults that can be planted in functions that match, by package.
func faultsOf(patterns []string, in *regexp.Regexp) map[string][]fault {
	all := make(map[string][]fault)
	for _, p := range list(patterns...) {
		for _, name := range p.GoFiles {
			all[p.ImportPath] = append(all[p.ImportPath], faultsIn(p.ImportPath, filepath.Join(p.Dir, name), in)...)
		}
	}
	return all
}

// faultsIn returns the faults that can be planted in a file.
func faultsIn(pkg, file string, in *regexp.Regexp) (all []fault) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range parsed.Decls {
		f, isFunc := d.(*ast.FuncDecl)
		if !isFunc || f.Body == nil || f.Name.Name == "String" || f.Name.Name == "Error" {
			continue
		}
		function, times := f.Name.Name, make(map[string]int)
		if f.Recv != nil {
			function = source(fset, f.Recv.List[0].Type) + "." + function
		}
		if !in.MatchString(function) {
			continue
		}
		add := func(kind string, at ast.Node, before, after string) {
			name := fmt.Sprintf("%s: %s: %s", function, kind, strings.Join(strings.Fields(source(fset, at)), " "))
			times[name]++
			if times[name] > 1 {
				name += fmt.Sprintf(" (%d)", times[name])
			}
			all = append(all, fault{pkg, file, name, fset.Position(at.Pos()).Offset, fset.Position(at.End()).Offset, before, after})
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				return !says(n)
			case *ast.GenDecl:
				return n.Tok != token.CONST
			case *ast.ArrayType:
				return false
			case *ast.IfStmt:
				add("negated", n.Cond, "(planted.On(#) != (", "))")
				add("left out", n.Cond, "(!planted.On(#) && (", "))")
			case *ast.ReturnStmt:
				if len(n.Results) > 0 {
					if err, ok := n.Results[len(n.Results)-1].(*ast.Ident); ok && err.Name == "err" {
						add("swallowed", err, "planted.Error(#, ", ")")
					}
				}
			case *ast.BinaryExpr:
				switch n.Op {
				case token.LSS, token.LEQ, token.GTR, token.GEQ:
					add("off by one", n, "((", ") != (planted.On(#) && ("+source(fset, n.X)+") == ("+source(fset, n.Y)+")))")
				case token.MUL: // a number of units
					if v, isInt := number(n.X); isInt {
						add("off by one", n, "planted.Pick(#, ", fmt.Sprintf(", %d*%s)", v+1, source(fset, n.Y)))
						return false
					}
				}
			case *ast.BasicLit:
				if v, isInt := number(n); isInt {
					add("off by one", n, "planted.Pick(#, ", fmt.Sprintf(", %d)", v+1))
				}
			}
			return true
		})
	}
	return all
}

func number(e ast.Expr) (int, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.INT {
		return 0, false
	}
	v, err := strconv.Atoi(lit.Value)
	return v, err == nil
}

// says reports whether a call only says something to people who read logs.
func says(call *ast.CallExpr) bool {
	if f, ok := call.Fun.(*ast.Ident); ok {
		return f.Name == "panic"
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Debug", "Info", "Warn", "Error", "Errorf", "DebugContext", "InfoContext", "WarnContext", "ErrorContext"}, f.Sel.Name)
}

func source(fset *token.FileSet, n ast.Node) string {
	var b strings.Builder
	if err := format.Node(&b, fset, n); err != nil {
		log.Fatal(err)
	}
	return b.String()
}

// choose takes n faults, as evenly from all packages as they have some, in the order of their names.
func choose(of map[string][]fault, n int, r *rand.Rand) (chosen []fault) {
	packages := slices.Sorted(maps.Keys(of))
	for _, pkg := range packages {
		slices.SortFunc(of[pkg], func(a, b fault) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.file, b.file)) })
		r.Shuffle(len(of[pkg]), func(i, j int) { of[pkg][i], of[pkg][j] = of[pkg][j], of[pkg][i] })
	}
	for i := 0; len(chosen) < n; i++ {
		before := len(chosen)
		for _, pkg := range packages {
			if i < len(of[pkg]) && len(chosen) < n {
				chosen = append(chosen, of[pkg][i])
			}
		}
		if len(chosen) == before {
			break
		}
	}
	return chosen
}

// switches is the package that the planted code imports.
const switches = `package planted

import (
	"os"
	"strconv"
	"sync"
)

var on = func() int {
	data, _ := os.ReadFile(%[1]q)
	n, _ := strconv.Atoi(string(data))
	return n - 1
}()

var (
	mu      sync.Mutex
	seen    [%[3]d]bool
	reached = func() *os.File {
		f, _ := os.OpenFile(%[2]q, os.O_WRONLY|os.O_APPEND, 0)
		return f
	}()
)

func On(k int) bool {
	if reached != nil {
		mu.Lock()
		if !seen[k] {
			seen[k] = true
			reached.WriteString(strconv.Itoa(k) + "\n")
		}
		mu.Unlock()
	}
	return k == on
}

func Error(k int, err error) error {
	if On(k) {
		return nil
	}
	return err
}

func Pick[T any](k int, right, wrong T) T {
	if On(k) {
		return wrong
	}
	return right
}
`

var compileError = regexp.MustCompile(`(?m)^(?:vet: )?(\S+\.go):(\d+):(\d+): (.*)$`)

// plant writes the changed files and the overlay with them, and returns its path and the faults by
// number. Faults that do not compile are empty there.
func plant(dir string, faults []fault) (overlay string, planted []fault) {
	planted = slices.Clone(faults)
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Path}}\n{{.Dir}}").Output()
	if err != nil {
		log.Fatal(err)
	}
	name, root, _ := strings.Cut(strings.TrimSpace(string(module)), "\n")
	overlay = filepath.Join(dir, "overlay.json")
	write(filepath.Join(dir, "planted.go"), fmt.Appendf(nil, switches, filepath.Join(dir, "on"), filepath.Join(dir, "reached"), len(faults)))
	for {
		replace := map[string]string{filepath.Join(root, "internal", "planted", "planted.go"): filepath.Join(dir, "planted.go")}
		files, packages := make(map[string][]int), make(map[string]bool)
		for i, f := range planted {
			if f.pkg != "" {
				files[f.file], packages[f.pkg] = append(files[f.file], i), true
			}
		}
		for i, file := range slices.Sorted(maps.Keys(files)) {
			changed := filepath.Join(dir, strconv.Itoa(i)+".go")
			replace[file] = changed
			write(changed, changedFile(name, file, planted, files[file]))
		}
		data, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			log.Fatal(err)
		}
		write(overlay, data)
		build := exec.Command("go", append([]string{"build", "-gcflags=-e", "-overlay", overlay}, slices.Sorted(maps.Keys(packages))...)...)
		build.Dir = root
		said, err := build.CombinedOutput()
		if err == nil {
			return overlay, planted
		}
		dropped := false
		for _, m := range compileError.FindAllStringSubmatch(string(said), -1) {
			for file, changed := range replace {
				if filepath.Base(changed) != filepath.Base(m[1]) && file != m[1] && !strings.HasSuffix(file, "/"+strings.TrimPrefix(m[1], "./")) {
					continue
				}
				// The switches are on the line of their expression: all of that line go.
				for _, number := range on(changed, m[2]) {
					planted[number], dropped = fault{}, true
				}
			}
		}
		if !dropped {
			log.Fatalf("the program with its faults does not compile:\n%s", said)
		}
	}
}

var switched = regexp.MustCompile(`planted\.\w+\((\d+)`)

// on returns the numbers of the faults on a line.
func on(file, line string) (numbers []int) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	at, _ := strconv.Atoi(line)
	lines := strings.Split(string(data), "\n")
	if at < 1 || at > len(lines) {
		return nil
	}
	for _, m := range switched.FindAllStringSubmatch(lines[at-1], -1) {
		n, _ := strconv.Atoi(m[1])
		numbers = append(numbers, n)
	}
	return numbers
}

// changedFile returns a file with its faults planted.
func changedFile(module, file string, faults []fault, numbers []int) []byte {
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	// What is put at one place: ends of inner expressions, ends of outer ones, begins of outer ones,
	// begins of inner ones.
	type insertion struct {
		at, begins, order int
		text              string
	}
	var all []insertion
	for i, n := range numbers {
		f := faults[n]
		size := f.to - f.from
		all = append(all,
			insertion{f.from, 1, -size*len(numbers) + i, strings.ReplaceAll(f.before, "(#", "("+strconv.Itoa(n))},
			insertion{f.to, 0, size*len(numbers) - i, strings.ReplaceAll(f.after, "(#", "("+strconv.Itoa(n))})
	}
	slices.SortFunc(all, func(a, b insertion) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.begins, b.begins), cmp.Compare(a.order, b.order))
	})
	var out bytes.Buffer
	last := 0
	for _, i := range all {
		out.Write(text[last:i.at])
		out.WriteString(i.text)
		last = i.at
	}
	out.Write(text[last:])
	clause := regexp.MustCompile(`(?m)^package \w+`)
	return clause.ReplaceAllFunc(out.Bytes(), func(c []byte) []byte {
		return fmt.Appendf(nil, "%s; import %q", c, module+"/internal/planted")
	})
}

func write(file string, data []byte) {
	if err := os.WriteFile(file, data, 0o644); err != nil {
		log.Fatal(err)
	}
}
