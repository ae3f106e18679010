package notion_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/notion/sdktypes"
	"dibs/internal/outbox/creation"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"gopkg.in/dnaeon/go-vcr.v4/pkg/cassette"
)

// scene is what is on a cassette.
type scene struct {
	name     string
	emulated bool // Notion does not do this on demand
	set      func(s *stage)
	play     func(s *stage)
}

// The moment that the cassettes' claims begin.
var taped = time.Date(2026, 6, 27, 17, 57, 39, 85e6, time.UTC)

// opened opens the tasks database.
func (s *stage) opened() *notion.Tasks {
	s.Helper()
	tasks := need(s.client.Tasks(s.Context(), s.tasks, notion.TaskSchema{}))(s)
	return tasks
}

func TestFixtures(t *testing.T) {
	for _, sc := range slices.Concat(scenes, setupScenes, contentScenes, createScenes) {
		t.Run(sc.name, func(t *testing.T) {
			if sc.set == nil {
				sc.set = func(*stage) {}
			}
			onStage(t, sc.name, sc.emulated, sc.set, sc.play)
		})
	}
}

// Each cassette says what it was recorded against, and no secret; none lies about
// that no test plays.
func TestFixturesAreInOrder(t *testing.T) {
	files := need(filepath.Glob(filepath.Join(fixtures, "*.yaml")))(t)
	var names, want []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".yaml"))
		data := need(os.ReadFile(file))(t)
		if !bytes.HasPrefix(data, []byte(againstEmulator)) && !bytes.HasPrefix(data, []byte(againstWorkspace)) {
			t.Errorf("%s does not say what it was recorded against", file)
		}
		if found := secretLike.FindString(strings.ReplaceAll(string(data), "ntn_redacted", "")); found != "" {
			t.Errorf("%s holds %q", file, found)
		}
	}
	for _, sc := range slices.Concat(scenes, setupScenes, contentScenes, createScenes) {
		want = append(want, sc.name)
	}
	slices.Sort(want)
	same(t, want, names, "cassettes that are played, and that are there")
	for _, is := range []string{"ntn_0123456789abcdef", "Authorization: [x]", "Set-Cookie: y", "secret_0123456789"} {
		if !secretLike.MatchString(is) {
			t.Errorf("%q would not be found", is)
		}
	}
}

// secretLike matches what could be a token of Notion's, or any other secret that goes with a request.
var secretLike = regexp.MustCompile(`(?i)\b(ntn|secret)_[a-z0-9]{8,}|authorization|bearer |cookie`)

// prepared is a task that somebody has prepared to be claimed.
func prepared(name string) props {
	return props{"Name": title(name), "status": status("OPEN"), "priority": choice("high")}
}

