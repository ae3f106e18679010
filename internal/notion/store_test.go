package notion_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

func TestGet(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		before := w.page(props{"Name": title("Before")})
		id := w.page(props{
			"Name":   props{"title": []any{props{"text": props{"content": "Fix the "}}, props{"text": props{"content": "login"}}}},
			"status": status("IN_PROGRESS"), "claimed_by": richText("  Sandman "), "claimed_at": day("2000-01-01T01:02:03+01:00"),
			"claim_token": richText("01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K"), "claim_timeout_minutes": number(90),
			"priority": choice("High"), "depends_on": relates(before),
		})
		time.Sleep(90*time.Second + 700*time.Millisecond)
		got, err := tasks.Get(w.Context(), id)
		if err != nil {
			w.Fatal(err)
		}
		want := claim.Reading{
			At: dawn.Add(90 * time.Second), // by the Date header
			Task: task.Task{
				ID: id, Key: "TASK-2", Title: "Fix the login", URL: got.Task.URL, Status: task.InProgress, Priority: task.High, PriorityName: "High",
				ClaimedBy: "Sandman", ClaimedAt: dawn.Add(2 * time.Minute), Token: "01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K",
				Timeout: 90 * time.Minute, DependsOn: []task.ID{before}, Created: dawn, Edited: dawn, EditedBy: got.Task.EditedBy,
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("-want +got\n%s", diff)
		}
		if !strings.HasPrefix(got.Task.URL, "https://") {
			w.Errorf("URL = %q", got.Task.URL)
		}
	})
}

func TestValuesThatSayNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		empty := w.get(tasks, w.page(props{"Name": props{"title": []any{}}}))
		for name, p := range map[string]props{
			"blank name":         {"claimed_by": richText(" \t")},
			"no timeout":         {"claim_timeout_minutes": number(0)},
			"negative timeout":   {"claim_timeout_minutes": number(-5)},
			"absurd timeout":     {"claim_timeout_minutes": number(1e12)},
			"no such priority":   {"priority": choice("urgent!")},
			"priority of no use": {"priority": props{"select": nil}},
		} {
			got := w.get(tasks, w.page(p))
			got.ID, got.Key, got.URL = empty.ID, empty.Key, empty.URL
			if wrong := name == "no such priority"; (got.PriorityName == "urgent!") != wrong { // people are shown what they wrote
				w.Errorf("%s: the priority is called %q", name, got.PriorityName)
			}
			got.PriorityName = ""
			if diff := cmp.Diff(empty, got); diff != "" {
				w.Errorf("%s: -want +got\n%s", name, diff)
			}
		}
	})
}

// A day without a time is not over before it is over everywhere.
func TestClaimedOnADay(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		got := w.get(tasks, w.page(props{"claimed_by": richText("Oracle"), "claimed_at": day("2000-01-01")}))
		if want := time.Date(2000, 1, 2, 11, 59, 0, 0, time.UTC); !got.ClaimedAt.Equal(want) {
			w.Errorf("claimed at %s, want %s", got.ClaimedAt, want)
		}
	})
}

