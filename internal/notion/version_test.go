package notion_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"dibs/internal/claim"
	"dibs/internal/emulator"
	"dibs/internal/notion"
	"dibs/internal/task"
	"dibs/internal/worklog"

	"github.com/google/go-cmp/cmp"
)

// everyCall makes each request that there is, as one would at work.
func (w *world) everyCall() {
	w.Helper()
	ctx := w.Context()
	if me, err := w.client.Me(ctx); err != nil || me.Name != "dibs" {
		w.Fatalf("%+v, %v", me, err)
	}
	var parts []task.ID
	for i := range 30 {
		parts = append(parts, w.page(props{"Name": title(fmt.Sprint("part ", i)), "status": status("COMPLETED")}))
	}
	id := w.page(props{"Name": title("whole"), "depends_on": relates(parts...)})
	tasks := w.tasks(notion.TaskSchema{})
	if warnings := tasks.Warnings(); len(warnings) > 0 {
		w.Errorf("warnings: %q", warnings)
	}
	rows, _, err := tasks.Query(ctx, notion.Query{UnfinishedOnly: true})
	if diff := cmp.Diff([]string{"whole"}, titles(rows)); err != nil || diff != "" {
		w.Fatalf("%v, rows (-want +got):\n%s", err, diff)
	}
	if got := w.get(tasks, id); len(got.DependsOn) != 30 {
		w.Errorf("%d dependencies", len(got.DependsOn))
	}
	permitted, err := tasks.Permit(ctx, 2)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := tasks.Get(permitted, id); err != nil {
		w.Fatal(err)
	}
	if _, err := tasks.Write(permitted, id, claimed("Sandman", dawn)); err != nil {
		w.Fatal(err)
	}
	if got := w.get(tasks, id); got.ClaimedBy != "Sandman" || got.Status != task.InProgress {
		w.Errorf("claimed: %+v", got)
	}
	if _, err := tasks.Probe(ctx, "probe", 1); err != nil {
		w.Error(err)
	}
	for _, p := range w.emulator.Pages(w.databases.Tasks) {
		if strings.HasPrefix(p.Title(), "probe") && !p.Trashed {
			w.Error("the scratch row is left")
		}
	}
	if err := w.emulator.TrashPage(string(id)); err != nil {
		w.Fatal(err)
	}
	if got := w.get(tasks, id); !got.Trashed {
		w.Error("a page in the trash does not look it")
	}
	var failed *claim.StoreError
	if _, err := tasks.Write(ctx, id, claimed("Oracle", dawn)); !errors.As(err, &failed) || failed.Kind != claim.Trashed {
		w.Errorf("a write to the trash: %v", err)
	}
	for _, database := range []string{w.databases.MeshLog, w.databases.TaskLog} {
		log, err := w.client.Log(ctx, database)
		if err != nil {
			w.Fatal(err)
		}
		entry := worklog.Entry{ID: entryID, Title: "entry"}
		if err := log.Create(ctx, entry); err != nil {
			w.Error(err)
		}
		if found, err := log.Find(ctx, entry); err != nil || !found {
			w.Errorf("found = %v, %v", found, err)
		}
		if _, err := log.OtherGrants(ctx, dawn, claim.Settings{}); err != nil {
			w.Error(err)
		}
	}
	w.everySetup()
}

// everySetup makes the requests of an init.
func (w *world) everySetup() {
	w.Helper()
	ctx := w.Context()
	home := w.page(props{"Name": title("home"), "status": status("CANCELLED")})
	made, err := w.client.CreateDatabase(ctx, home, "Made", notion.NewColumn{Name: "Name", Type: "title"}, notion.NewColumn{Name: "note", Type: "rich_text"})
	if err != nil || made.Columns["note"].Type != "rich_text" || made.Title != "Made" || made.Source != "" {
		w.Fatalf("%+v, %v", made, err)
	}
	below, err := w.client.Below(ctx, home)
	if diff := cmp.Diff(map[task.ID]string{made.ID: "Made"}, below); err != nil || diff != "" {
		w.Errorf("%v, below (-want +got):\n%s", err, diff)
	}
	grown, err := w.client.AddColumns(ctx, made.ID, notion.NewColumn{Name: "after", Type: "relation"}, notion.NewColumn{Name: "level", Type: "select", Options: []string{"a"}})
	if err != nil || grown.Columns["after"].Database != string(made.ID) {
		w.Errorf("%+v, %v", grown, err)
	}
	if grown, err = w.client.Extend(ctx, made.ID, notion.NewColumn{Name: "level", Options: []string{"b"}}); err != nil || !slices.Equal(grown.Columns["level"].Options, []string{"a", "b"}) {
		w.Errorf("%+v, %v", grown, err)
	}
}