var scenes = []scene{
	{name: "me", play: func(s *stage) {
		if me, err := s.client.Me(s.Context()); err != nil || me.ID == "" || me.Name == "" {
			s.Errorf("%+v, %v", me, err)
		}
	}},
	{name: "databases", play: func(s *stage) {
		if warnings := s.opened().Warnings(); len(warnings) > 0 {
			s.Errorf("warnings: %q", warnings)
		}
		for _, id := range []string{s.taskLog, s.meshLog} {
			need(s.client.Log(s.Context(), id))(s)
		}
	}},
	{name: "claim", set: func(s *stage) { s.task(prepared("Claim me")) }, play: func(s *stage) {
		id := s.only()
		tasks := s.opened()
		ctx := need(tasks.Permit(s.Context(), 2))(s)
		read := need(tasks.Get(ctx, id))(s)
		if read.Task.Title != "Claim me" || read.Task.Status != task.Open || read.Task.Priority != task.High || read.Task.ClaimedBy != "" {
			s.Errorf("read %+v", read.Task)
		}
		written := need(tasks.Write(ctx, id, claimed("Sandman", taped)))(s)
		verified := need(tasks.Get(s.Context(), id))(s)
		same(s, written.Task, verified.Task, "")
		got := verified.Task
		if got.Status != task.InProgress || got.ClaimedBy != "Sandman" || !got.ClaimedAt.Equal(taped.Truncate(time.Minute)) ||
			got.Token != "01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K" || got.Timeout != 45*time.Minute {
			s.Errorf("verified %+v", got)
		}
		if read.At.IsZero() || written.At.Before(read.At) || verified.At.Before(written.At) {
			s.Errorf("read at %s, written at %s, verified at %s", read.At, written.At, verified.At)
		}
	}},
	{name: "release", set: func(s *stage) {
		held := prepared("Release me")
		held["status"], held["claimed_by"], held["claimed_at"] = status("IN_PROGRESS"), richText("Sandman"), day("2026-06-27T17:57:00Z")
		held["claim_token"], held["claim_timeout_minutes"] = richText("01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K"), number(45)
		s.task(held)
	}, play: func(s *stage) {
		got := need(s.opened().Write(s.Context(), s.only(), claim.Write{
			Status: new(task.Open), ClaimedBy: new(""), ClaimedAt: new(time.Time{}), Token: new(""), Timeout: new(time.Duration(0)),
		}))(s)
		if t := got.Task; t.Status != task.Open || t.ClaimedBy != "" || !t.ClaimedAt.IsZero() || t.Token != "" || t.Timeout != 0 {
			s.Errorf("released: %+v", t)
		}
	}},
	{name: "dependencies", set: func(s *stage) {
		var all []task.ID
		for i := range 30 {
			all = append(all, s.task(props{"Name": title(fmt.Sprint("Part ", i))}))
		}
		s.task(props{"Name": title("Whole"), "depends_on": relates(all...)})
	}, play: func(s *stage) {
		got, err := s.opened().Get(s.Context(), s.id(31))
		if err != nil || len(got.Task.DependsOn) != 30 {
			s.Errorf("%d dependencies, %v", len(got.Task.DependsOn), err)
		}
	}},
	{name: "trashed", set: func(s *stage) { s.trash(s.task(prepared("Gone"))) }, play: func(s *stage) {
		tasks := s.opened()
		if got, err := tasks.Get(s.Context(), s.only()); err != nil || !got.Task.Trashed {
			s.Errorf("%+v, %v", got, err)
		}
		_, err := tasks.Write(s.Context(), s.only(), claimed("Sandman", taped))
		failed(s, err, claim.Trashed, claim.LandedNo, "400 validation_error")
		if got, err := tasks.Get(s.Context(), s.only()); err != nil || !got.Task.Trashed {
			s.Errorf("after a write: %+v, %v", got, err)
		}
	}},
	{name: "query_paged", set: func(s *stage) {
		for i := range 101 {
			s.task(props{"Name": title(fmt.Sprint("Task ", i))})
		}
	}, play: func(s *stage) {
		rows, at, err := s.opened().Query(s.Context(), notion.Query{})
		if must(s, err); len(rows) < 101 || at.IsZero() {
			s.Errorf("%d rows as of %s", len(rows), at)
		}
	}},
	{name: "query_filtered", set: func(s *stage) {
		for _, name := range task.Statuses {
			s.task(props{"Name": title(string(name)), "status": status(string(name))})
		}
	}, play: func(s *stage) {
		since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		rows, _, err := s.opened().Query(s.Context(), notion.Query{UnfinishedOnly: true, EditedSince: since})
		must(s, err)
		for i := range task.Statuses {
			found := slices.ContainsFunc(rows, func(row task.Task) bool { return row.ID == s.id(i+1) })
			if want := !task.Statuses[i].Finished(); found != want {
				s.Errorf("the query shows a task that is %s: %t", task.Statuses[i], found)
			}
		}
	}},
	{name: "log", play: func(s *stage) {
		for _, db := range []struct {
			kind claim.Log
			id   string
		}{{claim.MeshLog, s.meshLog}, {claim.TaskLog, s.taskLog}} {
			log, entry := need(s.client.Log(s.Context(), db.id))(s), wording.NewEntry(finished, db.kind)
			before := need(log.Find(s.Context(), entry))(s)
			must(s, log.Create(s.Context(), entry))
			if after := need(log.Find(s.Context(), entry))(s); before || !after {
				s.Errorf("%s: found before it is made: %t, and after: %t", db.kind, before, after)
			}
		}
	}},
	{name: "log_without_ids", emulated: true, set: func(s *stage) {
		if s.emulator != nil {
			must(s, s.emulator.EditSchema(s.meshLog, props{"entry_id": nil}))
		}
	}, play: func(s *stage) {
		log := need(s.client.Log(s.Context(), s.meshLog))(s)
		must(s, log.Create(s.Context(), wording.NewEntry(finished, claim.MeshLog)))
		if !need(log.Find(s.Context(), wording.NewEntry(finished, claim.MeshLog)))(s) {
			s.Error("the entry is not found")
		}
	}},
	{name: "error_401", set: func(s *stage) { s.token = "ntn_wrong" }, play: func(s *stage) {
		_, err := s.client.Tasks(s.Context(), s.tasks, notion.TaskSchema{})
		failed(s, err, claim.Refused, claim.LandedNo, "401 unauthorized")
	}},
	{name: "error_404", play: func(s *stage) {
		_, err := s.opened().Get(s.Context(), "11111111-2222-4333-8444-555555555555")
		failed(s, err, claim.NotFound, claim.LandedNo, "404 object_not_found")
	}},
	{name: "error_400", emulated: true, set: func(s *stage) { s.task(prepared("Change me")) }, play: func(s *stage) {
		tasks := s.opened()
		if s.emulator != nil {
			must(s, s.emulator.EditSchema(s.tasks, props{"claim_token": nil}))
		}
		_, err := tasks.Write(s.Context(), s.only(), claimed("Sandman", taped))
		failed(s, err, claim.Refused, claim.LandedNo, "400 validation_error")
	}},
	wrong("error_409", emulator.Conflict409, claim.LandedUnknown, "409 conflict_error"),
	wrong("error_429", emulator.RateLimited429, claim.LandedNo, "429 rate_limited"),
	wrong("error_502", emulator.HTML502, claim.LandedUnknown, "502: Bad Gateway, a page of HTML from the edge"),
	wrong("error_503_saved", emulator.SavedBut503, claim.LandedYes, "503 service_unavailable"),
	wrong("error_529", emulator.Overload529, claim.LandedNo, "529 service_overload"),
	{name: "data_source", emulated: true, set: func(s *stage) {
		s.task(prepared("Claim me"))
		s.second()
	}, play: func(s *stage) {
		s.client.Choose(task.ID(s.tasks), key, "Tasks")
		tasks := s.opened()
		rows, _, err := tasks.Query(s.Context(), notion.Query{UnfinishedOnly: true})
		if err != nil || len(rows) != 1 || rows[0].ID != s.only() {
			s.Errorf("rows %+v, %v", rows, err)
		}
		need(tasks.Write(s.Context(), s.only(), claimed("Sandman", taped)))(s)
		same(s, "Sandman", need(tasks.Get(s.Context(), s.only()))(s).Task.ClaimedBy, "claimed by")
	}},
	{name: "data_sources", emulated: true, set: (*stage).second, play: func(s *stage) {
		s.client.Choose(task.ID(s.tasks), key, "")
		_, err := s.client.Tasks(s.Context(), s.tasks, notion.TaskSchema{})
		failed(s, err, claim.Refused, claim.LandedNo, "and \"Ideas\" (")
	}},
	{name: "read_after_failures", emulated: true, set: func(s *stage) {
		s.task(prepared("Read me"))
		for _, kind := range []emulator.FaultKind{emulator.RateLimited429, emulator.HTML502, emulator.Error503} {
			s.fault(emulator.Fault{Method: http.MethodGet, Path: "/v1/pages", Times: 1, Kind: kind, RetryAfter: time.Second})
		}
	}, play: func(s *stage) {
		if got, err := s.opened().Get(s.Context(), s.only()); err != nil || got.Task.Title != "Read me" {
			s.Errorf("%+v, %v", got, err)
		}
	}},
}