func TestWrite(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{"Name": title("Fix it"), "priority": choice("low"), "Notes": richText("keep")})
		time.Sleep(100 * time.Second)
		before, err := tasks.Get(w.Context(), id)
		if err != nil {
			w.Fatal(err)
		}
		me, err := w.client.Me(w.Context())
		if err != nil || before.Task.EditedBy == "" || before.Task.EditedBy == me.ID {
			w.Errorf("the page is made by %q, and this is %q: %v", before.Task.EditedBy, me.ID, err)
		}
		w.emulator.ResetRequests()
		got, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn.Add(100*time.Second+123*time.Millisecond)))
		if err != nil {
			w.Fatal(err)
		}
		want := claim.Reading{At: dawn.Add(100 * time.Second), Task: task.Task{
			ID: id, Key: "TASK-1", Title: "Fix it", URL: got.Task.URL, Status: task.InProgress, Priority: task.Low, PriorityName: "low", ClaimedBy: "Sandman",
			ClaimedAt: dawn.Add(time.Minute), Token: "01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K", Timeout: 45 * time.Minute,
			Created: dawn, Edited: dawn.Add(time.Minute), EditedBy: me.ID,
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("-want +got\n%s", diff)
		}
		requests := w.emulator.Requests()
		sent := string(requests[len(requests)-1].Body)
		if !strings.Contains(sent, `"2000-01-01T00:01:40.123Z"`) || strings.Contains(sent, "archived") {
			w.Errorf("sent %s", sent)
		}

		// A write names what it changes, and nothing else changes.
		if _, err := tasks.Write(w.Context(), id, claim.Write{Status: new(task.Blocked)}); err != nil {
			w.Fatal(err)
		}
		page := w.look(id)
		if page.Select("status") != "BLOCKED" || page.Text("claimed_by") != "Sandman" || page.Text("Notes") != "keep" {
			w.Errorf("the page has status %q, claimed_by %q, Notes %q", page.Select("status"), page.Text("claimed_by"), page.Text("Notes"))
		}

		// What is empty clears.
		clear := claim.Write{Status: new(task.Open), ClaimedBy: new(""), ClaimedAt: new(time.Time{}), Token: new(""), Timeout: new(time.Duration(0))}
		cleared, err := tasks.Write(w.Context(), id, clear)
		if err != nil {
			w.Fatal(err)
		}
		if got := cleared.Task; got.ClaimedBy != "" || !got.ClaimedAt.IsZero() || got.Token != "" || got.Timeout != 0 || got.Status != task.Open {
			w.Errorf("after clearing: %+v", got)
		}
		page = w.look(id)
		if page.Value("claimed_at") != nil || page.Value("claim_timeout_minutes") != nil {
			w.Errorf("the page has claimed_at %v, claim_timeout_minutes %v", page.Value("claimed_at"), page.Value("claim_timeout_minutes"))
		}
	})
}

func TestTimeoutsAreKeptInWholeMinutes(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{})
		for d, want := range map[time.Duration]float64{time.Second: 1, time.Minute: 1, 61 * time.Second: 2, 90 * time.Minute: 90} {
			if _, err := tasks.Write(w.Context(), id, claim.Write{Timeout: &d}); err != nil {
				w.Fatal(err)
			}
			if got := w.look(id).Number("claim_timeout_minutes"); got != want {
				w.Errorf("%s is kept as %g minutes, want %g", d, got, want)
			}
		}
	})
}

func TestTrashedTaskStaysTrashed(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{"Name": title("Gone")})
		if err := w.emulator.TrashPage(string(id)); err != nil {
			w.Fatal(err)
		}
		if got := w.get(tasks, id); !got.Trashed {
			w.Error("a trashed task does not look it")
		}
		_, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn))
		refused, isRefused := errors.AsType[*claim.StoreError](err)
		if !isRefused || refused.Kind != claim.Trashed || refused.Landed != claim.LandedNo {
			w.Errorf("a write to it: %v, want a refusal", err)
		}
		if page := w.look(id); !page.Trashed || page.Text("claimed_by") != "" {
			w.Error("the write brought the task back")
		}

		archived := w.page(props{})
		if err := w.emulator.ArchivePage(string(archived), true); err != nil {
			w.Fatal(err)
		}
		if got := w.get(tasks, archived); !got.Trashed {
			w.Error("an archived task does not look it")
		}
	})
}

// strange are the properties that the library refuses to read.
var strange = props{
	"Where": of("place"), "Press": of("button"), "Checked": of("verification"),
	"Sum": props{"formula": props{"expression": "1"}}, "Odd": of("unsupported"),
}

func TestStrangePropertiesBreakNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		if err := w.emulator.EditSchema(w.databases.Tasks, strange); err != nil {
			w.Fatal(err)
		}
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{"Name": title("Odd"), "Where": props{"place": props{"lat": 1, "lon": 2}}})
		if got := w.get(tasks, id); got.Title != "Odd" {
			w.Errorf("get: %+v", got)
		}
		if _, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn)); err != nil {
			w.Errorf("write: %v", err)
		}
		rows, _, err := tasks.Query(w.Context(), notion.Query{})
		if err != nil || len(rows) != 1 || rows[0].ClaimedBy != "Sandman" {
			w.Errorf("query: %+v, %v", rows, err)
		}
		if err := w.emulator.EditSchema(w.databases.MeshLog, strange); err != nil {
			w.Fatal(err)
		}
		if _, err := w.client.Log(w.Context(), w.databases.MeshLog); err != nil {
			w.Errorf("log: %v", err)
		}
	})
}

