package reserve_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/internal/pgtest"
	"dibs/internal/reserve"

	"github.com/bmatcuk/doublestar/v4"
	"pgregory.net/rapid"
)

func glob(t testing.TB, text string) reserve.Glob {
	t.Helper()
	g, err := reserve.ParseGlob(text)
	if err != nil {
		t.Fatalf("ParseGlob(%q): %v", text, err)
	}
	return g
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, path string
		folder, want  bool
	}{
		{"/a.go", "a.go", false, true},
		{"/a.go", "b/a.go", false, false},
		{"/**/a.go", "a.go", false, true},
		{"/**/a.go", "b/c/a.go", false, true},
		{"/src/*.go", "src/a.go", false, true},
		{"/src/*.go", "src/b/a.go", false, false},
		{"/src", "src/b/a.go", false, true},
		{"/src/", "src/b/a.go", false, true},
		{"/src/", "src", false, false},
		{"/src/", "src", true, true},
		{"/src/**", "src", true, false},
		{"/src/**", "src/a", false, true},
		{"/**/src/**/a.go", "src/a.go", false, true},
		{"/**/src/**/a.go", "x/src/y/z/a.go", false, true},
		{"/a[^b]c", "a/c", false, false},
		{"/a[^b]c", "axc", false, true},
		{"/{a,b}", "a", false, false},
		{"/{a,b}", "{a,b}", false, true},
		{`/\*`, "*", false, true},
		{`/\*`, "a", false, false},
		{"/*", ".hidden", false, true},
	} {
		if got := glob(t, tt.pattern).Match(tt.path, tt.folder); got != tt.want {
			t.Errorf("%s matches %s (folder: %v): %v, want %v", tt.pattern, tt.path, tt.folder, got, tt.want)
		}
	}
}

func TestOverlaps(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"/src/a.go", "/src/a.go", true},
		{"/src/a.go", "/src/b.go", false},
		{"/src/*.go", "/src/a*", true},
		{"/src/*.go", "/src/*.md", false},
		{"/src/*.go", "/**/*.md", true}, // src/a.go/b.md, unless these are files: see below
		{"/src/", "/src/a/b.go", true},
		{"/src/", "/docs/**", false},
		{"/**/a.go", "/docs/**", true},
		{"/**/a.go", "/docs/*.md", true},
		{"/a[bc]", "/a[cd]", true},
		{"/a[bc]", "/a[de]", false},
		{"/a*b*bc", "/a?c", false},
		{"/a*b*c", "/a?[ab]c", true},
		{"/**/x/**/y", "/x/z", true}, // x/z/y
	} {
		for _, pair := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			if got := glob(t, pair[0]).Overlaps(glob(t, pair[1])); got != tt.want {
				t.Errorf("%s overlaps %s: %v, want %v", pair[0], pair[1], got, tt.want)
			}
		}
	}
}

// TestOverlapsOfFiles: what means files covers nothing below them.
func TestOverlapsOfFiles(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"/src/a.go", "/**/*.md", false},
		{"/src/a.go", "/**/*.go", true},
		{"/src/a.go", "/src/**/a.go", true},
		{"/**/go.mod", "/**/*.go", false},
	} {
		a, b := glob(t, tt.a).OfFiles(), glob(t, tt.b).OfFiles()
		if a.Overlaps(b) != tt.want || b.Overlaps(a) != tt.want {
			t.Errorf("%s overlaps %s: want %v", tt.a, tt.b, tt.want)
		}
	}
	if !glob(t, "/src/a.go").OfFiles().Overlaps(glob(t, "/src/")) {
		t.Error("a folder does not cover a file in it")
	}
	if glob(t, "/src/a.go").OfFiles().Match("src/a.go/b", false) {
		t.Error("a file covers what is in a folder of its name")
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
	return strings.Join(rapid.SliceOfN(name, 1, 5).Draw(t, "path"), "/")
}

