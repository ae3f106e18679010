package reserve_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"dibs/internal/reserve"
	"dibs/internal/testkit/pgtest"

	"github.com/bmatcuk/doublestar/v4"
	"pgregory.net/rapid"
)

func glob(t testing.TB, text string, files bool) reserve.Glob {
	t.Helper()
	g, err := reserve.ParseGlob(text, files)
	if err != nil {
		t.Fatalf("ParseGlob(%q): %v", text, err)
	}
	return g
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, path string
		files, want   bool
	}{
		{"/a.go", "/a.go", false, true},
		{"/a.go", "/b/a.go", false, false},
		{"/**/a.go", "/a.go", false, true},
		{"/**/a.go", "/b/c/a.go", false, true},
		{"/src/*.go", "/src/a.go", false, true},
		{"/src/*.go", "/src/b/a.go", false, false},
		{"/src", "/src/b/a.go", false, true},
		{"/src", "/src/b/a.go", true, false},
		{"/src/", "/src/b/a.go", false, true},
		{"/src/", "/src/b/a.go", true, true},
		{"/src/", "/src", false, false},
		{"/src/**", "/src", false, false},
		{"/src/**", "/src/a", false, true},
		{"/src/**", "/src/a/b", true, true},
		{"/**/src/**/a.go", "/src/a.go", false, true},
		{"/**/src/**/a.go", "/x/src/y/z/a.go", false, true},
		{"/a[^b]c", "/a/c", false, false},
		{"/a[^b]c", "/axc", false, true},
		{"/**/a[!b]c", "/x/a/c", false, false},
		{"/**/a[!b]c", "/x/axc", false, true},
		{`/**/a[^-b]`, "/x/a-", false, false},
		{`/**/\[^b]`, "/x/[^b]", false, true},
		{"/{a,b}", "/a", false, false},
		{"/{a,b}", "/{a,b}", false, true},
		{`/\*`, "/*", false, true},
		{`/\*`, "/a", false, false},
		{"/*", "/.hidden", false, true},
	} {
		if got := glob(t, tt.pattern, tt.files).Match(tt.path); got != tt.want {
			t.Errorf("%s (files: %v) matches %s: %v, want %v", tt.pattern, tt.files, tt.path, got, tt.want)
		}
	}
}

func TestOverlaps(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		// want is the answer, and files that for patterns that mean files only.
		want, files bool
	}{
		{"/src/a.go", "/src/a.go", true, true},
		{"/src/a.go", "/src/b.go", false, false},
		{"/src/a.go", "/src/a.go.orig/", false, false},
		{"/src/a.go", "/**/*.md", true, false}, // src/a.go/b.md
		{"/src/a.go", "/**/*.go", true, true},
		{"/src/a.go", "/src/**/a.go", true, true},
		{"/src/*.go", "/src/a*", true, true},
		{"/src/*.go", "/**/*.md", true, false},
		{"/src/*.go", "/src/api/*.go", true, false}, // how deep they are tells them apart
		{"/*.go", "/docs/**", true, false},
		{"/**/*.go", "/docs/**", true, true},
		{"/**/go.mod", "/**/*.go", true, false},
		{"/src", "/src/", true, false}, // a file and a folder
		{"/src/", "/src/a/b.go", true, true},
		{"/src/", "/src/", true, true},
		{"/src/", "/src/**", true, true},
		{"/src/", "/src-old/**", false, false},
		{"/src/", "/docs/**", false, false},
		{"/**/a.go", "/docs/**", true, true},
		{"/**/a.go", "/docs/*.md", true, false},
		{"/a[bc]", "/a[cd]", true, true},
		{"/a*b*c", "/a?[ab]c", true, true},
		{"/**/x/**/y", "/x/z", true, false}, // x/z/y
		// No path is in both. But their beginnings and ends do not tell them apart.
		{"/a[bc]", "/a[de]", true, true},
		{"/a[bc]", "/ad", true, false}, // a single file is compared with the pattern
		{"/a*b*bc", "/a?c", true, true},
		{"/src/*.go", "/src/*.md", true, false}, // unless they mean files
		{"/x/*/y/*.go", "/x/*/z/*.go", true, true},
	} {
		for _, pair := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			for files, want := range map[bool]bool{false: tt.want, true: tt.files} {
				if got := glob(t, pair[0], files).Overlaps(glob(t, pair[1], files)); got != want {
					t.Errorf("%s overlaps %s (files: %v): %v, want %v", pair[0], pair[1], files, got, want)
				}
			}
		}
	}
	if !glob(t, "/src/a.go", true).Overlaps(glob(t, "/src/", false)) {
		t.Error("a folder does not cover a file in it")
	}
}