func TestPagesThatAreNoTasks(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		other := w.pageIn(w.databases.MeshLog, props{"Name": title("An entry")})
		for name, tc := range map[string]struct {
			id   task.ID
			kind claim.StoreErrorKind
			says string
		}{
			"of another database": {other, claim.NotFound, "belongs to another database"},
			"unknown":             {"11111111-2222-3333-8444-555555555555", claim.NotFound, "share the database with the connection"},
		} {
			_, err := tasks.Get(w.Context(), tc.id)
			failed, isFailed := errors.AsType[*claim.StoreError](err)
			if !isFailed || failed.Kind != tc.kind || !strings.Contains(err.Error(), tc.says) {
				w.Errorf("%s: %v, want kind %d and %q", name, err, tc.kind, tc.says)
			}
		}

		// A page that lost the property must not look free.
		id := w.page(props{"claimed_by": richText("Sandman")})
		if err := w.emulator.EditSchema(w.databases.Tasks, props{"claimed_by": nil}); err != nil {
			w.Fatal(err)
		}
		_, err := tasks.Get(w.Context(), id)
		failed, isFailed := errors.AsType[*claim.StoreError](err)
		if !isFailed || failed.Kind != claim.Refused || !strings.Contains(err.Error(), `"claimed_by"`) {
			w.Errorf("without claimed_by: %v", err)
		}
	})
}

// A property that is renamed while the daemon runs stays the same property.
func TestPropertiesSurviveRenaming(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{"claimed_by": richText("Sandman")})
		if err := w.emulator.EditSchema(w.databases.Tasks, props{"claimed_by": props{"name": "Who"}, "status": props{"name": "State"}}); err != nil {
			w.Fatal(err)
		}
		if got := w.get(tasks, id); got.ClaimedBy != "Sandman" {
			w.Errorf("claimed by %q after renaming", got.ClaimedBy)
		}
		if _, err := tasks.Write(w.Context(), id, claimed("Oracle", dawn)); err != nil {
			w.Fatal(err)
		}
		if got := w.look(id).Text("Who"); got != "Oracle" {
			w.Errorf("the page has %q", got)
		}
		if rows, _, err := tasks.Query(w.Context(), notion.Query{UnfinishedOnly: true}); err != nil || len(rows) != 1 {
			w.Errorf("query: %v, %v", rows, err)
		}
	})
}

