package mcp_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"dibs/internal/door/mcp"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files in testdata anew")

var (
	ulids = regexp.MustCompile(`\b0[0-9A-HJKMNP-TV-Z]{25}\b`)
	times = regexp.MustCompile(`\b([A-Z][a-z]{2} \d+ )?\d\d:\d\d\b`) // of whatever zone
	uuids = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
)

// transcript is what an agent asked and was told, with names in place of ids.
type transcript struct {
	*world
	lines strings.Builder
	names map[string]string
}

func (tr *transcript) name(id, kind string) string {
	if _, known := tr.names[id]; !known {
		n := 1
		for _, name := range tr.names {
			if strings.HasPrefix(name, kind) {
				n++
			}
		}
		tr.names[id] = fmt.Sprintf("%s%d", kind, n)
	}
	return tr.names[id]
}

func (tr *transcript) plain(text string) string {
	text = uuids.ReplaceAllStringFunc(text, func(id string) string { return tr.name(id, "PAGE") })
	text = times.ReplaceAllString(text, "HH:MM")
	return ulids.ReplaceAllStringFunc(text, func(id string) string { return tr.name(id, "ID") })
}

// does calls a tool and writes it down.
func (tr *transcript) does(s *session, tool, args string) answer {
	tr.Helper()
	a := s.call(tool, args)
	mark := ""
	if a.failed {
		mark = " (error)"
	}
	fmt.Fprintf(&tr.lines, "> %s %s\n%s%s\n\n", tool, tr.plain(args), tr.plain(a.text), mark)
	return a
}

// TestDay is an agent's day through MCP, held against the transcript in testdata/day.txt:
// from the inbox to the last finish_task, with a claim lost on the way and a client that is
// started again.
func TestDay(t *testing.T) {
	inWorld(t, []string{"Fix the login", "Write the report", "Order paper"}, func(w *world) {
		tr := &transcript{world: w, names: make(map[string]string)}
		time.Sleep(time.Minute)
		s := w.connect(mcp.Options{Agent: "Sandman"})
		first := tr.does(s, "inbox", `{}`)
		tr.does(s, "list_tasks", `{}`)
		tr.does(s, "claim_task", `{}`)
		tr.does(s, "show_task", `{"task":"TASK-1"}`)
		id := first.fields["triggers"].([]any)[0].(map[string]any)["id"].(string)
		tr.does(s, "inbox", `{"done":["`+id+`"]}`)
		tr.does(s, "update_claim", `{"text":"half way"}`)
		tr.does(s, "comment", `{"text":"found it: the cookie"}`)
		tr.does(s, "add_task", `{"title":"Clear the old cookies","body":"They stay for a year.","depends_on":["TASK-1"]}`)
		tr.does(s, "finish_task", `{"outcome":"completed","summary":"the cookie had no path","evidence":["commit 1f3a"]}`)

		tr.does(s, "claim_task", `{}`)
		fmt.Fprintf(&tr.lines, "(a person sets TASK-2 to CANCELLED)\n\n")
		w.person("Write the report", status("CANCELLED"))
		tr.does(s, "send", `{"to":"Oracle","text":"the report is half done"}`)
		tr.does(s, "finish_task", `{"outcome":"completed","task":"TASK-2"}`)

		tr.does(s, "claim_task", `{"task":"TASK-3"}`)
		fmt.Fprintf(&tr.lines, "(the client is started again)\n\n")
		s.close()
		s = w.connect(mcp.Options{Agent: "Sandman"})
		defer s.close()
		tr.does(s, "list_tasks", `{"mine":true}`)
		lost := tr.does(s, "inbox", `{}`)
		id = lost.fields["triggers"].([]any)[0].(map[string]any)["id"].(string)
		tr.does(s, "finish_task", `{"outcome":"blocked","summary":"who pays for it?"}`)
		tr.does(s, "inbox", `{"done":["`+id+`"],"wait_seconds":30}`)
		tr.does(s, "claim_task", `{"wait_seconds":60}`)
		tr.does(s, "show_task", `{"task":"TASK-4"}`)
		tr.does(s, "comment", `{"text":"On phones, too?","ask":true}`)
		tr.does(s, "claim_task", `{"wait_seconds":60}`)

		for title, want := range map[string]string{
			"Fix the login": "COMPLETED Sandman", "Write the report": "CANCELLED Sandman", "Order paper": "BLOCKED",
		} {
			if got := w.status(title); got != want {
				w.Errorf("%s shows %q, want %q", title, got, want)
			}
		}
		golden := filepath.Join("testdata", "day.txt")
		if *update {
			if err := os.WriteFile(golden, []byte(tr.lines.String()), 0o644); err != nil {
				w.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			w.Fatal(err)
		}
		if diff := cmp.Diff(string(want), tr.lines.String()); diff != "" {
			w.Errorf("the day (-want +got):\n%s", diff)
		}
	})
}
