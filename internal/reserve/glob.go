package reserve

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// Glob is a pattern as in a .gitignore at the top of a place. It covers the files that it matches, and
// everything in the folders that it matches, unless it means files only. It is anchored: a pattern
// that matches at any depth begins with `/**/`. The nil Glob covers nothing.
type Glob []shape

// shape is a set of paths. All that two shapes are compared by holds for each of their paths.
type shape struct {
	// text is the pattern for the library; empty if prefix is the only path.
	text           string
	prefix, suffix string // literal text that all paths begin and end with
	least, most    int    // slashes in a path
}

// maxName is the longest file name of file systems, in bytes.
const maxName = 255

// maxParts is how many parts a glob may have.
const maxParts = 256

// ParseGlob parses a pattern that begins with a slash. With files it means only files, unless it ends
// with a slash: it does not cover the content of a folder with a matching name. The error is the end
// of a sentence that begins with the pattern.
func ParseGlob(text string, files bool) (Glob, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, errors.New("does not begin with a slash")
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("is not text in UTF-8")
	}
	own, within := strings.CutSuffix(text[1:], "/")
	parts := strings.Split(own, "/")
	if len(parts) > maxParts {
		return nil, fmt.Errorf("has more than %d parts between slashes", maxParts)
	}
	for i, name := range parts {
		parts[i] = noBraces.Replace(name)
		if err := checkPart(name, parts[i]); err != nil {
			return nil, err
		}
	}
	// A final `/**` covers what is in a folder, but not the folder.
	if parts[len(parts)-1] == "**" {
		parts = append(parts, "*")
	}
	own = "/" + strings.Join(parts, "/")
	var g Glob
	if !within {
		g = append(g, shapeOf(own))
	}
	if within || !files {
		g = append(g, shapeOf(own+below))
	}
	return g, nil
}

// below matches everything in a folder.
const below = "/**/*"

// The library knows more than a .gitignore: braces are alternatives, and a negated class matches a
// slash, too. So does a range such as [+-9], where a Glob covers too much.
var (
	noBraces = strings.NewReplacer(`\\`, `\\`, `\{`, `\{`, `\}`, `\}`, `{`, `\{`, `}`, `\}`)
	noSlash  = strings.NewReplacer(`\\`, `\\`, `\[`, `\[`, `[^`, `[^/-/`, `[!`, `[^/-/`)
)

func checkPart(name, text string) error {
	switch {
	case name == "":
		return errors.New("has nothing between two slashes")
	case name == "." || name == "..":
		return fmt.Errorf("has a part %q, which matches nothing: write it from a folder that it is in", name)
	case len(name) > 2*maxName:
		return fmt.Errorf("has a part of %d bytes: no file has such a name", len(name))
	case strings.Contains(name, "[:"):
		return errors.New("has a class of characters by name, such as [[:digit:]]: write the characters, such as [0-9]")
	case !doublestar.ValidatePattern(text):
		return errors.New("has a bracket without its pair, an empty class, or a backslash at the end of a part")
	}
	return nil
}

// shapeOf returns the shape of a valid pattern.
func shapeOf(text string) shape {
	s := shape{text: noSlash.Replace(text)}
	for part := range strings.SplitSeq(text[1:], "/") {
		if part == "**" {
			s.most = math.MaxInt
		} else {
			s.least++
		}
	}
	s.most = max(s.most, s.least)
	var literal strings.Builder
	wild := false
	for i := 0; i < len(text); i++ {
		if strings.IndexByte(`*?[]`, text[i]) >= 0 {
			if !wild {
				s.prefix, wild = literal.String(), true
			}
			literal.Reset()
			continue
		}
		if text[i] == '\\' {
			i++
		}
		literal.WriteByte(text[i])
	}
	s.suffix = literal.String()
	if !wild {
		return shape{prefix: s.suffix}
	}
	return s
}

// ofName returns the Glob of a name, or of a single path.
func ofName(name string) Glob { return Glob{{prefix: name}} }

// inFolder returns the Glob of everything in a folder.
func inFolder(path string) Glob {
	return Glob{shapeOf(strings.TrimRight(Escape(path), "/") + below)}
}

// Match reports whether g covers the file with that path, which begins with a slash.
func (g Glob) Match(path string) bool {
	return slices.ContainsFunc(g, func(s shape) bool { return s.match(path) })
}

func (s shape) match(path string) bool {
	if s.text == "" {
		return path == s.prefix
	}
	if !strings.HasPrefix(path, s.prefix) || !strings.HasSuffix(path, s.suffix) {
		return false // fast, for many files
	}
	n := strings.Count(path, "/")
	return s.least <= n && n <= s.most && doublestar.MatchUnvalidated(s.text, path)
}

// Overlaps reports whether there may be a path that both cover. If there is one, it returns true.
// Where neither is a single path, it returns true for all that their literal beginnings and ends and
// their numbers of folders do not tell apart.
func (g Glob) Overlaps(h Glob) bool {
	return slices.ContainsFunc(g, func(s shape) bool { return slices.ContainsFunc(h, s.meets) })
}

func (s shape) meets(o shape) bool {
	switch {
	case s.text == "":
		return o.match(s.prefix)
	case o.text == "":
		return s.match(o.prefix)
	}
	return s.least <= o.most && o.least <= s.most &&
		(strings.HasPrefix(s.prefix, o.prefix) || strings.HasPrefix(o.prefix, s.prefix)) &&
		(strings.HasSuffix(s.suffix, o.suffix) || strings.HasSuffix(o.suffix, s.suffix))
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