// part draws a piece of a pattern, of few characters so that many patterns meet.
var part = rapid.SampledFrom([]string{
	"a", "b", "ab", "*", "?", "a*", "*b", "a?b", "[ab]", "[^a]", "[a-c]*", "**", "**", "a**b", `\*`, "{a,b}", "[!b]?", "*a*b*", ".a",
})

func drawPattern(t *rapid.T, label string) string {
	text := "/" + strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, label), "/")
	if rapid.Bool().Draw(t, label+" within") {
		text += "/"
	}
	return text
}

var name = rapid.SampledFrom([]string{"a", "b", "ab", "aab", "c", "ac", "*", "{a,b}", "abab", ".a", "a*b", "é"})

func drawPath(t *rapid.T) string {
	return "/" + strings.Join(rapid.SliceOfN(name, 1, 5).Draw(t, "path"), "/")
}

// covers is Glob.Match once more, as the docs say it: by the library name for name, with no shortcut.
func covers(pattern string, files bool, path string) bool {
	parts, names := strings.Split(strings.Trim(pattern, "/"), "/"), strings.Split(path[1:], "/")
	within := strings.HasSuffix(pattern, "/")
	for n := 1; n < len(names) && (within || !files); n++ {
		if named(parts, names[:n]) {
			return true
		}
	}
	return !within && named(parts, names)
}

var braces = strings.NewReplacer(`\\`, `\\`, `\{`, `\{`, `\}`, `\}`, "{", `\{`, "}", `\}`)

func named(parts, names []string) bool {
	switch {
	case len(parts) == 0 || len(names) == 0:
		return len(parts) == 0 && len(names) == 0
	case parts[0] == "**" && len(parts) == 1:
		return true
	case parts[0] == "**":
		return named(parts[1:], names) || named(parts, names[1:])
	}
	return doublestar.MatchUnvalidated(braces.Replace(parts[0]), names[0]) && named(parts[1:], names[1:])
}

// TestOverlapsNeverMissesAPath draws two patterns and paths: a Glob covers the paths that it says it
// does, and two that cover one path overlap.
func TestOverlapsNeverMissesAPath(t *testing.T) {
	pgtest.OnlySQLite(t) // no journal has a part in it
	met := 0
	rapid.Check(t, func(r *rapid.T) {
		one, two := drawPattern(r, "a"), drawPattern(r, "b")
		filesOne, filesTwo := rapid.Bool().Draw(r, "a of files"), rapid.Bool().Draw(r, "b of files")
		a, b := glob(t, one, filesOne), glob(t, two, filesTwo)
		overlaps := a.Overlaps(b)
		if overlaps != b.Overlaps(a) {
			r.Fatalf("%s and %s overlap one way only", one, two)
		}
		// Few patterns meet in a path that is drawn: of so many paths some surely do.
		for range 100 {
			path := drawPath(r)
			inOne, inTwo := covers(one, filesOne, path), covers(two, filesTwo, path)
			if got := a.Match(path); got != inOne {
				r.Fatalf("%s (files: %v) covers %s: %v, the library says %v", one, filesOne, path, got, inOne)
			}
			if !inOne || !inTwo {
				continue
			}
			met++
			if !overlaps {
				r.Fatalf("%s and %s both cover %s, and do not overlap", one, two, path)
			}
		}
	})
	if met == 0 && !testing.Short() { // which draws too few
		t.Error("no two patterns met in a path: nothing was tested")
	}
}

