package reserve

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// Glob is a pattern as in a .gitignore at the top of a place. It covers the files and folders that
// it matches, and everything in those folders, but see OfFiles. It is anchored: a pattern that
// matches at any depth begins with `/**/`. The zero Glob covers nothing.
type Glob struct {
	text  string
	parts []part
	// within is set if the pattern ends with a slash: it matches folders only.
	within bool
	// leaf is set if it matches files only, see OfFiles.
	leaf bool
}

// OfFiles returns the Glob that matches only files, and so does not cover the content of a folder
// with a matching name. A Glob that ends with a slash stays as it is.
func (g Glob) OfFiles() Glob {
	g.leaf = !g.within
	return g
}

// part is the text between two slashes of a Glob.
type part struct {
	deep   bool // `**`: any number of folders, or none
	text   string
	exact  string // the only name that it matches, if plain is set
	plain  bool
	tokens []token // if plain is not set
}

// maxName is the longest file name of file systems, in bytes.
const maxName = 255

// maxParts is how many parts a glob may have.
const maxParts = 256

// ParseGlob parses a pattern that begins with a slash. The error is the end of a sentence that begins
// with the pattern.
func ParseGlob(text string) (Glob, error) {
	g := Glob{text: text}
	rest, anchored := strings.CutPrefix(text, "/")
	if !anchored {
		return Glob{}, fmt.Errorf("does not begin with a slash")
	}
	if !utf8.ValidString(text) {
		return Glob{}, fmt.Errorf("is not text in UTF-8")
	}
	rest, g.within = strings.CutSuffix(rest, "/")
	if strings.Count(rest, "/") >= maxParts {
		return Glob{}, fmt.Errorf("has more than %d parts between slashes", maxParts)
	}
	for name := range strings.SplitSeq(rest, "/") {
		p, err := parsePart(name)
		if err != nil {
			return Glob{}, err
		}
		if n := len(g.parts); p.deep && n > 0 && g.parts[n-1].deep {
			continue // the same again
		}
		g.parts = append(g.parts, p)
	}
	// A final `/**` covers what is in a folder, but not the folder.
	if last := len(g.parts) - 1; g.parts[last].deep {
		g.parts[last] = part{text: "*", tokens: []token{{kind: star}}}
	}
	return g, nil
}

// noBraces escapes braces: the library takes them for alternatives, a .gitignore does not.
var noBraces = strings.NewReplacer(`\\`, `\\`, `\{`, `\{`, `\}`, `\}`, `{`, `\{`, `}`, `\}`)

func parsePart(name string) (part, error) {
	switch {
	case name == "":
		return part{}, fmt.Errorf("has nothing between two slashes")
	case name == "." || name == "..":
		return part{}, fmt.Errorf("has a part %q, which matches nothing: write it from a folder that it is in", name)
	case name == "**":
		return part{deep: true, text: name}, nil
	case len(name) > 2*maxName:
		return part{}, fmt.Errorf("has a part of %d bytes: no file has such a name", len(name))
	case strings.Contains(name, "[:"):
		return part{}, fmt.Errorf("has a class of characters by name, such as [[:digit:]]: write the characters, such as [0-9]")
	}
	text := noBraces.Replace(name)
	tokens, ok := tokenize(text)
	if !ok || !doublestar.ValidatePattern(text) {
		return part{}, fmt.Errorf("has a bracket without its pair, an empty class, or a backslash at the end of a part")
	}
	p := part{text: text, tokens: tokens}
	if exact, plain := plainOf(tokens); plain {
		p.exact, p.plain, p.tokens = exact, true, nil
	}
	return p, nil
}

// String returns the pattern as it was parsed.
func (g Glob) String() string { return g.text }

// prefix returns the names with which all paths that g covers begin, without a slash in front.
func (g Glob) prefix() string {
	var names []string
	for _, p := range g.parts {
		if !p.plain {
			break
		}
		names = append(names, p.exact)
	}
	return strings.Join(names, "/")
}