// TestOverlapsNeverMissesAPath draws two patterns and a path: if both match the path, they
// have to overlap.
func TestOverlapsNeverMissesAPath(t *testing.T) {
	pgtest.OnlySQLite(t) // no journal has a part in it
	met := 0
	rapid.Check(t, func(t *rapid.T) {
		a, errA := reserve.ParseGlob(drawPattern(t, "a"))
		b, errB := reserve.ParseGlob(drawPattern(t, "b"))
		if errA != nil || errB != nil {
			t.Fatalf("patterns: %v, %v", errA, errB)
		}
		if rapid.Bool().Draw(t, "a of files") {
			a = a.OfFiles()
		}
		if rapid.Bool().Draw(t, "b of files") {
			b = b.OfFiles()
		}
		if a.Overlaps(b) != b.Overlaps(a) {
			t.Fatalf("%v and %v overlap one way only", a, b)
		}
		// Few patterns meet in a path that is drawn: of so many paths some surely do.
		for range 100 {
			path, folder := drawPath(t), rapid.Bool().Draw(t, "folder")
			if !a.Match(path, folder) || !b.Match(path, folder) {
				continue
			}
			met++
			if !a.Overlaps(b) {
				t.Fatalf("%v and %v both match %s, and do not overlap", a, b, path)
			}
		}
	})
	if met == 0 && !testing.Short() { // which draws too few
		t.Error("no two patterns met in a path: nothing was tested")
	}
}

// TestMatchIsTheLibrarys compares with what the library makes of a whole pattern.
func TestMatchIsTheLibrarys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawPattern(t, "pattern")
		if strings.ContainsAny(text, "[{") {
			// In a class the library takes a slash for a character like others, and it
			// knows braces.
			return
		}
		g, err := reserve.ParseGlob(text)
		if err != nil {
			t.Fatal(err)
		}
		path := drawPath(t)
		whole := strings.Trim(text, "/")
		if strings.HasSuffix(whole, "**") && (whole == "**" || strings.HasSuffix(whole, "/**")) {
			whole = strings.TrimSuffix(whole, "**") + "*" // what is in a folder, and not the folder
		}
		below := whole + "/*/**"
		want := doublestar.MatchUnvalidated(whole, path) && !strings.HasSuffix(text, "/") || doublestar.MatchUnvalidated(below, path)
		if got := g.Match(path, false); got != want {
			t.Fatalf("%s matches %s: %v, the library says %v", text, path, got, want)
		}
	})
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
		g := glob(t, text)
		for _, path := range paths {
			if got := g.Match(path, false); got != ignored[path] {
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
	a := glob(t, "/"+strings.Repeat("**/*a*/", 100)+strings.Repeat("*a", 100))
	b := glob(t, "/"+strings.Repeat("**/*b*/", 100)+strings.Repeat("*b", 100)+"c")
	// The quickest of some: a machine that has other things to do is slow at times, and what
	// has to try all ways takes hours.
	least := time.Duration(math.MaxInt64)
	for range 5 {
		start := time.Now()
		a.Overlaps(b)
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
	f.Fuzz(func(t *testing.T, one, two, path string) {
		a, errA := reserve.ParseGlob(one)
		b, errB := reserve.ParseGlob(two)
		if errA != nil || errB != nil {
			return
		}
		overlaps := a.Overlaps(b)
		if overlaps != b.Overlaps(a) {
			t.Errorf("%q and %q overlap one way only", one, two)
		}
		if strings.Contains(path, "\x00") || !strings.HasPrefix(filepath.Clean("/"+path), "/") {
			return
		}
		if path = strings.TrimPrefix(filepath.Clean("/"+path), "/"); a.Match(path, false) && b.Match(path, false) && !overlaps {
			t.Errorf("%q and %q both match %q, and do not overlap", one, two, path)
		}
		if text := "/" + reserve.Escape(path); path != "" {
			if g, err := reserve.ParseGlob(text); err == nil && !g.Match(path, false) {
				t.Errorf("%q does not match itself, as %q", path, text)
			}
		}
	})
}