// TestMatchIsGits asks git what a .gitignore matches.
func TestMatchIsGits(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatalf("git is needed to compare with: %v", err)
	}
	dir := t.TempDir()
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "core.excludesFile=/dev/null"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != 1) {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	git("", "init", "-q")
	var paths []string
	names := []string{"a", "b", "ab", "c", "a.go"}
	for _, one := range names {
		paths = append(paths, one)
		for _, two := range names {
			paths = append(paths, one+"/"+two)
			for _, three := range names {
				paths = append(paths, one+"/"+two+"/"+three)
			}
		}
	}
	for _, pattern := range []string{
		"a", "a/", "/a", "/a/", "a/b", "/a/b", "a/b/", "*", "*.go", "/*.go", "a/*.go", "**", "**/", "**/a", "a/**", "a/**/", "a/**/b", "**/b/**", "a/*", "a/*/b",
		"[ab]", "[^a]", "[!ab]", "a?", "?", "a**b", "a*", "**a", "a/**b", "/**/c", "/**", `\a`, "[a-c]/a.go", "*/*", "*/a", "**/**/c", "{a,b}",
	} {
		if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(pattern+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		ignored := make(map[string]bool)
		for line := range strings.Lines(git(strings.Join(paths, "\n")+"\n", "check-ignore", "--no-index", "--stdin")) {
			ignored[strings.TrimSpace(line)] = true
		}
		text, err := reserve.Anchor("", pattern)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		g := glob(t, text, false)
		for _, path := range paths {
			if got := g.Match("/" + path); got != ignored[path] {
				t.Errorf("%s, as %s, matches %s: %v, git says %v", pattern, text, path, got, ignored[path])
			}
		}
	}
}

func TestAnchor(t *testing.T) {
	for _, tt := range []struct{ folder, pattern, want string }{
		{"", "a.go", "/**/a.go"},
		{"x/y", "a.go", "/x/y/**/a.go"},
		{"x", "/a.go", "/x/a.go"},
		{"x", "./a.go", "/x/a.go"},
		{"x", "././b/", "/x/b/"},
		{"x", "b/*.go", "/x/b/*.go"},
		{"x", "b/", "/x/**/b/"},
		{"x", ".", "/x/**"},
		{"x", "./", "/x/**"},
		{"", ".", "/**"},
		{"[id]", "a", `/\[id\]/**/a`},
	} {
		if got, err := reserve.Anchor(tt.folder, tt.pattern); got != tt.want || err != nil {
			t.Errorf("%q in %q: %q, %v, want %q", tt.pattern, tt.folder, got, err, tt.want)
		}
	}
	for pattern, want := range map[string]string{
		"":                        "a pattern is empty",
		"/":                       "matches nothing",
		"!a":                      "takes files out",
		"#a":                      "is a comment",
		"a//b":                    "nothing between two slashes",
		"../a":                    `has a part ".."`,
		"a/../b":                  `has a part ".."`,
		"[a":                      "bracket without its pair",
		`a\`:                      "backslash at the end",
		"[[:alpha:]]":             "class of characters by name",
		"a\xff":                   "not text in UTF-8",
		strings.Repeat("a", 600):  "no file has such a name",
		strings.Repeat("a/", 300): "more than 256 parts",
	} {
		if _, err := reserve.Anchor("", pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", pattern, err, want)
		}
	}
}

// TestHardPatterns: nobody makes the daemon compare for long.
func TestHardPatterns(t *testing.T) {
	hard := glob(t, "/"+strings.Repeat("**/*a*/", 100)+strings.Repeat("*a", 100)+"b", false)
	path := strings.Repeat("/"+strings.Repeat("a", 80), 100)
	// The quickest of some: a machine that has other things to do is slow at times, and what
	// has to try all ways takes hours.
	least := time.Duration(math.MaxInt64)
	for range 5 {
		start := time.Now()
		hard.Overlaps(glob(t, reserve.Escape(path), false))
		least = min(least, time.Since(start))
	}
	if least > 50*time.Millisecond {
		t.Errorf("one comparison took %v", least)
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("/a/**/[b-d]*", "/**/b?", "a/b/c")
	f.Add(`/\[x\]/`, "/{a,b}/**", "[x]/y")
	f.Add("/[]a]", "/[a-]", "-")
	f.Add("/**/a[+-9]c", "/**/[^-a]*", "a/c")
	f.Fuzz(func(t *testing.T, one, two, path string) {
		a, errA := reserve.ParseGlob(one, true)
		b, errB := reserve.ParseGlob(two, false)
		if errA != nil || errB != nil {
			return
		}
		overlaps := a.Overlaps(b)
		if overlaps != b.Overlaps(a) {
			t.Errorf("%q and %q overlap one way only", one, two)
		}
		path = filepath.Clean("/" + path)
		if path == "/" || !utf8.ValidString(path) || strings.Count(one+two, "**") > 6 { // covers tries all ways
			return
		}
		inOne, inTwo := covers(one, true, path), covers(two, false, path)
		if inOne && !a.Match(path) || inTwo && !b.Match(path) {
			t.Errorf("%q or %q does not match %q, which it covers", one, two, path)
		}
		if inOne && inTwo && !overlaps {
			t.Errorf("%q and %q both cover %q, and do not overlap", one, two, path)
		}
		if g, err := reserve.ParseGlob(reserve.Escape(path), true); err == nil && !g.Match(path) {
			t.Errorf("%q does not match itself", path)
		}
	})
}
