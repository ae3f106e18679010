package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"

	"github.com/google/go-cmp/cmp"
)

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
			_, err := n.Add(w.Context(), test.body, "")
			if code(err) != "invalid_request" || !strings.Contains(err.Error(), test.says) {
				w.Errorf("%+.100v: %v, want it refused and %q", test.body, err, test.says)
			}
		}
		if _, err := n.Add(w.Context(), api.AddRequest{Title: "refused", DependsOn: []string{"TASK-99"}}, ""); code(err) != "not_found" {
			w.Errorf("depending on nothing: %v", err)
		}
		if got := count(w.requests(), "POST pages"); got > 0 || len(w.titled("refused")) > 0 {
			w.Errorf("%d pages were asked for", got)
		}
	})
}