// finished is an event that belongs into both logs.
var finished = claim.Fact{
	ID: entryID, At: taped, Kind: claim.KindFailed, Task: "00000000-0000-4000-8000-000000000001", Title: "Fix the login",
	URL: "https://www.notion.so/Fix-the-login-00000000000040008000000000000001", Agent: "Sandman", Claim: "01JDH4YJ2R6S1F2Q8Y1V4Q0AAA",
	Started: taped.Add(-time.Hour), Finished: taped, Summary: "The tests do not pass.",
}

// second gives the tasks database another data source.
func (s *stage) second() {
	if s.emulator != nil {
		need(s.emulator.AddDataSource(s.tasks, "Ideas", props{"Idea": of("title")}))(s)
	}
}

// wrong is a scene in which a claim's write goes wrong.
func wrong(name string, kind emulator.FaultKind, landed claim.Landed, says string) scene {
	return scene{
		name: name, emulated: true,
		set: func(s *stage) {
			s.task(prepared("Claim me"))
			s.fault(emulator.Fault{Method: http.MethodPatch, Path: "/v1/pages", Kind: kind, RetryAfter: time.Minute})
		},
		play: func(s *stage) {
			_, err := s.opened().Write(s.Context(), s.only(), claimed("Sandman", taped))
			failed(s, err, claim.Unavailable, landed, says)
		},
	}
}

