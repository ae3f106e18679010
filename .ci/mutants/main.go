// Command mutants plants faults in the program, one at a time, and counts by package which of them
// the tests find: a condition negated, a branch left out, an error swallowed, a number off by one.
//
//	go run ./.ci/mutants [-n 300] [-seed 1] [-short] [-also PACKAGE,…] [-to FILE] PACKAGE…
//	go run ./.ci/mutants -before FILE -after FILE
//
// A fault is tried with the tests of its own package, and if these pass, with those of -also. The
// source is not touched: go test gets the changed file as an overlay. A fault that does not compile is
// left out. None is planted in a call that only logs or panics, since no test looks at those texts.
// FILE gets a line for each fault: whether it was found or is alive, and what it is. The line names the
// function and no line number, so that code which moved within its package can be compared. With
// -before and -after, mutants tries nothing. It lists the faults that were found before and are alive
// afterwards, and fails if there are any.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
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
	"slices"
	"strconv"
	"strings"
	"time"
)

// fault is a change of one place.
type fault struct {
	pkg, file string // the package's import path, and the file's path
	name      string // what it is, the same wherever in the package the function stands
	from, to  int    // the offsets of what is replaced
	text      string // what it is replaced with
}

func main() {
	log.SetFlags(0)
	n := flag.Int("n", 300, "how many faults to try, over all packages")
	seed := flag.Uint64("seed", 1, "chooses the faults")
	short := flag.Bool("short", false, "run the tests with -short")
	also := flag.String("also", "", "packages whose tests run, too, where a package's own find nothing, with commas")
	limit := flag.Duration("limit", 3*time.Minute, "the longest that the tests of a fault may take; beyond, it is found")
	to := flag.String("to", "", "the file to write the results to")
	before := flag.String("before", "", "the results of an earlier run")
	after := flag.String("after", "", "the results to compare them with")
	flag.Parse()
	if *before != "" || *after != "" {
		if lost := compare(*before, *after); lost > 0 {
			log.Fatalf("%d faults were found before and live now", lost)
		}
		return
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	chosen := choose(faultsOf(flag.Args()), *n, rand.New(rand.NewPCG(*seed, 0)))
	var out strings.Builder
	found, tried := make(map[string]int), make(map[string]int)
	for _, f := range chosen {
		verdict := try(f, dir, *short, *limit, strings.FieldsFunc(*also, func(r rune) bool { return r == ',' }))
		if verdict == "" {
			continue // it does not compile
		}
		tried[f.pkg]++
		if verdict == "found" {
			found[f.pkg]++
		}
		line := verdict + "\t" + f.pkg + "\t" + f.name
		fmt.Println(line)
		out.WriteString(line + "\n")
	}
	for _, pkg := range slices.Sorted(maps.Keys(tried)) {
		fmt.Printf("%s: %d of %d found\n", pkg, found[pkg], tried[pkg])
	}
	if *to != "" {
		if err := os.WriteFile(*to, []byte(out.String()), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// faultsOf returns the faults that can be planted, by package.
func faultsOf(patterns []string) map[string][]fault {
	list := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,GoFiles"}, patterns...)...)
	list.Stderr = os.Stderr
	said, err := list.Output()
	if err != nil {
		log.Fatal(err)
	}
	all := make(map[string][]fault)
	for packages := json.NewDecoder(strings.NewReader(string(said))); packages.More(); {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
		}
		if err := packages.Decode(&p); err != nil {
			log.Fatal(err)
		}
		for _, name := range p.GoFiles {
			all[p.ImportPath] = append(all[p.ImportPath], faultsIn(p.ImportPath, filepath.Join(p.Dir, name))...)
		}
	}
	return all
}

// faultsIn returns the faults that can be planted in a file.
func faultsIn(pkg, file string) (all []fault) {
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range parsed.Decls {
		in, isFunc := d.(*ast.FuncDecl)
		if !isFunc || in.Body == nil || in.Name.Name == "String" || in.Name.Name == "Error" {
			continue
		}
		function, times := in.Name.Name, make(map[string]int)
		if in.Recv != nil {
			function = source(fset, in.Recv.List[0].Type) + "." + function
		}
		plant := func(kind string, at ast.Node, text string) {
			name := fmt.Sprintf("%s: %s: %s", function, kind, strings.Join(strings.Fields(source(fset, at)), " "))
			times[name]++
			if times[name] > 1 {
				name += fmt.Sprintf(" (%d)", times[name])
			}
			all = append(all, fault{pkg, file, name, fset.Position(at.Pos()).Offset, fset.Position(at.End()).Offset, text})
		}
		ast.Inspect(in.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				return !says(n)
			case *ast.IfStmt:
				plant("negated", n.Cond, "!("+source(fset, n.Cond)+")")
				plant("left out", n.Cond, "false && ("+source(fset, n.Cond)+")")
			case *ast.ReturnStmt:
				if len(n.Results) > 0 {
					if err, ok := n.Results[len(n.Results)-1].(*ast.Ident); ok && err.Name == "err" {
						plant("swallowed", err, "nil")
					}
				}
			case *ast.BinaryExpr:
				for of, becomes := range map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"} {
					if n.Op == of {
						plant("off by one", n, source(fset, n.X)+" "+becomes+" "+source(fset, n.Y))
					}
				}
			case *ast.BasicLit:
				if v, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
					plant("off by one", n, strconv.Itoa(v+1))
				}
			}
			return true
		})
	}
	return all
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

// try plants a fault and runs the tests. It returns found or alive, or nothing if the fault does not
// compile.
func try(f fault, dir string, short bool, limit time.Duration, also []string) string {
	text, err := os.ReadFile(f.file)
	if err != nil {
		log.Fatal(err)
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {f.file: changed}})
	err = errors.Join(err, os.WriteFile(changed, slices.Concat(text[:f.from], []byte(f.text), text[f.to:]), 0o644),
		os.WriteFile(overlay, replace, 0o644))
	if err != nil {
		log.Fatal(err)
	}
	if exec.Command("go", "build", "-overlay", overlay, f.pkg).Run() != nil {
		return ""
	}
	for _, tests := range append([]string{f.pkg}, also...) {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		args := []string{"test", "-overlay", overlay, "-vet=off", "-failfast", "-count=1"}
		if short {
			args = append(args, "-short")
		}
		run := exec.CommandContext(ctx, "go", append(args, tests)...)
		run.WaitDelay = 5 * time.Second
		err := run.Run()
		cancel()
		if err != nil {
			return "found"
		}
	}
	return "alive"
}

// compare prints the faults that were found before and live afterwards, and returns how many.
func compare(before, after string) (lost int) {
	was, is := results(before), results(after)
	for _, fault := range slices.Sorted(maps.Keys(was)) {
		if was[fault] == "found" && is[fault] == "alive" {
			lost++
			fmt.Println(fault)
		}
	}
	return lost
}

// results reads a file of results: the verdict of each fault.
func results(file string) map[string]string {
	f, err := os.Open(file)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	all := make(map[string]string)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		verdict, fault, _ := strings.Cut(lines.Text(), "\t")
		all[fault] = verdict
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	return all
}
