// Command mutants plants faults in the program and says which of them the tests find: a condition
// negated, a branch left out, an error swallowed, a number off by one.
//
//	go run ./.ci/mutants [-n 300] [-seed 1] [-in REGEXP] [-short] [-all] [-again FILE] [-to FILE] [-tests PACKAGE[:REGEXP],…] PACKAGE…
//	go run ./.ci/mutants -before FILE -after FILE
//
// The faults are planted in all the packages at once, each behind a switch, and the tests are compiled
// once. A fault is then tried with the tests that reach it, from the packages themselves or those of
// -tests. With -all each such test runs, and all that find the fault are named; otherwise the first
// one ends its trial. -again has other tests, or those of another tree, try what lives. None is planted in a call that only logs or panics, since no test looks at
// those texts. The source is not touched: go test gets the changed files as an overlay.
//
// FILE gets a line for each fault: found, alive or unreached, the package, the fault, the tests. The
// line has no line number, so that code which moved within its package can be compared. With -before and
// -after, mutants tries nothing. It lists the faults that were found before and are not afterwards, and
// fails if there are any.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
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
	"time"
)

// suite is the compiled tests of a package.
type suite struct {
	pkg, dir, binary string
	tests            []test
}

// test is a test function, and what it did without a fault.
type test struct {
	name    string
	took    time.Duration
	reaches map[int]bool // the faults, by number
}

var short = flag.Bool("short", false, "run the tests with -short")

func main() {
	log.SetFlags(0)
	n := flag.Int("n", 300, "how many faults to try, over all packages")
	seed := flag.Uint64("seed", 1, "chooses the faults")
	in := flag.String("in", "", "plant only in functions whose names, like *Claimer.Claim, match")
	all := flag.Bool("all", false, "name every test that finds a fault")
	tests := flag.String("tests", "", "the packages whose tests run, with commas; PACKAGE:REGEXP chooses among them")
	again := flag.String("again", "", "the results of a run: of its faults try those that it did not find")
	to := flag.String("to", "", "the file to write the results to")
	before := flag.String("before", "", "the results of an earlier run")
	after := flag.String("after", "", "the results to compare them with")
	flag.Parse()
	if *before != "" || *after != "" {
		if lost := compare(*before, *after); lost > 0 {
			log.Fatalf("%d faults were found before and are not now", lost)
		}
		return
	}
	if flag.NArg() == 0 {
		log.Print("name the packages to plant faults in, such as ./internal/outbox")
		flag.Usage()
		os.Exit(2)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		log.Fatal(err)
	}
	planted := choose(faultsOf(flag.Args(), regexp.MustCompile(*in)), *n, rand.New(rand.NewPCG(*seed, 0)))
	if *again != "" {
		was := results(*again)
		planted = slices.DeleteFunc(planted, func(f fault) bool {
			verdict, tried := was[f.pkg+"\t"+f.name]
			return !tried || verdict == "found"
		})
	}
	out, counts := try(dir, planted, suitesOf(cmp.Or(*tests, strings.Join(flag.Args(), ","))), *all)
	if err := os.RemoveAll(dir); err != nil {
		log.Fatal(err)
	}
	for _, pkg := range slices.Sorted(maps.Keys(counts)) {
		c := counts[pkg]
		fmt.Printf("%s: %d of %d found, %d of them not reached\n", pkg, c["found"], c["found"]+c["alive"]+c["unreached"], c["unreached"])
	}
	if *to != "" {
		if err := os.WriteFile(*to, []byte(out), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// try tries all faults. It returns a line for each, and the counts of verdicts by package.
func try(dir string, planted []fault, suites []suite, all bool) (string, map[string]map[string]int) {
	overlay, planted := plant(dir, planted)
	for i := range suites {
		suites[i].compile(dir, overlay, i)
		suites[i].survey(dir)
	}
	var out strings.Builder
	counts := make(map[string]map[string]int)
	for number, f := range planted {
		if f.pkg == "" {
			continue // it does not compile
		}
		verdict, finders := "unreached", []string(nil)
		for _, s := range suites {
			for _, t := range s.tests {
				if !t.reaches[number] || len(finders) > 0 && !all {
					continue
				}
				finders = append(finders, s.run(dir, t.name, number+1, 10*time.Second+5*t.took)...)
				verdict = "alive"
			}
		}
		if len(finders) > 0 {
			verdict = "found"
		}
		if counts[f.pkg] == nil {
			counts[f.pkg] = make(map[string]int)
		}
		counts[f.pkg][verdict]++
		line := strings.Join([]string{verdict, f.pkg, f.name, strings.Join(finders, " ")}, "\t")
		fmt.Println(line)
		out.WriteString(line + "\n")
	}
	return out.String(), counts
}

// suitesOf returns the packages whose tests run, with the names that a test has to match.
func suitesOf(wanted string) (all []suite) {
	for w := range strings.SplitSeq(wanted, ",") {
		pattern, match, _ := strings.Cut(w, ":")
		for _, p := range list(pattern) {
			if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
				all = append(all, suite{pkg: p.ImportPath, dir: p.Dir, tests: []test{{name: match}}})
			}
		}
	}
	return all
}

// compile builds the tests with the faults in them, and lists those that match.
func (s *suite) compile(dir, overlay string, number int) {
	s.binary = filepath.Join(dir, strconv.Itoa(number)+".test")
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", s.binary, s.pkg).CombinedOutput(); err != nil {
		log.Fatalf("%s: %v\n%s", s.pkg, err, out)
	}
	names := exec.Command(s.binary, "-test.list", cmp.Or(s.tests[0].name, "."))
	names.Dir = s.dir
	said, err := names.Output()
	if err != nil {
		log.Fatalf("%s: %v", s.pkg, err)
	}
	s.tests = nil
	for name := range strings.Lines(string(said)) {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example") {
			s.tests = append(s.tests, test{name: name})
		}
	}
}