// setupScenes are what only dibs init and dibs doctor ask of Notion.
var setupScenes = []scene{
	{name: "init", set: func(s *stage) { s.task(props{"Name": title("A page for databases"), "status": status("CANCELLED")}) }, play: func(s *stage) {
		ctx, page := s.Context(), s.only()
		if below, err := s.client.Below(ctx, page); err != nil || len(below) != 0 {
			s.Errorf("Below = %v, %v; want nothing", below, err)
		}
		made := need(s.client.CreateDatabase(ctx, page, "Tasks",
			notion.NewColumn{Name: "Name", Type: "title"}, notion.NewColumn{Name: "level", Type: "select", Options: []string{"high", "low"}},
			notion.NewColumn{Name: "claimed_by", Type: "rich_text"}, notion.NewColumn{Name: "claimed_at", Type: "date"}))(s)
		same(s, map[task.ID]string{made.ID: "Tasks"}, need(s.client.Below(ctx, page))(s), "below")
		added := need(s.client.AddColumns(ctx, made.ID, notion.NewColumn{Name: "claimed_by", Type: "rich_text"},
			notion.NewColumn{Name: "claim_timeout_minutes", Type: "number"}, notion.NewColumn{Name: "depends_on", Type: "relation"}))(s)
		for name, kind := range map[string]string{
			"Name": "title", "level": "select", "claimed_by": "rich_text", "claimed_at": "date", "claim_timeout_minutes": "number", "depends_on": "relation",
		} {
			same(s, kind, added.Columns[name].Type, "%s", name)
		}
		grown := need(s.client.Extend(ctx, made.ID, notion.NewColumn{Name: "level", Options: []string{"low", "critical"}}))(s)
		same(s, []string{"critical", "high", "low"}, slices.Sorted(slices.Values(grown.Columns["level"].Options)), "options")
	}},
	{name: "probe", play: func(s *stage) {
		measured, err := s.opened().Probe(s.Context(), "dibs probe, can be deleted", 2, time.Second)
		if err != nil || len(measured.Rounds) != 2 {
			s.Errorf("Probe = %+v, %v; want two rounds", measured, err)
		}
	}},
}

