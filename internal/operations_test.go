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

// TestReadmeListsTheOperations compares the README's table of requests with the table of
// operations, both ways. A path that begins another way than with a method goes on from, or
// ends otherwise than, the one before it.
func TestReadmeListsTheOperations(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"GET /metrics"}
	for _, op := range api.Operations() {
		known = append(known, op.Pattern())
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| `") || !strings.Contains(line, " /v1/") {
			continue
		}
		cell, _, _ := strings.Cut(line[2:], " | ")
		last := ""
		for _, span := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(cell, -1) {
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
				t.Errorf("the README has %s, which is no operation", last)
			}
		}
	}
	for _, pattern := range known {
		if !listed[pattern] {
			t.Errorf("the README does not have %s", pattern)
		}
	}
}