// Match reports whether g covers the file or folder with that path, which has no slash in front.
// folder is set for a folder.
func (g Glob) Match(path string, folder bool) bool {
	if len(g.parts) == 0 || path == "" {
		return false
	}
	// A leaf has to match the file's own name. Checking that first is fast for many files.
	if g.leaf && (folder || !g.parts[len(g.parts)-1].match(path[strings.LastIndexByte(path, '/')+1:])) {
		return false
	}
	names := strings.Split(path, "/")
	// at[i] says that the first i parts match the names so far.
	at, next := make([]bool, len(g.parts)+1), make([]bool, len(g.parts)+1)
	at[0] = true
	g.skipDeep(at)
	for n, name := range names {
		if !slices.Contains(at, true) {
			return false
		}
		clear(next)
		for i, p := range g.parts {
			switch {
			case !at[i]:
			case p.deep:
				next[i] = true
			case p.match(name):
				next[i+1] = true
			}
		}
		g.skipDeep(next)
		last := n == len(names)-1
		if next[len(g.parts)] && (!g.within || folder || !last) && (!g.leaf || !folder && last) {
			return true
		}
		at, next = next, at
	}
	return false
}

// skipDeep lets each `**` match no folder.
func (g Glob) skipDeep(at []bool) {
	for i, p := range g.parts {
		if at[i] && p.deep {
			at[i+1] = true
		}
	}
}

func (p part) match(name string) bool {
	if p.plain {
		return p.exact == name
	}
	return doublestar.MatchUnvalidated(p.text, name)
}

// budget is how many steps the comparison of two globs may take. If it is not decided by then, they
// may overlap.
const budget = 20_000

// Overlaps reports whether there may be a path that both cover. If there is one, it returns true. It
// may also return true for two globs that are hard to compare.
func (g Glob) Overlaps(h Glob) bool {
	if len(g.parts) == 0 || len(h.parts) == 0 {
		return false
	}
	o := overlap{g: g, h: h, seen: make([]bool, len(g.parts)*len(h.parts)), left: budget}
	return o.from(0, 0)
}

// overlap searches for a path that g and h both cover.
type overlap struct {
	g, h Glob
	seen []bool // by i and j, see from
	left int
}

// from reports whether g[i:] and h[j:] may match the same path.
func (o *overlap) from(i, j int) bool {
	g, h := o.g.parts, o.h.parts
	switch {
	case i == len(g) && j == len(h):
		return true // a file, or something in a folder
	case i == len(g):
		return !o.g.leaf || rest(h[j:]) == 0 // a folder covers whatever the rest of the other matches
	case j == len(h):
		return !o.h.leaf || rest(g[i:]) == 0
	}
	if o.left--; o.left < 0 {
		return true
	}
	if at := i*len(h) + j; o.seen[at] {
		return false
	} else {
		o.seen[at] = true
	}
	p, q := g[i], h[j]
	switch {
	case p.deep && q.deep:
		return o.from(i+1, j) || o.from(i, j+1)
	case p.deep:
		return o.from(i+1, j) || o.from(i, j+1)
	case q.deep:
		return o.from(i, j+1) || o.from(i+1, j)
	}
	return p.overlaps(q, &o.left) && o.from(i+1, j+1)
}

// rest returns the smallest number of names that parts match.
func rest(parts []part) (n int) {
	for _, p := range parts {
		if !p.deep {
			n++
		}
	}
	return n
}

func (p part) overlaps(q part, left *int) bool {
	switch {
	case p.plain && q.plain:
		return p.exact == q.exact
	case q.plain:
		p, q = q, p
		fallthrough
	case p.plain:
		// The library goes through the name once for each star, at worst.
		if *left -= len(p.exact) * len(q.text) / 64; *left < 0 {
			return true
		}
		return q.match(p.exact)
	}
	return tokensOverlap(p.tokens, q.tokens, left)
}

// Escape escapes a path, so that a Glob takes all of its characters literally.
func Escape(path string) string {
	var out strings.Builder
	for _, b := range []byte(path) {
		if slices.Contains([]byte(`\*?[]{}!#`), b) {
			out.WriteByte('\\')
		}
		out.WriteByte(b)
	}
	return out.String()
}
