// Command lint runs staticcheck's checks as a tool of go vet. Go keeps what it finds in its cache, and
// looks at packages side by side. About other modules it knows less than staticcheck does: what is
// deprecated and what does not return, but not which functions are pure or never return nil. To find
// that out would take most of the time. It does not report directives that silence nothing.
//
//	go vet -vettool=FILE ./...
package main

import (
	"encoding/json"
	"fmt"
	"go/token"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/analysis/facts/directives"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// module is ours. Packages of others are only looked at for facts that our checks need.
const module = "dibs"

func main() {
	checks := []*analysis.Analyzer{unusedCode}
	for _, c := range slices.Concat(staticcheck.Analyzers, simple.Analyzers, stylecheck.Analyzers) {
		if !c.Doc.NonDefault {
			checks = append(checks, c.Analyzer)
		}
	}
	if others(os.Args[len(os.Args)-1]) {
		unitchecker.Main(cheapFacts(checks)...)
	}
	for _, check := range checks {
		heedDirectives(check)
	}
	unitchecker.Main(checks...)
}

// others says whether the unit of go vet that a file describes is a package of another module. The
// standard library is none.
func others(file string) bool {
	data, err := os.ReadFile(file)
	if err != nil { // not a unit, but a question that go vet asks a tool first
		return false
	}
	var unit struct{ ModulePath string }
	return json.Unmarshal(data, &unit) == nil && unit.ModulePath != module && unit.ModulePath != ""
}

// cheapFacts are the analyzers that find facts for the checks. Those that need the code's
// intermediate representation find nothing: they only know how to read what was found.
func cheapFacts(checks []*analysis.Analyzer) []*analysis.Analyzer {
	var facts []*analysis.Analyzer
	seen := map[*analysis.Analyzer]bool{}
	var walk func(a *analysis.Analyzer)
	walk = func(a *analysis.Analyzer) {
		if seen[a] {
			return
		}
		seen[a] = true
		for _, required := range a.Requires {
			walk(required)
		}
		if len(a.FactTypes) == 0 {
			return
		}
		if slices.ContainsFunc(a.Requires, func(r *analysis.Analyzer) bool { return r.Name == "buildir" }) {
			a.Requires, a.ResultType = nil, nil
			a.Run = func(*analysis.Pass) (any, error) { return nil, nil }
		}
		facts = append(facts, a)
	}
	for _, check := range checks {
		walk(check)
	}
	return facts
}

// unusedCode reports unused code package by package; staticcheck gathers it from all packages first.
// Nothing gets lost: go vet looks at a package together with its tests.
var unusedCode = &analysis.Analyzer{
	Name:     unused.Analyzer.Analyzer.Name,
	Doc:      unused.Analyzer.Analyzer.Doc,
	Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, object := range pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result).Unused {
			pass.Reportf(position(pass, object.Position), "%s %s is unused", object.Kind, object.Name)
		}
		return nil, nil
	},
}

func position(pass *analysis.Pass, at token.Position) token.Pos {
	for _, file := range pass.Files {
		if f := pass.Fset.File(file.FileStart); f.Name() == at.Filename {
			return f.Pos(at.Offset)
		}
	}
	return token.NoPos
}

// heedDirectives makes a check silent where a directive says so: "//lint:ignore CHECK WHY" for the line
// that follows, "//lint:file-ignore CHECK WHY" for a file.
func heedDirectives(check *analysis.Analyzer) {
	check.Requires = append(slices.Clone(check.Requires), directives.Analyzer)
	run := check.Run
	check.Run = func(pass *analysis.Pass) (any, error) {
		heeding := *pass
		heeding.Report = func(found analysis.Diagnostic) {
			at := pass.Fset.Position(found.Pos)
			for _, d := range pass.ResultOf[directives.Analyzer].([]lint.Directive) {
				node := pass.Fset.Position(d.Node.Pos())
				if len(d.Arguments) < 2 || !slices.Contains(strings.Split(d.Arguments[0], ","), check.Name) || node.Filename != at.Filename {
					continue
				}
				if d.Command == "file-ignore" || d.Command == "ignore" && node.Line == at.Line {
					return
				}
			}
			found.Message = fmt.Sprintf("%s (%s)", found.Message, check.Name)
			pass.Report(found)
		}
		return run(&heeding)
	}
}