// createScenes are about tasks that are made.
var createScenes = []scene{{
	name: "create",
	play: func(s *stage) {
		tasks := s.opened()
		for _, draft := range []task.Draft{
			{Title: "Plain", Priority: "high", For: "Oracle"},
			{Title: "With content", Body: "# Plan\n- one\n", Fields: []task.Field{{Name: "claim_timeout_minutes", Values: []string{"45"}}}},
		} {
			plan := need(tasks.Plan(s.Context(), draft, nobody{}))(s)
			made, err := plan.Create(s.Context(), "01JYSAFZ0D"+draft.Title[:1])
			if err != nil || made.Task.Title != draft.Title || made.Task.Status != task.Open || made.Task.ClaimedBy != draft.For || made.At.IsZero() {
				s.Errorf("%s: %+v, %v", draft.Title, made, err)
			}
			found, err := tasks.Find(s.Context(), creation.Sought{ID: "01JYSAFZ0D" + draft.Title[:1], Title: draft.Title, Since: taped})
			if err != nil || len(found) != 1 || found[0].Task.ID != made.Task.ID {
				s.Errorf("%s is found as %+v, %v", draft.Title, found, err)
			}
		}
		// Another one's is none of ours.
		if found, err := tasks.Find(s.Context(), creation.Sought{ID: "01JYSAFZ0DX", Title: "Plain", Since: taped}); err != nil || len(found) > 0 {
			s.Errorf("another id finds %+v, %v", found, err)
		}
	},
}}

// nobody finds nothing that a draft names.
type nobody struct{}

func (nobody) Person(context.Context, string) (string, error) { return "", errors.New("nobody") }

func (nobody) Named(context.Context, string) (task.ID, error) { return "", errors.New("nothing") }

// contentScenes are about what people wrote on a page.
var contentScenes = []scene{{
	name: "content",
	set: func(s *stage) {
		id := s.task(prepared("Read me"))
		if s.transport == nil {
			return
		}
		s.call(http.MethodPatch, "/v1/blocks/"+string(id)+"/children", props{"children": []any{
			props{"heading_2": props{"rich_text": spans("Done when")}},
			props{"to_do": props{"rich_text": spans("it has a test")}},
			props{"bookmark": props{"url": "https://example.com"}},
		}}, nil)
		s.call(http.MethodPost, "/v1/comments", props{"parent": props{"page_id": id}, "rich_text": spans("Which of the two is meant?")}, nil)
	},
	play: func(s *stage) {
		md, err := s.client.Markdown(s.Context(), s.only())
		if err != nil || !strings.HasPrefix(md.Text, "## Done when\n- [ ] it has a test\n<unknown ") {
			s.Errorf("%+v, %v", md, err)
		}
		if len(md.Missing) != 1 || !strings.HasPrefix(md.Missing[0], "bookmark, https://") {
			s.Errorf("missing: %q", md.Missing)
		}
		comments, err := s.client.Comments(s.Context(), s.only())
		if err != nil || len(comments) != 1 || comments[0].Text != "Which of the two is meant?" || comments[0].By == "" || comments[0].At.IsZero() {
			s.Errorf("%+v, %v", comments, err)
		}
	},
}}

// What is on the cassettes is of the types of Notion's SDK.
func TestTypesOnTape(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	tapes, err := filepath.Glob(filepath.Join(fixtures, "*.yaml"))
	if err != nil || len(tapes) < 10 {
		t.Fatalf("%d cassettes, %v", len(tapes), err)
	}
	var taped []sdktypes.Exchange
	for _, tape := range tapes {
		c := need(cassette.Load(strings.TrimSuffix(tape, ".yaml")))(t)
		for _, i := range c.Interactions {
			taped = append(taped, sdktypes.Exchange{
				Method: i.Request.Method, URL: i.Request.URL, Version: i.Request.Headers.Get("Notion-Version"), Body: i.Request.Body,
				Status: i.Response.Code, Type: i.Response.Headers.Get("Content-Type"), Answer: i.Response.Body,
			})
		}
	}
	sdktypes.Check(t, taped)
}
