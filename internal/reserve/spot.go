package reserve

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The places that are not repositories. The place of a repository is the absolute path of its common
// git directory.
const (
	Files = "files" // all files of this machine, by absolute path
	Names = "names" // things that are not files
)

// OriginPrefix begins the place of a repository by its origin, where it was cloned from: one place for
// all clones on all machines.
const OriginPrefix = "origin:"

// NamePrefix begins a name of something that is not a file.
const NamePrefix = "name:"

// Spot is the position of a pattern or a path in a place.
type Spot struct {
	Place string `json:"in"`
	// Path is a Glob if the target is to be reserved, and a path that begins with a slash if it
	// is to be checked. In the place Names, it is the name.
	Path string `json:"path"`
}

// Target is a pattern to reserve, or a path to check.
type Target struct {
	// Text is what was written.
	Text string `json:"text"`
	At   []Spot `json:"at"`
	// Folder is set for a path of a folder: it stands for everything in it.
	Folder bool `json:"folder,omitempty"`
	// Files is set for a pattern that means files only, see ParseGlob.
	Files bool `json:"files,omitempty"`
}

// The limits of one request. Its texts are stored, and shown to others.
const (
	MaxPatterns = 32
	MaxText     = 512  // of a pattern as it was written, in bytes
	MaxTexts    = 4096 // of all of them
	MaxPaths    = 1000 // of a check
	maxSpots    = 12
	maxPath     = 8192
)

// NameOf returns the name in text; is reports whether text is a name of something that is not a file.
func NameOf(text string) (name string, is bool, err error) {
	name, is = strings.CutPrefix(text, NamePrefix)
	if !is {
		return "", false, nil
	}
	switch {
	case name == "":
		err = fmt.Errorf("%q has no name after the colon: write one, such as name:db-migrations", text)
	case strings.ContainsFunc(name, func(r rune) bool { return r != ' ' && !unicode.IsGraphic(r) }), !utf8.ValidString(name):
		err = fmt.Errorf("%q: a name is printable text", text)
	}
	return name, true, err
}

// Anchor translates a pattern of a .gitignore in a folder to a Glob, as text, at the top of the
// folder's place. The folder has no slash at its beginning or end; it is empty for the top. A `./`
// before the pattern means the folder itself, and `.` everything in it. The error names the pattern,
// and says what is wrong with it.
func Anchor(folder, pattern string) (string, error) {
	rest, here := strings.CutPrefix(pattern, "./")
	for cut := here; cut; {
		rest, cut = strings.CutPrefix(strings.TrimLeft(rest, "/"), "./")
	}
	if here {
		rest = "/" + strings.TrimLeft(rest, "/")
	}
	if rest == "." || here && rest == "/" {
		rest = "/**"
	}
	switch {
	case rest == "":
		return "", fmt.Errorf("a pattern is empty: write a path, or a pattern such as src/*.go")
	case rest == "/":
		return "", fmt.Errorf("the pattern / matches nothing: write . for all that is in the current folder")
	case strings.HasPrefix(rest, "!"):
		return "", fmt.Errorf("%q takes files out, which a reservation cannot do: reserve what you want, or write \\! for a name that begins so", pattern)
	case strings.HasPrefix(rest, "#"):
		return "", fmt.Errorf("%q is a comment in a .gitignore: write \\# for a name that begins so", pattern)
	case strings.HasPrefix(rest, "/"):
	case strings.Contains(strings.TrimSuffix(rest, "/"), "/"):
		rest = "/" + rest
	default:
		rest = "/**/" + rest
	}
	if folder != "" {
		rest = "/" + Escape(folder) + rest
	}
	if _, err := ParseGlob(rest, false); err != nil {
		return "", fmt.Errorf("%q %w", pattern, err)
	}
	return rest, nil
}

// matcher is a parsed Target.
type matcher struct {
	text  string
	spots []spotMatcher
}

type spotMatcher struct {
	place string
	glob  Glob
}

// common reports whether a spot is the same on all machines.
func (s Spot) common() bool { return s.Place == Names || strings.HasPrefix(s.Place, OriginPrefix) }

// placeOf returns the place of a spot on a member's machine, in a form that differs from places on
// other machines.
func (s Spot) placeOf(member string) string {
	if member == "" || s.common() {
		return s.Place
	}
	return member + " " + s.Place
}

// on returns a function that translates the places of a target on a member's machine, see placeOf.
func on(member string) func(Target) Target {
	return func(t Target) Target {
		at := t.At
		t.At = nil
		for _, s := range at {
			t.At = append(t.At, Spot{s.placeOf(member), s.Path})
		}
		return t
	}
}

// asIs returns the target unchanged.
func asIs(t Target) Target { return t }

// matcherOf parses a target of a reservation. The target was checked before.
func matcherOf(t Target) (matcher, error) {
	m := matcher{text: t.Text}
	for _, s := range t.At {
		glob := ofName(s.Path)
		if s.Place != Names {
			var err error
			if glob, err = ParseGlob(s.Path, t.Files); err != nil {
				return matcher{}, fmt.Errorf("%q, which is %q in %s, %w", t.Text, s.Path, s.Place, err)
			}
		}
		m.spots = append(m.spots, spotMatcher{s.Place, glob})
	}
	return m, nil
}

// check returns an error for an invalid target.
func (t Target) check() error {
	if t.Text == "" || len(t.At) == 0 || len(t.At) > maxSpots {
		return fmt.Errorf("%q has %d places: want a text, and 1 to %d places that it is in", t.Text, len(t.At), maxSpots)
	}
	for _, s := range t.At {
		switch {
		case len(s.Path) > maxPath || len(s.Place) > maxPath:
			return fmt.Errorf("%.40q is at a path of more than %d bytes", t.Text, maxPath)
		case s.Path == "":
			return fmt.Errorf("%q has no path in %s", t.Text, s.Place)
		case s.Place != Files && s.Place != Names && !strings.HasPrefix(s.Place, "/") && (!strings.HasPrefix(s.Place, OriginPrefix) || s.Place == OriginPrefix):
			return fmt.Errorf("%q is in the place %q: want %s, %s, the absolute path of a git directory, or %s and where it was cloned from", t.Text, s.Place, Files, Names, OriginPrefix)
		case s.Place != Names && !strings.HasPrefix(s.Path, "/"):
			return fmt.Errorf("%q is at %q, which does not begin with a slash", t.Text, s.Path)
		}
	}
	return nil
}

// meets reports whether two matchers may be about the same thing.
func (m matcher) meets(other matcher) bool {
	for _, a := range m.spots {
		for _, b := range other.spots {
			if a.place == b.place && a.glob.Overlaps(b.glob) {
				return true
			}
		}
	}
	return false
}

// anywhere reports whether a pattern matches in every folder.
func anywhere(m matcher) bool {
	return m.spots[0].place != Names && m.text != "." && !strings.Contains(strings.TrimSuffix(m.text, "/"), "/")
}