// drain uses up what may be sent at once.
func drain(w *world) {
	for start := time.Now(); time.Since(start) == 0; {
		if _, err := w.client.Me(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
}

func TestMoreRelatedTasksThanAnAnswerShows(t *testing.T) {
	inWorld(t, func(w *world) {
		// No task here can have enough of them for two answers of 100.
		w.through(func(req *http.Request) {
			if query := req.URL.Query(); query.Has("page_size") {
				query.Set("page_size", "40")
				req.URL.RawQuery = query.Encode()
			}
		})
		if err := w.emulator.EditSchema(w.databases.Tasks, map[string]any{"Sub-item": map[string]any{
			"relation": map[string]any{"database_id": w.databases.Tasks, "single_property": map[string]any{}},
		}}); err != nil {
			w.Fatal(err)
		}
		tasks := w.tasks(notion.TaskSchema{Properties: notion.Properties{SubItems: "Sub-item"}})
		var all []task.ID
		for i := range 90 {
			all = append(all, w.page(props{"Name": title(fmt.Sprint("Part ", i))}))
		}
		id := w.page(props{"Name": title("Whole"), "depends_on": relates(all...), "Sub-item": relates(all[10:]...)})
		related := func(t task.Task) [2][]task.ID { return [2][]task.ID{t.DependsOn, t.SubItems} }
		want := [2][]task.ID{all, all[10:]}
		ctx, err := tasks.Permit(w.Context(), 2)
		if err != nil {
			w.Fatal(err)
		}
		drain(w)
		got, err := tasks.Get(ctx, id)
		if err != nil {
			w.Fatal(err)
		}
		if diff := cmp.Diff(want, related(got.Task)); diff != "" {
			w.Errorf("get: -want +got\n%s", diff)
		}
		// The answer to a write shows 25; the rest is as read before, without a request.
		w.emulator.ResetRequests()
		read := time.Now()
		got, err = tasks.Write(ctx, id, claimed("Sandman", dawn))
		if err != nil {
			w.Fatal(err)
		}
		if waited := time.Since(read); waited != 0 {
			w.Errorf("the write waited %s: its permit went to another request", waited)
		}
		if diff := cmp.Diff(want, related(got.Task)); diff != "" {
			w.Errorf("write: -want +got\n%s", diff)
		}
		if n := len(w.emulator.Requests()); n != 1 {
			w.Errorf("the write made %d requests", n)
		}
		rows, _, err := tasks.Query(w.Context(), notion.Query{})
		if err != nil {
			w.Fatal(err)
		}
		for _, row := range rows {
			if row.ID == id {
				if diff := cmp.Diff(want, related(row)); diff != "" {
					w.Errorf("query: -want +got\n%s", diff)
				}
			}
		}
	})
}

// Every failed answer says what happened, and whether a write may have landed.
func TestFailedAnswers(t *testing.T) {
	for _, tc := range []struct {
		kind   emulator.FaultKind
		want   claim.StoreErrorKind
		landed claim.Landed
		says   string
		done   bool // the page has changed all the same
	}{
		{emulator.SavedBut503, claim.Unavailable, claim.LandedYes, "503 service_unavailable", true},
		{emulator.Error503, claim.Unavailable, claim.LandedUnknown, "503 service_unavailable", false},
		{emulator.Error500, claim.Unavailable, claim.LandedUnknown, "500 internal_server_error", false},
		{emulator.HTML502, claim.Unavailable, claim.LandedUnknown, "502: Bad Gateway, a page of HTML from the edge", false},
		{emulator.Error504, claim.Unavailable, claim.LandedUnknown, "504", false},
		{emulator.Conflict409, claim.Unavailable, claim.LandedUnknown, "409 conflict_error", false},
		{emulator.Conflict409Saved, claim.Unavailable, claim.LandedUnknown, "409 conflict_error", true},
		{emulator.DropRequest, claim.Unavailable, claim.LandedUnknown, "PATCH", false},
		{emulator.DropAnswer, claim.Unavailable, claim.LandedUnknown, "PATCH", true},
		{emulator.RateLimited429, claim.Unavailable, claim.LandedNo, "429 rate_limited", false},
		{emulator.Overload529, claim.Unavailable, claim.LandedNo, "529 service_overload", false},
		{emulator.Blocked429, claim.Refused, claim.LandedNo, "blocked this connection", false},
	} {
		t.Run(string(tc.kind), func(t *testing.T) {
			inWorld(t, func(w *world) {
				tasks := w.tasks(notion.TaskSchema{})
				id := w.page(props{})
				w.emulator.Inject(emulator.Fault{Method: http.MethodPatch, Kind: tc.kind, RetryAfter: 30 * time.Second})
				w.emulator.ResetRequests()
				_, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn))
				failed, isFailed := errors.AsType[*claim.StoreError](err)
				if !isFailed {
					w.Fatalf("err = %v, want a *claim.StoreError", err)
				}
				if failed.Kind != tc.want || failed.Landed != tc.landed || !strings.Contains(err.Error(), tc.says) {
					w.Errorf("kind %d, landed %s, %q; want kind %d, landed %s, %q", failed.Kind, failed.Landed, err, tc.want, tc.landed, tc.says)
				}
				if got := w.look(id).Text("claimed_by") != ""; got != tc.done {
					w.Errorf("the page has changed: %t, want %t", got, tc.done)
				}
				if n := len(w.emulator.Requests()); n != 1 {
					w.Errorf("a write was sent %d times", n)
				}
				if text := err.Error(); strings.Contains(text, w.emulator.Token()) || strings.Contains(text, "\n") {
					w.Errorf("the error says %q", text)
				}
			})
		})
	}
}

// A write that Notion answers with the old values is for the caller to notice.
func TestAnswerThatShowsOldValues(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{})
		w.emulator.Inject(emulator.Fault{Method: http.MethodPatch, Kind: emulator.NotApplied})
		got, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn))
		if err != nil || got.Task.ClaimedBy != "" {
			w.Errorf("claimed by %q, %v", got.Task.ClaimedBy, err)
		}
	})
}

func TestTimeLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{})
		w.emulator.Inject(emulator.Fault{Method: http.MethodPatch, Kind: emulator.DelayAnswer, Delay: time.Hour})
		start := time.Now()
		_, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn))
		failed, isFailed := errors.AsType[*claim.StoreError](err)
		if !isFailed || failed.Landed != claim.LandedUnknown || !strings.Contains(err.Error(), "no answer within 10s") {
			w.Errorf("err = %v", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			w.Errorf("took %s", took)
		}
	})
}

