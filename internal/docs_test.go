package internal_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
	"unicode/utf8"

	"dibs/internal/testkit"
)

// How long pages are at most. Nobody reads more at a time.
const (
	linesOfReadme = 110
	linesOfIndex  = 40
	linesOfPage   = 149
	charsOfLine   = 99
)

const index = "docs/README.md"

// site is the pages for people: the README and what is in docs.
type site struct {
	files fs.FS
	pages map[string]page // by path
}

// page is one of them.
type page struct {
	lines   []string
	anchors map[string]bool
	links   []string // as written, those to other hosts left out
}

func readSite(files fs.FS) (site, error) {
	s := site{files, make(map[string]page)}
	read := func(name string) error {
		text, err := fs.ReadFile(files, name)
		if err == nil {
			s.pages[name] = readPage(string(text))
		}
		return err
	}
	err := fs.WalkDir(files, "docs", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		return read(name)
	})
	if err != nil {
		return site{}, err
	}
	return s, read("README.md")
}

var (
	mdLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	mdCode   = regexp.MustCompile("`[^`]*`")
	otherURL = regexp.MustCompile(`^[a-z]+:`)
)

func readPage(text string) page {
	p := page{lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n"), anchors: make(map[string]bool)}
	var prose strings.Builder
	code := false
	for _, line := range p.lines {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			code = !code
		case code:
		default:
			prose.WriteString(line + "\n")
			if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
				p.anchors[p.anchor(heading)] = true
			}
		}
	}
	rest := mdCode.ReplaceAllStringFunc(prose.String(), func(span string) string {
		if strings.Contains(span, "](") {
			return ""
		}
		return span
	})
	for _, link := range mdLink.FindAllStringSubmatch(rest, -1) {
		if !otherURL.MatchString(link[1]) {
			p.links = append(p.links, link[1])
		}
	}
	return p
}

// anchor returns what a link to a heading ends in, as GitHub makes it.
func (p page) anchor(heading string) string {
	heading = strings.TrimSpace(mdText.ReplaceAllString(heading, "$1"))
	a := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
	again := a
	for n := 1; p.anchors[again]; n++ {
		again = fmt.Sprintf("%s-%d", a, n)
	}
	return again
}

// faults are where the pages break the rules.
func (s site) faults() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[name]
		most := linesOfPage
		switch name {
		case "README.md":
			most = linesOfReadme
		case index:
			most = linesOfIndex
		}
		if len(p.lines) > most {
			add("%s has %d lines, and may have %d", name, len(p.lines), most)
		}
		printed := false
		for i, line := range p.lines {
			if strings.HasPrefix(line, "```") {
				printed = strings.HasPrefix(line, "```console")
			}
			// What a program prints is as wide as the program makes it.
			if n := utf8.RuneCountInString(line); n > charsOfLine && !printed {
				add("%s:%d has %d characters, and may have %d", name, i+1, n, charsOfLine)
			}
		}
		for _, link := range p.links {
			if !s.leads(name, link) {
				add("%s: the link %s leads nowhere", name, link)
			}
		}
	}
	return append(all, s.unlisted()...)
}

// leads says whether a link on a page leads somewhere.
func (s site) leads(from, link string) bool {
	to, anchor, deep := strings.Cut(link, "#")
	target := from
	if to != "" {
		target = path.Join(path.Dir(from), to)
	}
	if p, ok := s.pages[target]; ok {
		return !deep || p.anchors[anchor]
	}
	_, err := fs.Stat(s.files, target)
	return err == nil && !deep
}

// unlisted are the pages that the index does not name, or names twice. A folder belongs to the page
// of its name, which names the pages in there instead: docs/CONTRIBUTING.md has docs/contributing.
func (s site) unlisted() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		if name == "README.md" || name == index {
			continue
		}
		lister := index
		for other := range s.pages {
			if strings.EqualFold(strings.TrimSuffix(other, ".md"), path.Dir(name)) {
				lister = other
			}
		}
		times := 0
		for _, link := range s.pages[lister].links {
			to, _, _ := strings.Cut(link, "#")
			if path.Join(path.Dir(lister), to) == name {
				times++
			}
		}
		switch {
		case times == 0:
			all = append(all, fmt.Sprintf("%s does not name %s", lister, name))
		case times > 1 && lister == index:
			all = append(all, fmt.Sprintf("%s names %s %d times", lister, name, times))
		}
	}
	return all
}

