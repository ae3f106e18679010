package daemon_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// titled returns the tasks' pages with that title.
func (w *world) titled(title string) []emulator.Page {
	var out []emulator.Page
	for _, p := range w.notion.Pages(w.tasks) {
		if p.Title() == title {
			out = append(out, p)
		}
	}
	return out
}

func (n *node) mustAdd(body api.AddRequest, key string) api.Task {
	n.w.Helper()
	added, err := client.Do(n.w.Context(), n.Client, api.OpAddTask, api.AddInput{Key: key, Body: body})
	if err != nil {
		n.w.Fatalf("add %q: %v", body.Title, err)
	}
	return added.Task
}

// A new task can be claimed at once, and costs one request.
func TestAdd(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first := w.add("first", nil)
		n := w.daemon(func(c *config.Config) { c.Sync.Interval = time.Hour })
		time.Sleep(time.Minute)
		for i, test := range []struct {
			body api.AddRequest
			want []string
		}{
			{api.AddRequest{Title: "plain", Priority: "critical"}, []string{"POST pages"}},
			{api.AddRequest{Title: "with content", Body: "# Plan\n- one\n"}, []string{"POST pages"}},
			{api.AddRequest{Title: "with content, too", Body: "text", DependsOn: []string{first, "TASK-1"}}, []string{"POST pages"}},
		} {
			w.notion.ResetRequests()
			made := n.mustAdd(test.body, fmt.Sprint("key ", i))
			if diff := cmp.Diff(test.want, w.requests()); diff != "" {
				w.Errorf("%s: requests (-want +got):\n%s", test.body.Title, diff)
			}
			if made.Title != test.body.Title || made.Status != "OPEN" || made.Ready != (test.body.DependsOn == nil) {
				w.Errorf("made %+v", made)
			}
			w.notion.ResetRequests()
			if again := n.mustAdd(test.body, fmt.Sprint("key ", i)); !cmp.Equal(made, again) || len(w.requests()) > 0 {
				w.Errorf("made again %+v, with %q", again, w.requests())
			}
		}
		if got := w.page(string(w.titled("with content, too")[0].ID)).Relation("depends_on"); !cmp.Equal(got, []string{first}) {
			w.Errorf("it depends on %q", got)
		}
		if cl := n.mustClaim("Sandman", ""); cl.Task.Title != "plain" {
			w.Errorf("claimed %q", cl.Task.Title)
		}
		_, err := client.Do(w.Context(), n.Client, api.OpAddTask, api.AddInput{Key: "key 0", Body: api.AddRequest{Title: "another"}})
		if code(err) != "key_reused" {
			w.Errorf("another task under a key that was used: %v", err)
		}
		assigned := n.mustAdd(api.AddRequest{Agent: "Sandman", Title: "for Oracle", For: "Oracle"}, "")
		if _, err := n.claim("Sandman", string(assigned.ID)); code(err) != denied(claim.CodeReserved) {
			w.Errorf("a task for Oracle: %v", err)
		}
		n.wantInbox("Oracle", time.Second, "task_assigned for Oracle", "tasks_available one one one")
		n.mustClaim("Oracle", string(assigned.ID))
	})
}

// Whatever happens to the request that makes a task, there is exactly one task at the end, and a
// caller who repeats the request learns of it.
func TestAddOnce(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	tests := map[string]struct {
		fault emulator.Fault
		// first is the code of the first answer, empty for the task; made says that the task exists
		// by then.
		first string
		made  bool
	}{
		"saved, and said so": {emulator.Fault{Kind: emulator.SavedBut503}, "", true},
		"the answer is lost": {emulator.Fault{Kind: emulator.DropAnswer}, "", true},
		"answered late":      {emulator.Fault{Kind: emulator.DelayAnswer, Delay: 30 * time.Second}, "", true},
		"landing much later": {emulator.Fault{Kind: emulator.LateWrite, Late: 50 * time.Second}, "notion_unavailable", false},
		"lost":               {emulator.Fault{Kind: emulator.DropRequest}, "notion_unavailable", false},
		"rate limited":       {emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: time.Minute}, "notion_unavailable", false},
		"forbidden":          {emulator.Fault{Kind: emulator.Forbidden403}, "notion_refused", false},
	}
	for i, name := range slices.Sorted(maps.Keys(tests)) {
		test := tests[name]
		for j, restart := range []bool{false, true} {
			for k, body := range []string{"", "# Plan\n"} {
				if !inTurn(i+j, k, 2) {
					continue
				}
				t.Run(fmt.Sprintf("%s, content %q, restart %v", name, body, restart), func(t *testing.T) {
					t.Parallel()
					inWorld(t, 0, func(w *world) {
						o := w.options(func(c *config.Config) { c.Sync.Interval = time.Hour })
						n := w.start(o)
						n.mustAdd(api.AddRequest{Title: "work", Body: body}, "before") // the same title
						time.Sleep(time.Minute)
						fault := test.fault
						fault.Method, fault.Path, fault.Times = "POST", "/v1/pages", 1
						fault.Match = func(_ *http.Request, body []byte) bool { return strings.Contains(string(body), "new ") }
						w.notion.Inject(fault)
						ask := api.AddRequest{Title: "work", Body: body}
						added, err := client.Do(w.Context(), n.Client, api.OpAddTask, api.AddInput{Key: "key", Body: ask})
						got := ""
						if err != nil {
							got = code(err)
						}
						if got != test.first || (len(w.titled("work")) == 2) != test.made {
							w.Errorf("the first answer is %q (%v), and there are %d", got, err, len(w.titled("work")))
						}
						if restart {
							n.stop()
							n = w.start(o)
						}
						for tries := 0; err != nil; tries++ {
							time.Sleep(20 * time.Second)
							if added, err = client.Do(w.Context(), n.Client, api.OpAddTask, api.AddInput{Key: "key", Body: ask}); tries > 15 {
								w.Fatalf("five minutes later: %v", err)
							}
						}
						time.Sleep(10 * time.Minute)
						pages := w.titled("work")
						if len(pages) != 2 || string(added.Task.ID) != pages[1].ID {
							w.Errorf("there are %d tasks, and the answer has %s", len(pages), added.Task.ID)
						}
						if again := n.mustAdd(ask, "key"); again.ID != added.Task.ID {
							w.Errorf("another answer under the key: %+v", again)
						}
					})
				})
			}
		}
	}
}

