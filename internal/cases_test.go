package internal_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"dibs/internal/claim"
)

var update = flag.Bool("update", false, "write what is made from code into the pages of docs/ anew")

// errands are what pages are visited for, as the page of cases words them.
var errands = map[claim.Errand]string{
	claim.Guard: "Guard a held claim", claim.Renewal: "Renew a held claim", claim.Delivery: "Finish a claim",
	claim.Cleanup: "Step of a mark", claim.Sweeping: "Sweep a task", claim.Repaying: "Repay a lease length",
	claim.Opening: "Reopen a task", claim.Tidying: "Tidy a page",
}

// casesList is the protocol's page of cases in Markdown.
func casesList(cs claim.Cases) string {
	var b strings.Builder
	heading := ""
	for _, c := range cs {
		h := errands[c.On]
		switch {
		case c.On == claim.Cleanup && c.State != "":
			h += " that is " + string(c.State)
		case c.On == claim.Cleanup:
			h += " that is voided or clearing"
		}
		if h != heading {
			heading = h
			fmt.Fprintf(&b, "\n**%s**\n\n", h)
		}
		line := "-"
		for word := range strings.FieldsSeq("*If " + c.If + "* → " + c.Then) {
			if len([]rune(line))+1+len([]rune(word)) > 98 {
				b.WriteString(line + "\n")
				line = " "
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
	return b.String() + "\n"
}

// made compares the part of a page of docs/ that is made from code with what it should be; with
// -update it writes it.
func made(t *testing.T, page, part, want string) {
	t.Helper()
	path, begin, end := "../docs/"+page, "<!-- "+part+" -->\n", "<!-- end of "+part+" -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	shown, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the %s", path, part)
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if shown != want {
		t.Errorf("the %s on %s are not those of the code: go test ./internal -run %s -update writes them", part, path, t.Name())
	}
}

// TestPageOfCases compares the lists on the page with the code's.
func TestPageOfCases(t *testing.T) {
	want := casesList(claim.Protocol())
	made(t, "architecture/cases.md", "cases", want)
	if casesList(claim.Protocol()[1:]) == want {
		t.Error("a case left out is not missed")
	}
}
