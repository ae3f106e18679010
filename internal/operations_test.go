package internal_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/testkit"
)

// TestEveryRequestIsListed compares the requests that docs/http.md lists with the table of
// operations, both ways. A path that begins another way than with a method goes on from, or
// ends otherwise than, the one before it.
func TestEveryRequestIsListed(t *testing.T) {
	page := testkit.Got(os.ReadFile("../docs/http.md"))(t)
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
			testkit.Check(t, slices.Contains(known, last), "docs/http.md has %s, which is no operation", last)
		}
	}
	for _, pattern := range known {
		testkit.Check(t, listed[pattern], "docs/http.md does not have %s", pattern)
	}
}

// TestEveryCodeIsListed compares the codes of docs/http.md and docs/commands.md with package api's
// and package claim's, and their statuses and exit codes.
func TestEveryCodeIsListed(t *testing.T) {
	read := func(file string) string {
		text := testkit.Got(os.ReadFile("../" + file))(t)
		return string(text)
	}
	source := read("internal/api/problem.go") + read("internal/claim/decide.go")
	page, commands := read("docs/http.md"), read("docs/commands.md")
	rows := make(map[string]int) // the status of a code
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+`) \\| ([0-9, ]+) \\|").FindAllStringSubmatch(page, -1) {
		codes, statuses := strings.Split(row[1], ", "), strings.Split(row[2], ", ")
		for i, code := range codes {
			rows[strings.Trim(code, "`")], _ = strconv.Atoi(statuses[min(i, len(statuses)-1)])
		}
	}
	found := 0
	for _, code := range regexp.MustCompile(`Code\w+ +Code += "(\w+)"`).FindAllStringSubmatch(source, -1) {
		found++
		status := api.Code(code[1]).Status()
		listed, ok := rows[code[1]]
		delete(rows, code[1])
		own := "`" + code[1] + "` (" + strconv.Itoa(api.Code(code[1]).Exit()) + ")"
		if status == 0 && !strings.Contains(commands, own) {
			t.Errorf("docs/commands.md does not have %s", own)
		} else if status != 0 && (!ok || listed != status) {
			t.Errorf("docs/http.md says %d of %s, and it is %d", listed, code[1], status)
		}
	}
	for code := range rows {
		t.Errorf("docs/http.md has %s, which is no code", code)
	}
	exits := regexp.MustCompile(`Exit\w+ += (\d)`).FindAllStringSubmatch(source, -1)
	for _, exit := range exits {
		testkit.Check(t, strings.Contains(commands, "\n| "+exit[1]+" | "), "docs/commands.md does not have exit code %s", exit[1])
	}
	testkit.Check(t, found >= 25 && len(exits) >= 7, "found %d codes and %d exit codes", found, len(exits))
}
