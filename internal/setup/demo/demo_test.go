package demo

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/door/server"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/charmbracelet/x/ansi"
)

// newDemo returns a demo on an empty board, without a daemon.
func newDemo(t *testing.T) *demo {
	t.Helper()
	notion := testkit.Got(emulator.New(emulator.Options{}))(t)
	t.Cleanup(func() { notion.Close() })
	testkit.Got(notion.Seed("empty"))(t)
	return &demo{notion: notion, print: newPrinter(Options{Out: io.Discard}), grantees: make(map[task.ID][]string)}
}

// messages returns the texts of problems.
func messages(problems []error) (out []string) {
	for _, err := range problems {
		out = append(out, err.Error())
	}
	slices.Sort(out)
	return out
}

// TestLogsChecked checks logs that differ from the record in every way.
func TestLogsChecked(t *testing.T) {
	record := []api.LogEntry{
		{ID: "g1", Kind: claim.KindGranted, Remote: true},
		{ID: "g2", Kind: claim.KindGranted, Remote: true},
		{ID: "c1", Kind: claim.KindCompleted, Remote: true},
		{ID: "r1", Kind: claim.KindRenewed, Remote: true}, // goes to no log
	}
	for name, tt := range map[string]struct{ mesh, work, want string }{
		"complete":             {"g2 g1", "c1", ""},
		"a doubled row":        {"g1 g2 g1", "c1", "the mesh log has entry g1 2 times, want once"},
		"a missing row":        {"g1", "c1", "the mesh log has entry g2 0 times, want once"},
		"an empty log":         {"g1 g2", "", "the task log has entry c1 0 times, want once"},
		"a foreign row":        {"g1 g2", "c1 x", `the task log has an entry "x" that nothing accounts for`},
		"a row with no id":     {"g1 g2 -", "c1", `the mesh log has an entry "" that nothing accounts for`},
		"a row in another log": {"g1 g2 c1", "", `the mesh log has an entry "c1" that nothing accounts for; the task log has entry c1 0 times, want once`},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDemo(t)
			for db, ids := range map[string]string{d.notion.Databases().MeshLog: tt.mesh, d.notion.Databases().TaskLog: tt.work} {
				for id := range strings.FieldsSeq(ids) {
					testkit.Got(d.notion.CreatePage(db, map[string]any{"entry_id": text("rich_text", strings.Trim(id, "-"))}))(t)
				}
			}
			got := strings.Join(messages(d.audit(record)), "; ")
			testkit.Check(t, got == tt.want, "problems %s, want %s", got, tt.want)
		})
	}
}

// TestGrantsCounted grants one task to several agents, one after the other.
func TestGrantsCounted(t *testing.T) {
	for _, tt := range []struct {
		name   string
		grants []task.ID // in order; then nothing is ready
		twice  int
		want   []string
	}{
		{name: "each once", grants: []task.ID{"a", "b", "c"}},
		{name: "one twice", grants: []task.ID{"a", "b", "a"}, twice: 1, want: []string{"1 task(s) were granted twice"}},
		{name: "one three times", grants: []task.ID{"a", "a", "a"}, twice: 1, want: []string{"1 task(s) were granted twice"}},
		{name: "two twice", grants: []task.ID{"a", "b", "b", "a"}, twice: 2, want: []string{"2 task(s) were granted twice"}},
	} {
		testkit.Bubble(t, tt.name, func(t *testing.T) {
			d := newDemo(t)
			pipe := server.NewPipe()
			server := &http.Server{Handler: granting(tt.grants)}
			go server.Serve(pipe)
			defer server.Close()
			d.client = client.Over("pipe", pipe.Dial)
			testkit.Must(t, d.work(t.Context(), "Sandman"))
			testkit.Check(t, d.summary.GrantedTwice == tt.twice && d.grants == len(tt.grants),
				"of %d grants, %d tasks were granted twice; want %d and %d", d.grants, d.summary.GrantedTwice, len(tt.grants), tt.twice)
			testkit.Same(t, tt.want, messages(d.audit(nil)), "problems")
		})
	}
}

// TestWhatToTryNext checks that the end names three commands, and no link that is dead by then.
func TestWhatToTryNext(t *testing.T) {
	var out strings.Builder
	d := &demo{Options: Options{Out: &out, Command: "go run ./cmd/dibs"}, link: func() string { return "http://127.0.0.1:1/" }}
	testkit.Must(t, d.bye(t.Context()))
	testkit.Check(t, strings.Count(out.String(), "\n  go run ./cmd/dibs ") == 3 && !strings.Contains(out.String(), "http://"),
		"the end is %q", &out)
}

// TestScreenFits draws long, wide and hostile titles on terminals of several sizes.
func TestScreenFits(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {60, 20}, {200, 50}, {20, 5}, {1, 1}} {
		columns, rows := size[0], size[1]
		var out strings.Builder
		s := &screen{
			out: &out, size: func() (int, int) { return columns, rows }, began: time.Now(), about: "a test", link: "http://127.0.0.1:1/",
			actors: []string{"Sandman"}, last: make(map[string]event),
			counts: func() []counted { return []counted{{"COMPLETED", 3}, {"IN_PROGRESS", 1}, {"BLOCKED", 0}} },
		}
		p := &printer{screen: s}
		for range 60 {
			p.line("Sandman", "claimed %s", strings.Repeat("日本語 ", 40)+"\x1b[2J\n\u009b")
			p.line("Maria", "made “x” critical")
		}
		frames := strings.Split(out.String(), ansi.CursorHomePosition)
		last := strings.Split(strings.TrimSuffix(frames[len(frames)-1], ansi.EraseScreenBelow), "\r\n")
		testkit.Check(t, len(last) <= rows, "%v: %d lines", size, len(last))
		for _, line := range last {
			line = strings.ReplaceAll(line, ansi.EraseLineRight, "")
			testkit.Check(t, ansi.StringWidth(line) < max(2, columns) && !strings.ContainsAny(line, "\x1b\n\u009b"),
				"%v: the line %q does not fit, or controls the terminal", size, line)
		}
		if text := strings.Join(last, "\n"); columns >= 60 && (!strings.Contains(text, "3 completed · 1 in progress") || !strings.Contains(text, "Maria")) {
			t.Errorf("%v: %s", size, text)
		}
	}
}

// granting is a daemon that grants these tasks to Sandman in order, and nothing to others.
func granting(tasks []task.ID) http.Handler {
	refuse := func(w http.ResponseWriter, code claim.Code) {
		p := api.NewProblem(api.Code(code), "no")
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(p.Status)
		json.NewEncoder(w).Encode(p)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request api.ClaimRequest
		json.NewDecoder(r.Body).Decode(&request)
		answer := api.Claim{ID: claim.NewID(time.Now()), Agent: request.Agent}
		if !strings.HasSuffix(r.URL.Path, "/complete") {
			switch {
			case request.Task != "":
				refuse(w, claim.CodeHeld)
				return
			case len(tasks) == 0:
				refuse(w, claim.CodeNothingReady)
				return
			}
			answer.Task.ID, tasks = tasks[0], tasks[1:]
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answer)
	})
}