// TestEveryPage holds the pages for people to what makes them readable: none is long, no line is
// wide, each link leads somewhere, and the index names each page.
func TestEveryPage(t *testing.T) {
	s := testkit.Got(readSite(os.DirFS("..")))(t)
	testkit.Check(t, len(s.pages) >= 20, "found %d pages", len(s.pages))
	for _, fault := range s.faults() {
		t.Error(fault)
	}
}

// TestFaultsOfPages shows that TestEveryPage misses nothing.
func TestFaultsOfPages(t *testing.T) {
	long := func(n int) string { return strings.Repeat("line\n", n) }
	for name, tt := range map[string]struct {
		change map[string]string
		want   string
	}{
		"sound":              {nil, ""},
		"a long README":      {map[string]string{"README.md": long(111)}, "README.md has 111 lines, and may have 110"},
		"a long index":       {map[string]string{index: "[a](a.md) [b](B.md)\n" + long(40)}, index + " has 41 lines, and may have 40"},
		"a long page":        {map[string]string{"docs/a.md": long(150)}, "docs/a.md has 150 lines, and may have 149"},
		"a wide line":        {map[string]string{"docs/a.md": "ok\n" + strings.Repeat("ü", 100)}, "docs/a.md:2 has 100 characters, and may have 99"},
		"a narrow line":      {map[string]string{"docs/a.md": strings.Repeat("ü", 99)}, ""},
		"wide code":          {map[string]string{"docs/a.md": "```sh\n" + strings.Repeat("x", 100) + "\n```\n"}, "docs/a.md:2 has 100 characters, and may have 99"},
		"what was printed":   {map[string]string{"docs/a.md": "```console\n" + strings.Repeat("x", 100) + "\n```\n"}, ""},
		"wide after printed": {map[string]string{"docs/a.md": "```console\n```\n" + strings.Repeat("x", 100)}, "docs/a.md:3 has 100 characters, and may have 99"},
		"no such page":       {map[string]string{"docs/a.md": "[c](c.md)"}, "docs/a.md: the link c.md leads nowhere"},
		"no such file":       {map[string]string{"docs/a.md": "[c](../c.go)"}, "docs/a.md: the link ../c.go leads nowhere"},
		"a file":             {map[string]string{"docs/a.md": "[c](../main.go), ![p](p.png)"}, ""},
		"no such anchor":     {map[string]string{"docs/a.md": "[b](B.md#one)"}, "docs/a.md: the link B.md#one leads nowhere"},
		"an anchor":          {map[string]string{"docs/a.md": "[b](B.md#two-words-a_b)"}, ""},
		"the second anchor":  {map[string]string{"docs/a.md": "# X\n# X\n[x](#x-1)"}, ""},
		"no third anchor":    {map[string]string{"docs/a.md": "# X\n# X\n[x](#x-2)"}, "docs/a.md: the link #x-2 leads nowhere"},
		"over two lines":     {map[string]string{"docs/a.md": "[a\nb](c.md)"}, "docs/a.md: the link c.md leads nowhere"},
		"a heading in code":  {map[string]string{"docs/a.md": "```\n# X\n```\n[x](#x)"}, "docs/a.md: the link #x leads nowhere"},
		"a link in code":     {map[string]string{"docs/a.md": "```\n[x](y)\n```\n`[x](y)`"}, ""},
		"another host":       {map[string]string{"docs/a.md": "[x](https://example.com/y#z)"}, ""},
		"not in the index":   {map[string]string{"docs/c.md": "c"}, index + " does not name docs/c.md"},
		"twice in the index": {map[string]string{index: "[a](a.md) [b](B.md) [again](a.md#x)", "docs/a.md": "# X"}, index + " names docs/a.md 2 times"},
		"a part, unnamed":    {map[string]string{"docs/b/d.md": "d"}, "docs/B.md does not name docs/b/d.md"},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{"main.go": {}, "docs/p.png": {}}
			for file, text := range map[string]string{
				"README.md": "[all](docs/README.md)", index: "[a](a.md) [b](B.md)", "docs/a.md": "# A", "docs/B.md": "## Two `words`: [a_b](a.md)\n[c](b/c.md)", "docs/b/c.md": "c",
			} {
				files[file] = &fstest.MapFile{Data: []byte(text)}
			}
			for file, text := range tt.change {
				files[file] = &fstest.MapFile{Data: []byte(text)}
			}
			s := testkit.Got(readSite(files))(t)
			if got := strings.Join(s.faults(), "\n"); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}
