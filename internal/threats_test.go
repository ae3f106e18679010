package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	named    = regexp.MustCompile("`(Test\\w+|\\w+\\.txtar)`")
	declared = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// TestThreatsAreTested looks for the tests that the pages about threats name.
func TestThreatsAreTested(t *testing.T) {
	tests := make(map[string]bool)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch {
		case strings.HasSuffix(path, "_test.go"):
			data, err := os.ReadFile(path)
			for _, found := range declared.FindAllStringSubmatch(string(data), -1) {
				tests[found[1]] = true
			}
			return err
		case strings.HasSuffix(path, ".txtar"):
			tests[filepath.Base(path)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var threats string
	for _, name := range []string{"../docs/threats.md", "../docs/threats-outside.md"} {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		threats += string(page)
	}
	names := named.FindAllStringSubmatch(threats, -1)
	if len(names) < 40 {
		t.Errorf("found %d names of tests", len(names))
	}
	for _, name := range names {
		if !tests[name[1]] {
			t.Errorf("there is no %s", name[1])
		}
	}
	// Whatever a hostile party cannot do has a test beside it.
	heading := ""
	for item := range strings.SplitSeq(threats, "\n- ") {
		if strings.HasPrefix(heading, "A hostile ") && !named.MatchString(item) {
			t.Errorf("no test is named for: %s", item)
		}
		if _, next, ok := strings.Cut(item, "\n## "); ok {
			heading, _, _ = strings.Cut(next, "\n")
		}
	}
}
