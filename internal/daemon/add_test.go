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
		"saved, and said so":       {emulator.Fault{Kind: emulator.SavedBut503}, "", true},
		"the answer is lost":       {emulator.Fault{Kind: emulator.DropAnswer}, "", true},
		"409, and saved":           {emulator.Fault{Kind: emulator.Conflict409Saved}, "", true},
		"answered late":            {emulator.Fault{Kind: emulator.DelayAnswer, Delay: 30 * time.Second}, "", true},
		"landing late":             {emulator.Fault{Kind: emulator.LateWrite, Late: 3 * time.Second}, "", true},
		"landing much later":       {emulator.Fault{Kind: emulator.LateWrite, Late: 50 * time.Second}, "notion_unavailable", false},
		"503, landing much later":  {emulator.Fault{Kind: emulator.LateWrite503, Late: 50 * time.Second}, "notion_unavailable", false},
		"lost":                     {emulator.Fault{Kind: emulator.DropRequest}, "notion_unavailable", false},
		"500":                      {emulator.Fault{Kind: emulator.Error500}, "notion_unavailable", false},
		"409":                      {emulator.Fault{Kind: emulator.Conflict409}, "notion_unavailable", false},
		"502 of the edge":          {emulator.Fault{Kind: emulator.HTML502}, "notion_unavailable", false},
		"rate limited":             {emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: time.Minute}, "notion_unavailable", false},
		"forbidden":                {emulator.Fault{Kind: emulator.Forbidden403}, "notion_refused", false},
		"blocked, and lost before": {emulator.Fault{Kind: emulator.Overload529, RetryAfter: 10 * time.Second}, "notion_unavailable", false},
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

// A task that is claimed before its maker knows of it is found by its title.
func TestAddFindsWhatIsClaimed(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]map[string]any{
		"claimed":      {"claim_token": text("rich_text", string(claim.NewID(time.Now()))), "claimed_by": text("rich_text", "Ghost"), "status": option("status", "IN_PROGRESS")},
		"token erased": {"claim_token": text("rich_text", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				n := w.daemon(nil)
				w.add("work", nil) // by a person
				n.mustAdd(api.AddRequest{Title: "work"}, "another")
				w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/pages", Times: 1, Kind: emulator.LateWrite, Late: 20 * time.Second,
					Match: func(_ *http.Request, body []byte) bool { return strings.Contains(string(body), "new ") }})
				if _, err := client.Do(w.Context(), n.Client, api.OpAddTask, api.AddInput{Key: "key", Body: api.AddRequest{Title: "work"}}); code(err) != "notion_unavailable" {
					w.Fatalf("err = %v", err)
				}
				time.Sleep(30 * time.Second)
				pages := w.titled("work")
				w.edit(pages[2].ID, edit)
				if made := n.mustAdd(api.AddRequest{Title: "work"}, "key"); string(made.ID) != pages[2].ID || len(w.titled("work")) != 3 {
					w.Errorf("made %+v, want %s", made, pages[2].ID)
				}
			})
		})
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
	for _, kind := range []emulator.FaultKind{emulator.RateLimited429, emulator.Overload529} {
		for _, body := range []string{"", "# Plan\n"} {
			for name, patience := range map[string]time.Duration{"": time.Minute, ", and the caller leaves": time.Second} {
				t.Run(fmt.Sprintf("%s, content %q%s", kind, body, name), func(t *testing.T) {
					t.Parallel()
					inWorld(t, 0, func(w *world) {
						n := w.daemon(func(c *config.Config) { c.Sync.Interval = time.Hour })
						n.mustAdd(api.AddRequest{Title: "another", Body: body}, "")
						time.Sleep(time.Minute)
						w.notion.ResetRequests()
						w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/pages", Times: 1, Kind: kind, RetryAfter: 3 * time.Second,
							Match: func(_ *http.Request, body []byte) bool { return strings.Contains(string(body), "new ") }})
						ctx, cancel := context.WithTimeout(w.Context(), patience)
						defer cancel()
						begun := time.Now()
						added, err := client.Do(ctx, n.Client, api.OpAddTask, api.AddInput{Key: "key", Body: api.AddRequest{Title: "work", Body: body}})
						took := time.Since(begun)
						time.Sleep(time.Minute)
						want := []string{"POST pages", "POST pages"}
						if name != "" {
							want = want[:1]
						}
						if got := slices.DeleteFunc(w.requests(), func(r string) bool { return r != "POST pages" }); !slices.Equal(got[:min(len(got), len(want))], want) || len(w.titled("work")) != len(want)-1 {
							t.Errorf("requests %q, and %d tasks", got, len(w.titled("work")))
						}
						if name == "" && (err != nil || added.Task.Title != "work" || took < 3*time.Second || took > 5*time.Second) {
							t.Errorf("added %+v after %v, %v", added, took, err)
						}
						if again := n.mustAdd(api.AddRequest{Title: "work", Body: body}, "key"); len(w.titled("work")) != 1 || w.titled("work")[0].ID != string(again.ID) {
							t.Errorf("asked again: %d tasks", len(w.titled("work")))
						}
					})
				})
			}
		}
	}
}