// TestVersions works with servers that know some versions only.
func TestVersions(t *testing.T) {
	for _, tc := range []struct {
		spoken  []string
		refused int // requests that are refused for their version
	}{
		{[]string{"2022-06-28"}, 0}, {[]string{"2025-09-03"}, 1}, {[]string{"2026-03-11"}, 2}, {[]string{"2025-09-03", "2026-03-11"}, 1}, {[]string{"2022-06-28", "2026-03-11"}, 0},
	} {
		t.Run(strings.Join(tc.spoken, ","), func(t *testing.T) {
			inWorld(t, func(w *world) {
				if err := w.emulator.SetVersions(tc.spoken...); err != nil {
					w.Fatal(err)
				}
				w.everyCall()
				refused := 0
				for _, r := range w.emulator.Requests() {
					if r.Status == 400 && !slices.Contains(tc.spoken, r.Version) {
						refused++
					}
					var body struct {
						Parent map[string]any `json:"parent"`
					}
					if r.Method != "POST" || r.Path != "/v1/pages" || json.Unmarshal(r.Body, &body) != nil {
						continue
					}
					if later := r.Version != "2022-06-28"; later != (body.Parent["data_source_id"] != nil) || later == (body.Parent["database_id"] != nil) {
						w.Errorf("in %s a page was made in %v", r.Version, body.Parent)
					}
				}
				if refused != tc.refused {
					w.Errorf("%d requests were refused for their version, want %d", refused, tc.refused)
				}
			})
		})
	}
}

// TestSunset takes away one version after the other, at any moment.
func TestSunset(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		log, err := w.client.Log(w.Context(), w.databases.MeshLog)
		if err != nil {
			w.Fatal(err)
		}
		id := w.page(props{"Name": title("task")})
		for i, versions := range [][]string{{"2022-06-28"}, {"2025-09-03", "2026-03-11"}, {"2026-03-11"}} {
			if err := w.emulator.SetVersions(versions...); err != nil {
				w.Fatal(err)
			}
			agent := fmt.Sprint("Agent", i)
			if _, err := tasks.Write(w.Context(), id, claimed(agent, dawn)); err != nil {
				w.Fatal(err)
			}
			if got := w.get(tasks, id); got.ClaimedBy != agent {
				w.Errorf("%s: claimed by %q", versions, got.ClaimedBy)
			}
			if err := log.Create(w.Context(), worklog.Entry{ID: fmt.Sprint("01JDH4YJ2R6S1F2Q8Y1V4Q0Z7", i), Title: "entry"}); err != nil {
				w.Error(err)
			}
			if rows, _, err := tasks.Query(w.Context(), notion.Query{}); err != nil || len(rows) != 1 {
				w.Errorf("%s: %d rows, %v", versions, len(rows), err)
			}
		}
		if n := len(w.emulator.Pages(w.databases.MeshLog)); n != 3 {
			w.Errorf("%d entries, want 3", n)
		}
	})
}

// Some servers take any version, and answer in the one that they know.
func TestServerThatAnswersInItsOwnVersion(t *testing.T) {
	for _, own := range []string{"2025-09-03", "2026-03-11"} {
		t.Run(own, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.through(func(req *http.Request) { req.Header.Set("Notion-Version", own) })
				if own < "2026-03-11" { // nothing tells that archived is not taken any more
					w.everyCall()
					return
				}
				tasks := w.tasks(notion.TaskSchema{})
				id := w.page(props{"Name": title("task")})
				if _, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn)); err != nil {
					w.Error(err)
				}
				if rows, _, err := tasks.Query(w.Context(), notion.Query{}); err != nil || len(rows) != 1 {
					w.Errorf("%d rows, %v", len(rows), err)
				}
			})
		})
	}
}

func TestServerOfNoVersion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.through(func(req *http.Request) { req.Header.Set("Notion-Version", "2019-01-01") })
		w.emulator.ResetRequests()
		_, err := w.client.Me(w.Context())
		failed, isFailed := errors.AsType[*claim.StoreError](err)
		if !isFailed || failed.Kind != claim.Refused || failed.Landed != claim.LandedNo || !strings.Contains(err.Error(), "use a newer dibs, or check notion.base_url") {
			w.Errorf("err = %v", err)
		}
		if n := len(w.emulator.Requests()); n != 3 {
			w.Errorf("%d requests, want one in each version", n)
		}
	})
}

// While Notion is down, it is looked for in the version that it understands.
func TestLooksInTheVersionThatIsSpoken(t *testing.T) {
	inWorld(t, func(w *world) {
		if err := w.emulator.SetVersions("2026-03-11"); err != nil {
			w.Fatal(err)
		}
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{"Name": title("task")})
		remove := w.emulator.Inject(emulator.Fault{Kind: emulator.Error503})
		for w.client.Down() == nil {
			_, _ = tasks.Get(w.Context(), id)
			_, _, _ = tasks.Query(w.Context(), notion.Query{})
		}
		remove()
		w.emulator.ResetRequests()
		back := w.client.Back()
		w.client.Await()
		<-back
		for _, r := range w.emulator.Requests() {
			if r.Version != "2026-03-11" || r.Status != 200 {
				w.Errorf("looked with %s %s in %s: %d", r.Method, r.Path, r.Version, r.Status)
			}
		}
	})
}