// survey runs each test without a fault, and notes what it reaches. The fastest come first from then on.
func (s *suite) survey(dir string) {
	reached := filepath.Join(dir, "reached")
	for i := range s.tests {
		t := &s.tests[i]
		if err := os.WriteFile(reached, nil, 0o644); err != nil {
			log.Fatal(err)
		}
		began := time.Now()
		if found := s.run(dir, t.name, 0, 10*time.Minute); found != nil {
			log.Printf("%s fails without a fault, and is left out", t.name)
			continue
		}
		t.took, t.reaches = time.Since(began), make(map[int]bool)
		data, err := os.ReadFile(reached)
		if err != nil {
			log.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if number, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				t.reaches[number] = true
			}
		}
	}
	if err := os.Remove(reached); err != nil && len(s.tests) > 0 {
		log.Fatal(err)
	}
	slices.SortStableFunc(s.tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// run runs a test with a fault, which are counted from 1; 0 is none. It returns the names of the tests that failed, without those
// of which a subtest is named.
func (s *suite) run(dir, name string, number int, limit time.Duration) []string {
	if err := os.WriteFile(filepath.Join(dir, "on"), []byte(strconv.Itoa(number)), 0o644); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	args := []string{"-test.run", "^" + name + "$"}
	if *short {
		args = append(args, "-test.short")
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = s.dir, &said, &said, 5*time.Second
	if cmd.Run() == nil {
		return nil
	}
	var names []string
	for _, m := range failed.FindAllSubmatch(said.Bytes(), -1) {
		if n := string(m[1]); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, n+"/") })
	})
	if len(names) == 0 {
		names = []string{name} // it panicked, or took too long
	}
	return names
}

// pkg is what go list says of a package.
type pkg struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

func list(patterns ...string) (all []pkg) {
	list := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles"}, patterns...)...)
	list.Stderr = os.Stderr
	said, err := list.Output()
	if err != nil {
		log.Fatal(err)
	}
	for packages := json.NewDecoder(bytes.NewReader(said)); packages.More(); {
		var p pkg
		if err := packages.Decode(&p); err != nil {
			log.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// compare prints the faults that were found before and are not afterwards, and returns how many.
func compare(before, after string) (lost int) {
	was, is := results(before), results(after)
	for _, fault := range slices.Sorted(maps.Keys(was)) {
		if verdict, tried := is[fault]; tried && was[fault] == "found" && verdict != "found" {
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
		if fields := strings.Split(lines.Text(), "\t"); len(fields) >= 3 {
			all[fields[1]+"\t"+fields[2]] = fields[0]
		}
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	return all
}
