package internal_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"dibs/internal/claim"
)

var update = flag.Bool("update", false, "write the page of cases into docs/ARCHITECTURE.md anew")

// errands are what pages are visited for, as docs/ARCHITECTURE.md words them.
var errands = map[claim.Errand]string{
	claim.Guard: "Guard a held claim", claim.Renewal: "Renew a held claim", claim.Delivery: "Finish a claim",
	claim.Cleanup: "Step of a mark", claim.Sweeping: "Sweep a task", claim.Repaying: "Repay a lease length",
	claim.Opening: "Reopen a task", claim.Tidying: "Tidy a page",
}

// casesTable is the protocol's page of cases in Markdown.
func casesTable(cs claim.Cases) string {
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
			fmt.Fprintf(&b, "\n**%s**\n\n| if | then |\n|---|---|\n", h)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", c.If, c.Then)
	}
	return b.String() + "\n"
}

// TestArchitectureShowsThePageOfCases compares the tables on the page with the code's.
func TestArchitectureShowsThePageOfCases(t *testing.T) {
	const path, begin, end = "../docs/ARCHITECTURE.md", "<!-- cases -->\n", "<!-- end of cases -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	shown, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the cases", path)
	}
	want := casesTable(claim.Protocol())
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if shown != want {
		t.Errorf("the cases on the page are not those of claim.Protocol: go test ./internal -run PageOfCases -update writes them")
	}
	if casesTable(claim.Protocol()[1:]) == want {
		t.Error("a case left out is not missed")
	}
}
