package internal_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dibs/internal/api"
)

// TestEveryRequestIsListed compares the requests that docs/http.md lists with the table of
// operations, both ways. A path that begins another way than with a method goes on from, or
// ends otherwise than, the one before it.
func TestEveryRequestIsListed(t *testing.T) {
	page, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"GET /metrics"}
	for _, op := range api.Operations() {
		known = append(known, op.Pattern())
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "- `") || !strings.Contains(line, " /v1/") {
			continue
		}
		last := ""
		for _, span := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(line, -1) {
			asked, _, _ := strings.Cut(span[1], "?")
			switch {
			case strings.HasPrefix(asked, "{"): // a body
				continue
			case strings.HasPrefix(asked, "/") && slices.Contains(known, path.Dir(last)+asked):
				last = path.Dir(last) + asked
			case strings.HasPrefix(asked, "/"):
				last += asked
			default:
				last = asked
			}
			listed[last] = true
			if !slices.Contains(known, last) {
				t.Errorf("docs/http.md has %s, which is no operation", last)
			}
		}
	}
	for _, pattern := range known {
		if !listed[pattern] {
			t.Errorf("docs/http.md does not have %s", pattern)
		}
	}
}