// What a caller asks for that cannot be is refused without a request.
func TestWritesThatCannotBe(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{})
		w.emulator.ResetRequests()
		for _, s := range []task.Status{"", task.Unknown} {
			_, err := tasks.Write(w.Context(), id, claim.Write{Status: &s})
			refused, isRefused := errors.AsType[*claim.StoreError](err)
			if !isRefused || refused.Kind != claim.Refused || refused.Landed != claim.LandedNo {
				w.Errorf("status %q: %v", s, err)
			}
		}
		if n := len(w.emulator.Requests()); n != 0 {
			w.Errorf("%d requests", n)
		}
	})
}

// A reading whose dependencies cannot all be read is none.
func TestDependenciesThatCannotBeRead(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		var all []task.ID
		for range 26 {
			all = append(all, w.page(props{}))
		}
		id := w.page(props{"depends_on": relates(all...)})
		w.emulator.Inject(emulator.Fault{Path: "/v1/pages/*/properties/*", Kind: emulator.Conflict409})
		_, err := tasks.Get(w.Context(), id)
		_, _, queryErr := tasks.Query(w.Context(), notion.Query{})
		for _, err := range []error{err, queryErr} {
			failed, isFailed := errors.AsType[*claim.StoreError](err)
			if !isFailed || failed.Kind != claim.Unavailable || !strings.Contains(err.Error(), "/properties/") {
				w.Errorf("err = %v", err)
			}
		}
	})
}

func TestDatabaseNoLongerShared(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks, log := w.tasks(notion.TaskSchema{}), w.log(w.databases.MeshLog)
		w.emulator.Unshare(w.databases.Tasks)
		w.emulator.Unshare(w.databases.MeshLog)
		_, _, err := tasks.Query(w.Context(), notion.Query{})
		_, findErr := log.Find(w.Context(), wording.Entry{ID: entryID})
		for _, err := range []error{err, findErr} {
			failed, isFailed := errors.AsType[*claim.StoreError](err)
			if !isFailed || failed.Kind != claim.NotFound {
				w.Errorf("err = %v, want that there is none", err)
			}
		}
	})
}

// raced lets three daemons, each with a connection of its own, claim one task at
// about the same time, and returns how many of them were granted it.
func raced(t *testing.T, seed uint64, policy claim.Policy) (granted int) {
	inWorld(t, func(w *world) {
		random := rand.New(rand.NewPCG(seed, 0))
		var mu sync.Mutex
		upTo := func(d time.Duration) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(random.Int64N(int64(d)))
		}
		id := w.page(props{"Name": title("Wanted")})
		var claimers []*claim.Claimer
		for range 3 {
			w.through(func(*http.Request) {})
			claimer, err := claim.New(claim.Config{Store: w.tasks(notion.TaskSchema{}), Ledger: sim.NewLedger(), Policy: policy})
			if err != nil {
				w.Fatal(err)
			}
			defer claimer.Close()
			claimers = append(claimers, claimer)
		}
		w.emulator.SetLatency(func(*http.Request) (before, after time.Duration) {
			return upTo(300 * time.Millisecond), upTo(300 * time.Millisecond)
		})
		var race sync.WaitGroup
		for _, claimer := range claimers {
			race.Go(func() {
				time.Sleep(upTo(time.Second))
				if _, err := claimer.Claim(w.Context(), claim.Request{Agent: "Sandman", Task: task.Task{ID: id}}); err == nil {
					mu.Lock()
					defer mu.Unlock()
					granted++
				}
			})
		}
		race.Wait()
	})
	return granted
}

// The protocol holds over the wire: of several daemons, one wins, though all of
// them speak for an agent of the same name.
func TestRace(t *testing.T) {
	for seed := range uint64(40) {
		if n := raced(t, seed, sim.Policy()); n != 1 {
			t.Errorf("seed %d: %d daemons were granted the task, want 1", seed, n)
		}
	}
}

// Without the settle wait more than one wins now and then, which shows that they
// do race.
func TestRaceWithoutSettling(t *testing.T) {
	policy := sim.Policy()
	policy.Settle, policy.Exclusive = 0, true
	for seed := range uint64(40) {
		if raced(t, seed, policy) > 1 {
			return
		}
	}
	t.Error("no race had two winners: the races prove nothing")
}
