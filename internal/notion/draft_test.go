package notion_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/outbox/creation"
	"dibs/internal/task"

	gocmp "github.com/google/go-cmp/cmp"
)

// lookup finds Ada and the first task.
type lookup struct {
	ada   string
	first task.ID
}

func (l lookup) Person(_ context.Context, who string) (string, error) {
	if who != "ada@example.com" {
		return "", &task.DraftError{Detail: "nobody is called " + who}
	}
	return l.ada, nil
}

func (l lookup) Named(_ context.Context, name string) (task.ID, error) {
	if name != "TASK-1" {
		return "", claim.Errorf(claim.NotFound, claim.LandedNo, "no task %s", name)
	}
	return l.first, nil
}

// plain is the value of a property in short.
func plain(v any) any {
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

// Every writable property of a new task can be given, with its values as people see them, also one
// that was added since the schema was read. What does not fit is refused before anything is made.
func TestDraft(t *testing.T) {
	inWorld(t, func(w *world) {
		ada, err := w.emulator.AddPerson("Ada", "ada@example.com")
		if err != nil {
			w.Fatal(err)
		}
		other := w.database(props{"Name": of("title")})
		sprint, first := w.pageIn(other, props{"Name": title("12")}), w.page(props{"Name": title("first")})
		tasks, l := w.tasks(notion.TaskSchema{}), lookup{ada, first}
		relates := func(to string) any { return props{"relation": props{"database_id": to, "single_property": props{}}} }
		err = w.emulator.EditSchema(w.databases.Tasks, props{
			"Area": of("select", "api", "web"), "Tags": of("multi_select", "red", "blue"), "Points": of("number"), "Urgent": of("checkbox"), "Due": of("date"),
			"Link": of("url"), "Mail": of("email"), "Phone": of("phone_number"), "Done when": of("rich_text"), "Owner": of("people"),
			"Sprint": relates(other), "See": relates(w.databases.Tasks), "Created": of("created_time"),
		})
		if err != nil {
			w.Fatal(err)
		}
		field := func(name string, values ...string) task.Field { return task.Field{Name: name, Values: values} }
		plan, err := tasks.Plan(w.Context(), task.Draft{Title: "all of them", Priority: "HIGH", DependsOn: []task.ID{first}, Fields: []task.Field{
			field("area", "API"), field("Tags", "red", "Blue"), field("Points", "2.5"), field("Urgent", "true"), field("Due", "2026-11-30"), field("Link", "https://example.com/x"),
			field("Mail", "ada@example.com"), field("Phone", "+49 30 1"), field("done_when", "all green"), field("Owner", "ada@example.com"), field("Sprint", string(sprint)), field("See", "TASK-1"),
		}}, l)
		if err != nil {
			w.Fatal(err)
		}
		twelfth := task.Draft{Title: "by title", Fields: []task.Field{field("Sprint", "twelve")}}
		if _, err := tasks.Plan(w.Context(), twelfth, l); err == nil {
			w.Error("a title that no task shows was taken")
		}
		tasks.SetTitle(sprint, "Twelve", nil)
		if _, err := tasks.Plan(w.Context(), twelfth, l); err != nil {
			w.Error(err)
		}
		tasks.SetTitle(first, "Twelve", nil)
		if _, err := tasks.Plan(w.Context(), twelfth, l); err == nil {
			w.Error("a title that two pages have was taken")
		}
		made, err := plan.Create(w.Context(), "01JYSAFZ0D")
		if err != nil {
			w.Fatal(err)
		}
		want := map[string]any{
			"Area": "api", "Tags": []any{"red", "blue"}, "Points": 2.5, "Urgent": true, "Due": "2026-11-30", "Link": "https://example.com/x",
			"Mail": "ada@example.com", "Phone": "+49 30 1", "Done when": []any{"all green"}, "Owner": []any{ada}, "Sprint": []any{string(sprint)}, "See": []any{string(first)},
			"priority": "high", "status": "OPEN", "depends_on": []any{string(first)},
		}
		got := make(map[string]any)
		for name := range want {
			got[name] = plain(w.look(made.Task.ID).Value(name))
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			w.Errorf("made (-want +got):\n%s", diff)
		}
		for says, d := range map[string]task.Draft{
			`no property "Colour": it has "Area", "Done when", "Due"`: {Fields: []task.Field{field("Colour", "red")}},
			`no option "desk": there is "api", "web"`:                 {Fields: []task.Field{field("Area", "desk")}},
			`no option "green": there is "red", "blue"`:               {Fields: []task.Field{field("Tags", "red,green")}},
			"takes one value, not 2":                                  {Fields: []task.Field{field("Area", "api", "web")}},
			"want a number":                                           {Fields: []task.Field{field("Points", "many")}},
			"want true or false":                                      {Fields: []task.Field{field("Urgent", "perhaps")}},
			"want a day":                                              {Fields: []task.Field{field("Due", "tomorrow")}},
			"want a URL":                                              {Fields: []task.Field{field("Link", "here")}},
			"want an address":                                         {Fields: []task.Field{field("Mail", "ada")}},
			"nobody is called Bob":                                    {Fields: []task.Field{field("Owner", "Bob")}},
			"of type created_time, which cannot be written":           {Fields: []task.Field{field("Created", "2026-11-30")}},
			"is no field: a new task is OPEN":                         {Fields: []task.Field{field("status", "OPEN")}},
			"claims are written there":                                {Fields: []task.Field{field("claimed_by", "Oracle")}},
			`"Area" is given twice`:                                   {Fields: []task.Field{field("Area", "api"), field("area", "web")}},
			`no priority "whenever": there is "critical"`:             {Priority: "whenever"},
			"the body is too long":                                    {Body: strings.Repeat("long ", 90_000)},
			"the title is too long":                                   {Title: strings.Repeat("long ", 500)},
		} {
			d.Title = cmp.Or(d.Title, "refused")
			_, err := tasks.Plan(w.Context(), d, l)
			if _, wrong := errors.AsType[*task.DraftError](err); !wrong || !strings.Contains(err.Error(), says) {
				w.Errorf("%+.100v: %v, want it refused and %q", d, err, says)
			}
		}
	})
}

// A task that was made is found by its mark, and by its title if somebody took the mark off; one of
// another request, of a person, or from before is not it.
func TestFindWhatWasMade(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		w.page(props{"Name": title("work")}) // by a person
		found := func(want ...task.ID) {
			w.Helper()
			near, err := tasks.Find(w.Context(), creation.Sought{ID: "01JYSAFZ0D", Title: "work", Since: time.Now()})
			var got []task.ID
			for _, r := range near {
				got = append(got, r.Task.ID)
			}
			if err != nil || !slices.Equal(got, want) {
				w.Errorf("found %q, %v; want %q", got, err, want)
			}
		}
		make := func(id string) task.ID {
			plan, err := tasks.Plan(w.Context(), task.Draft{Title: "work"}, lookup{})
			if err != nil {
				w.Fatal(err)
			}
			made, err := plan.Create(w.Context(), id)
			if err != nil {
				w.Fatal(err)
			}
			return made.Task.ID
		}
		make("01JYSAFZ0X")
		time.Sleep(time.Hour)
		make("01JYSAFZ0E")
		found()
		ours := make("01JYSAFZ0D")
		found(ours)
		for _, token := range []string{"", "01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K"} {
			if err := w.emulator.EditPage(string(ours), props{"claim_token": richText(token), "claimed_by": richText("Ghost")}); err != nil {
				w.Fatal(err)
			}
			found(ours)
		}
	})
}
