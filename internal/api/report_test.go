package api_test

import (
	"strings"
	"testing"

	"dibs/internal/api"
)

// What others wrote is text in a spreadsheet and in Markdown, and nothing more.
func TestReportOfHostileTexts(t *testing.T) {
	r := api.Report{
		Agents:  []api.AgentWork{{Agent: `=HYPERLINK("x")`, Completed: 1, MedianSeconds: new(1.5)}, {Agent: "-a,b", Lost: 2}},
		Blocked: []api.Blocked{{Task: api.TaskRef{Title: "a | b\n# c"}, Why: `<img src=x> [x](javascript:y) &lt;`}},
	}
	var csv, md strings.Builder
	if err := r.Work().CSV(&csv); err != nil {
		t.Fatal(err)
	}
	if want := "agent,completed,failed,lost,median_seconds,usd\n\"'=HYPERLINK(\"\"x\"\")\",1,0,0,1.5,0\n\"'-a,b\",0,0,2,,0\n"; csv.String() != want {
		t.Errorf("CSV:\n%s\nwant\n%s", csv.String(), want)
	}
	if err := r.Markdown(&md); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`| a \| b \# c | `, `| &lt;img src=x\> \[x\](javascript:y) &amp;lt; |`, "## Questions\n\nNone.\n"} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("the Markdown lacks %s:\n%s", want, md.String())
		}
	}
}