// With Notion down, nothing is made, not even later, and the answer says so at once.
func TestAddWithoutNotion(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(func(c *config.Config) { c.Sync.Interval = time.Minute })
		remove := w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})
		time.Sleep(10 * time.Minute)
		begin := time.Now()
		_, err := client.Do(w.Context(), n.Client, api.OpAddTask, api.AddInput{Key: "key", Body: api.AddRequest{Title: "work"}})
		if took := time.Since(begin); code(err) != "notion_unavailable" || took > time.Second || !strings.Contains(err.Error(), `"work" was not made: `) {
			w.Errorf("err = %v after %v", err, took)
		}
		remove()
		time.Sleep(time.Hour)
		if got := w.titled("work"); len(got) > 0 {
			w.Error("it was made behind the caller's back")
		}
		n.mustAdd(api.AddRequest{Title: "work"}, "key")
	})
}

// If Notion refuses a task for now, it is made once, after the pause that Notion asked for, if the
// caller waits that long: callers wait as long as for a claim.
func TestAddAfterAPause(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for name, patience := range map[string]time.Duration{"made": time.Minute, "the caller leaves": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				n := w.daemon(func(c *config.Config) { c.Sync.Interval = time.Hour })
				time.Sleep(time.Minute)
				w.notion.ResetRequests()
				w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/pages", Times: 1, Kind: emulator.RateLimited429, RetryAfter: 3 * time.Second})
				ctx, cancel := context.WithTimeout(w.Context(), patience)
				defer cancel()
				begun := time.Now()
				_, err := client.Do(ctx, n.Client, api.OpAddTask, api.AddInput{Key: "key", Body: api.AddRequest{Title: "work"}})
				took := time.Since(begun)
				time.Sleep(time.Minute)
				made := map[bool]int{true: 1, false: 0}[name == "made"]
				if got := len(w.titled("work")); got != made || (err == nil) != (made == 1) || made == 1 && (took < 3*time.Second || took > 5*time.Second || count(w.requests(), "POST pages") < 2) {
					t.Errorf("%d tasks after %v, %v, and the requests %q", got, took, err, w.requests())
				}
				if again := n.mustAdd(api.AddRequest{Title: "work"}, "key"); len(w.titled("work")) != 1 || w.titled("work")[0].ID != string(again.ID) {
					t.Errorf("asked again: %d tasks", len(w.titled("work")))
				}
			})
		})
	}
}

// What a new task cannot be is refused before anything is made.
func TestAddRefused(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Owner": map[string]any{"people": map[string]any{}}, "Points": map[string]any{"number": map[string]any{}}}))
		n := w.daemon(func(c *config.Config) { c.Sync.Interval = time.Hour })
		for says, body := range map[string]api.AddRequest{
			`no property "Colour"`:                     {Fields: map[string]any{"Colour": "red"}},
			`nobody in the workspace is called "Bob"`:  {Fields: map[string]any{"Owner": "Bob"}},
			"a list of texts is wanted":                {Fields: map[string]any{"Points": map[string]any{"x": 1}}},
			"name":                                     {For: "a\nb"},
			"the new task is to depend on \"TASK-99\"": {DependsOn: []string{"TASK-99"}},
		} {
			body.Title = "refused"
			_, err := client.Do(w.Context(), n.Client, api.OpAddTask, api.AddInput{Body: body})
			if want := map[bool]string{true: "not_found", false: "invalid_request"}[body.DependsOn != nil]; code(err) != want || !strings.Contains(err.Error(), says) {
				w.Errorf("%+v: %v, want it refused and %q", body, err, says)
			}
		}
		if got := count(w.requests(), "POST pages"); got > 0 || len(w.titled("refused")) > 0 {
			w.Errorf("%d pages were asked for", got)
		}
	})
}
