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

// TestThreatsAreTested looks for the tests that docs/threats.md names.
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
	threats, err := os.ReadFile("../docs/threats.md")
	if err != nil {
		t.Fatal(err)
	}
	names := named.FindAllStringSubmatch(string(threats), -1)
	if len(names) < 40 {
		t.Errorf("found %d names of tests", len(names))
	}
	for _, name := range names {
		if !tests[name[1]] {
			t.Errorf("there is no %s", name[1])
		}
	}
	// Whatever a hostile party cannot do has a test beside it.
	for line := range strings.Lines(string(threats)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && !named.MatchString(cells[3]) && !strings.Contains(cells[3], "---") && strings.TrimSpace(cells[3]) != "test" {
			t.Errorf("no test is named for: %s", line)
		}
	}
}