// Every writable property can be given, with its values as people see them.
func TestAddFields(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		ada, err := w.notion.AddPerson("Ada", "ada@example.com")
		mustDo(w, err)
		other, err := w.notion.CreateDatabase("Sprints", map[string]any{"Name": map[string]any{"title": map[string]any{}}})
		mustDo(w, err)
		sprint, err := w.notion.CreatePage(other, map[string]any{"Name": text("title", "12")})
		mustDo(w, err)
		first := w.add("first", nil)
		none := map[string]any{}
		options := func(names ...string) map[string]any {
			var all []any
			for _, n := range names {
				all = append(all, map[string]any{"name": n})
			}
			return map[string]any{"options": all}
		}
		n := w.daemon(func(c *config.Config) { c.Sync.Interval = time.Hour })
		// Added by a person while the daemon runs.
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{
			"Area": map[string]any{"select": options("api", "web")}, "Tags": map[string]any{"multi_select": options("red", "blue")},
			"Points": map[string]any{"number": none}, "Urgent": map[string]any{"checkbox": none}, "Due": map[string]any{"date": none},
			"Link": map[string]any{"url": none}, "Mail": map[string]any{"email": none}, "Phone": map[string]any{"phone_number": none},
			"Done when": map[string]any{"rich_text": none}, "Owner": map[string]any{"people": none},
			"Sprint":  map[string]any{"relation": map[string]any{"database_id": other, "single_property": none}},
			"See":     map[string]any{"relation": map[string]any{"database_id": w.tasks, "single_property": none}},
			"Created": map[string]any{"created_time": none},
		}))
		fields := map[string]any{
			"area": "API", "Tags": []string{"red", "Blue"}, "Points": 2.5, "Urgent": true, "Due": "2026-11-30", "Link": "https://example.com/x",
			"Mail": "ada@example.com", "Phone": "+49 30 1", "done_when": "all green", "Owner": "ada@example.com", "Sprint": sprint, "See": "TASK-1",
		}
		made := n.mustAdd(api.AddRequest{Title: "all of them", Priority: "HIGH", Fields: fields}, "")
		p := w.page(string(made.ID))
		plain := func(v any) any {
			switch v := v.(type) {
			case map[string]any:
				for _, key := range []string{"name", "start", "id"} {
					if one, ok := v[key]; ok {
						return one
					}
				}
			case []any:
				var all []any
				for _, one := range v {
					m, _ := one.(map[string]any)
					for _, key := range []string{"name", "id", "plain_text"} {
						if s, ok := m[key].(string); ok && (key != "name" || m["object"] != "user") {
							all = append(all, s)
							break
						}
					}
				}
				return all
			}
			return v
		}
		got := make(map[string]any)
		want := map[string]any{
			"Area": "api", "Tags": []any{"red", "blue"}, "Points": 2.5, "Urgent": true, "Due": "2026-11-30", "Link": "https://example.com/x",
			"Mail": "ada@example.com", "Phone": "+49 30 1", "Done when": []any{"all green"}, "Owner": []any{ada}, "Sprint": []any{sprint}, "See": []any{first},
			"priority": "high", "status": "OPEN",
		}
		for name := range want {
			got[name] = plain(p.Value(name))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("made (-want +got):\n%s", diff)
		}

		w.notion.ResetRequests()
		for _, test := range []struct {
			body api.AddRequest
			says string
		}{
			{api.AddRequest{Fields: map[string]any{"Colour": "red"}}, `no property "Colour": it has "Area", "Done when", "Due"`},
			{api.AddRequest{Fields: map[string]any{"Area": "desk"}}, `no option "desk": there is "api", "web"`},
			{api.AddRequest{Fields: map[string]any{"Tags": "red,green"}}, `no option "green": there is "red", "blue"`},
			{api.AddRequest{Fields: map[string]any{"Area": []string{"api", "web"}}}, "takes one value, not 2"},
			{api.AddRequest{Fields: map[string]any{"Points": "many"}}, "want a number"},
			{api.AddRequest{Fields: map[string]any{"Urgent": "perhaps"}}, "want true or false"},
			{api.AddRequest{Fields: map[string]any{"Due": "tomorrow"}}, "want a day"},
			{api.AddRequest{Fields: map[string]any{"Link": "here"}}, "want a URL"},
			{api.AddRequest{Fields: map[string]any{"Mail": "ada"}}, "want an address"},
			{api.AddRequest{Fields: map[string]any{"Owner": "Bob"}}, `nobody in the workspace is called "Bob"`},
			{api.AddRequest{Fields: map[string]any{"Created": "2026-11-30"}}, "of type created_time, which cannot be written"},
			{api.AddRequest{Fields: map[string]any{"status": "OPEN"}}, "is no field: a new task is OPEN"},
			{api.AddRequest{Fields: map[string]any{"claimed_by": "Oracle"}}, "claims are written there"},
			{api.AddRequest{Fields: map[string]any{"Area": "api", "area": "web"}}, `"Area" is given twice`},
			{api.AddRequest{Fields: map[string]any{"Points": map[string]any{"x": 1}}}, "a list of texts is wanted"},
			{api.AddRequest{Priority: "whenever"}, `no priority "whenever": there is "critical"`},
			{api.AddRequest{For: "a\nb"}, "name"},
			{api.AddRequest{Body: strings.Repeat("long ", 90_000)}, "the body is too long"},
			{api.AddRequest{Title: strings.Repeat("long ", 500)}, "the title is too long"},
		} {
			if test.body.Title == "" {
				test.body.Title = "refused"
			}
			_, err := client.Do(w.Context(), n.Client, api.OpAddTask, api.AddInput{Body: test.body})
			if code(err) != "invalid_request" || !strings.Contains(err.Error(), test.says) {
				w.Errorf("%+.100v: %v, want it refused and %q", test.body, err, test.says)
			}
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpAddTask, api.AddInput{Body: api.AddRequest{Title: "refused", DependsOn: []string{"TASK-99"}}}); code(err) != "not_found" {
			w.Errorf("depending on nothing: %v", err)
		}
		if got := count(w.requests(), "POST pages"); got > 0 || len(w.titled("refused")) > 0 {
			w.Errorf("%d pages were asked for", got)
		}
	})
}
