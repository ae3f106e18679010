package emulator_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
)

// inject injects a fault until the test ends.
func (a *api) inject(f emulator.Fault) (remove func()) {
	remove = a.e.Inject(f)
	a.t.Cleanup(remove)
	return remove
}

func status(name string) object { return object{"status": object{"name": name}} }

// The effects of each kind of fault on a write: what its sender sees and when, and the page right
// then and in the end.
func TestFaultsOnWrites(t *testing.T) {
	const (
		before = "OPEN"
		sent   = "BLOCKED"
	)
	type seen struct {
		status    int    // 0 if the connection was cut
		code      string // of the error
		shown     string // the status in the answer
		retry     string // Retry-After
		date      string // the Date, if it is wrong
		took      time.Duration
		after     string // the page, when the sender has the answer
		inTheEnd  string // the page, an hour later
		notNotion bool   // the answer has no request id
	}
	for _, c := range []struct {
		fault emulator.Fault
		want  seen
	}{
		{emulator.Fault{Kind: emulator.Delay, Delay: 3 * time.Second}, seen{status: 200, shown: sent, took: 3 * time.Second, after: sent, inTheEnd: sent}},
		{emulator.Fault{Kind: emulator.DelayAnswer, Delay: 3 * time.Second}, seen{status: 200, shown: sent, took: 3 * time.Second, after: sent, inTheEnd: sent}},
		{emulator.Fault{Kind: emulator.SavedBut503}, seen{status: 503, code: "service_unavailable", after: sent, inTheEnd: sent}},
		{emulator.Fault{Kind: emulator.DropAnswer}, seen{after: sent, inTheEnd: sent}},
		{emulator.Fault{Kind: emulator.DropRequest}, seen{after: before, inTheEnd: before}},
		{emulator.Fault{Kind: emulator.NotApplied}, seen{status: 200, shown: before, after: before, inTheEnd: before}},
		{emulator.Fault{Kind: emulator.LateWrite, Late: 5 * time.Second}, seen{after: before, inTheEnd: sent}},
		{emulator.Fault{Kind: emulator.LateWrite503, Late: 5 * time.Second}, seen{status: 503, code: "service_unavailable", after: before, inTheEnd: sent}},
		{emulator.Fault{Kind: emulator.Conflict409}, seen{status: 409, code: "conflict_error", after: before, inTheEnd: before}},
		{emulator.Fault{Kind: emulator.Conflict409Saved}, seen{status: 409, code: "conflict_error", after: sent, inTheEnd: sent}},
		{emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: 1500 * time.Millisecond}, seen{status: 429, code: "rate_limited", retry: "2", after: before, inTheEnd: before}},
		{emulator.Fault{Kind: emulator.RateLimited429}, seen{status: 429, code: "rate_limited", retry: "60", after: before, inTheEnd: before}},
		{emulator.Fault{Kind: emulator.Overload529, RetryAfter: 7 * time.Second}, seen{status: 529, code: "service_overload", retry: "7", after: before, inTheEnd: before}},
		{emulator.Fault{Kind: emulator.Blocked429}, seen{status: 429, code: "rate_limited", after: before, inTheEnd: before}},
		{emulator.Fault{Kind: emulator.HTML502}, seen{status: 502, after: before, inTheEnd: before, notNotion: true}},
		{emulator.Fault{Kind: emulator.Error500}, seen{status: 500, code: "internal_server_error", after: before, inTheEnd: before}},
		{emulator.Fault{Kind: emulator.Error503}, seen{status: 503, code: "service_unavailable", after: before, inTheEnd: before}},
		{emulator.Fault{Kind: emulator.Error504}, seen{status: 504, code: "gateway_timeout", after: before, inTheEnd: before}},
		{emulator.Fault{Kind: emulator.WrongDate, Off: time.Hour}, seen{status: 200, shown: sent, date: "Sat, 01 Jan 2000 01:00:00 GMT", after: sent, inTheEnd: sent}},
		{emulator.Fault{Kind: emulator.NoDate}, seen{status: 200, shown: sent, date: "none", after: sent, inTheEnd: sent}},
		{emulator.Fault{Kind: emulator.StaleQuery, Delay: time.Hour}, seen{status: 200, shown: sent, after: sent, inTheEnd: sent}}, // not a query
	} {
		t.Run(string(c.fault.Kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, dbs := seeded(t, "empty")
				id := a.row(dbs.Tasks, nil)
				page := func() string { p, _ := a.e.Page(id); return p.Select("status") }
				a.inject(c.fault)
				start := time.Now()
				r, err := a.send("PATCH", pathPages+"/"+id, object{"properties": object{"status": status(sent)}})
				answered := time.Now().UTC().Format(http.TimeFormat)
				got := seen{status: r.status, took: time.Since(start), after: page()}
				got.code, _ = r.body["code"].(string)
				got.shown, _ = at(r.body, "properties", "status", "status", "name").(string)
				if err == nil {
					got.retry = r.header.Get("Retry-After")
					got.notNotion = r.header.Get("X-Notion-Request-Id") == ""
					switch date := r.header.Get("Date"); {
					case date == "":
						got.date = "none"
					case date != answered && c.fault.Kind != emulator.DelayAnswer:
						got.date = date
					}
				}
				time.Sleep(time.Hour)
				got.inTheEnd = page()
				if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(seen{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestDelayTakesEffectLate(t *testing.T) {
	for kind, after := range map[emulator.FaultKind]string{emulator.Delay: "OPEN", emulator.DelayAnswer: "BLOCKED"} {
		synctest.Test(t, func(t *testing.T) {
			a, dbs := seeded(t, "empty")
			id := a.row(dbs.Tasks, nil)
			a.inject(emulator.Fault{Kind: kind, Delay: 10 * time.Second})
			done := make(chan reply)
			go func() {
				r, _ := a.send("PATCH", pathPages+"/"+id, object{"properties": object{"status": status("BLOCKED")}})
				done <- r
			}()
			time.Sleep(5 * time.Second)
			if p, _ := a.e.Page(id); p.Select("status") != after {
				t.Errorf("%s: after half the delay the status is %s, want %s", kind, p.Select("status"), after)
			}
			r := <-done
			// The Date header is the time of the effect, not of the arrival.
			want := map[emulator.FaultKind]string{emulator.Delay: "00:00:10", emulator.DelayAnswer: "00:00:00"}[kind]
			if !strings.Contains(r.header.Get("Date"), want) {
				t.Errorf("%s: Date is %s, want %s", kind, r.header.Get("Date"), want)
			}
		})
	}
}

func TestLateWriteLandsOverLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		id := a.row(dbs.Tasks, nil)
		a.inject(emulator.Fault{Kind: emulator.LateWrite, Late: 4 * time.Second, Times: 1})
		if _, err := a.send("PATCH", pathPages+"/"+id, object{"properties": object{"claimed_by": text("late")}}); err == nil {
			t.Error("the late write was answered")
		}
		a.ok("PATCH", pathPages+"/"+id, object{"properties": object{"claimed_by": text("prompt")}})
		time.Sleep(3999 * time.Millisecond)
		if p, _ := a.e.Page(id); p.Text("claimed_by") != "prompt" {
			t.Errorf("before the write lands: %q", p.Text("claimed_by"))
		}
		time.Sleep(2 * time.Millisecond)
		if p, _ := a.e.Page(id); p.Text("claimed_by") != "late" {
			t.Errorf("after the write landed: %q", p.Text("claimed_by"))
		}
	})
}

func TestCloseForgetsLateWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		id := a.row(dbs.Tasks, nil)
		a.inject(emulator.Fault{Kind: emulator.LateWrite503, Late: time.Minute})
		a.do("PATCH", pathPages+"/"+id, object{"properties": object{"claimed_by": text("late")}})
		if err := a.e.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if p, _ := a.e.Page(id); p.Text("claimed_by") != "" {
			t.Error("a write landed after Close")
		}
	})
}

func TestStaleQueryAnswersFromThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		edited, trashed := a.row(dbs.Tasks, object{"Name": title("edited")}), a.row(dbs.Tasks, object{"Name": title("trashed")})
		time.Sleep(time.Minute)
		a.setStatus(edited, "IN_PROGRESS")
		time.Sleep(20 * time.Second)
		a.setStatus(edited, "COMPLETED")
		if err := a.e.TrashPage(trashed); err != nil {
			t.Fatal(err)
		}
		a.row(dbs.Tasks, object{"Name": title("new")})
		time.Sleep(10 * time.Second)

		open := object{"filter": object{"property": "status", "status": object{"equals": "OPEN"}}}
		started := object{"filter": object{"property": "status", "status": object{"equals": "IN_PROGRESS"}}}
		for _, c := range []struct {
			ago           time.Duration
			open, started []string
		}{
			{0, []string{"new"}, []string{}},
			{9 * time.Second, []string{"new"}, []string{}},
			{11 * time.Second, []string{"trashed"}, []string{"edited"}},
			{29 * time.Second, []string{"trashed"}, []string{"edited"}},
			{31 * time.Second, []string{"trashed", "edited"}, []string{}},
			{time.Hour, []string{}, []string{}},
		} {
			remove := a.inject(emulator.Fault{Kind: emulator.StaleQuery, Delay: c.ago})
			if diff := cmp.Diff(c.open, a.query(dbs.Tasks, open)); diff != "" {
				t.Errorf("OPEN %s ago (-want +got):\n%s", c.ago, diff)
			}
			if diff := cmp.Diff(c.started, a.query(dbs.Tasks, started)); diff != "" {
				t.Errorf("IN_PROGRESS %s ago (-want +got):\n%s", c.ago, diff)
			}
			// Pages themselves are never stale.
			if got := at(a.ok("GET", pathPages+"/"+edited, nil), "properties", "status", "status", "name"); got != "COMPLETED" {
				t.Errorf("the page is %v", got)
			}
			remove()
		}
	})
}

func TestSaved503TellsWhatItSaved(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.inject(emulator.Fault{Kind: emulator.SavedBut503})
	r := a.do("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}})
	pages := a.e.Pages(dbs.Tasks)
	if len(pages) != 1 || at(r.body, "additional_data", "committed_resource_id") != pages[0].ID {
		t.Errorf("pages %v, additional_data %v", pages, r.body["additional_data"])
	}
	if n := len(at(r.body, "additional_data", "retry_guidance").(list)); n != 2 || !strings.Contains(r.body["message"].(string), "saved") {
		t.Errorf("answer is %s", r.text)
	}
	r = a.do("PATCH", pathPages+"/"+pages[0].ID, object{"properties": object{"Notes": text("x")}})
	if r.status != 503 || at(r.body, "additional_data", "committed_resource_id") != nil {
		t.Errorf("an edit answers %s", r.text)
	}
	// A refused request is refused as usual.
	a.refused("PATCH", pathPages+"/"+pages[0].ID, object{"properties": object{"Colour": text("x")}}, badRequest, validation, errNoProperty)
}

func TestNotAppliedCreatesNothing(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.inject(emulator.Fault{Kind: emulator.NotApplied, Times: 1})
	a.ok("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}, "properties": object{"priority": object{"select": object{"name": "urgent"}}}})
	if n := len(a.e.Pages(dbs.Tasks)); n != 0 {
		t.Errorf("%d pages, want none", n)
	}
	if n := len(at(a.ok("GET", "/v1/databases/"+dbs.Tasks, nil), "properties", "priority", "select", "options").(list)); n != 4 {
		t.Errorf("%d priorities, want 4", n)
	}
	if got := at(a.ok("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}}), "properties", "ID", "unique_id", "number"); got != 1.0 {
		t.Errorf("the first page has the number %v", got)
	}
}

func TestAnswersOfTheEdge(t *testing.T) {
	a := start(t, emulator.Options{})
	a.inject(emulator.Fault{Kind: emulator.HTML502, Times: 1})
	r := a.do("GET", "/v1/users/me", nil)
	if r.header.Get("Cf-Ray") == "" || !strings.HasPrefix(r.header.Get("Content-Type"), "text/html") || !strings.Contains(r.text, "<html>") {
		t.Errorf("answer is %v %s", r.header, r.text)
	}
	a.inject(emulator.Fault{Kind: emulator.Blocked429, Times: 1})
	r = a.do("GET", "/v1/users/me", nil)
	if at(r.body, "additional_data", "rate_limit_reason") != "public_api_request_blocked" {
		t.Errorf("answer is %s", r.text)
	}
	a.inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: 90 * time.Second, Reason: "public_api_space_request_rate_limit"})
	r = a.do("GET", "/v1/users/me", nil)
	want := object{"rate_limit_reason": "public_api_space_request_rate_limit", "retry_after": "90"}
	if diff := cmp.Diff(want, r.body["additional_data"]); diff != "" {
		t.Errorf("additional_data (-want +got):\n%s", diff)
	}
}

// Faults of writes neither strike nor count reads; likewise those of queries.
func TestFaultsOfWritesAndQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		id := a.row(dbs.Tasks, object{"Name": title("Job")})
		time.Sleep(time.Minute)
		for _, kind := range []emulator.FaultKind{
			emulator.SavedBut503, emulator.NotApplied, emulator.LateWrite, emulator.LateWrite503, emulator.Conflict409Saved, emulator.StaleQuery,
		} {
			remove := a.e.Inject(emulator.Fault{Kind: kind, Times: 1, Delay: time.Hour})
			a.ok("GET", pathPages+"/"+id, nil)
			if kind == emulator.StaleQuery {
				a.ok("PATCH", pathPages+"/"+id, object{})
				if rows := a.query(dbs.Tasks, object{}); len(rows) != 0 {
					t.Errorf("a query of an hour ago gives %v", rows)
				}
			} else {
				if rows := a.query(dbs.Tasks, object{}); len(rows) != 1 {
					t.Errorf("%s: a query gives %v", kind, rows)
				}
				notes := string(kind)
				r, err := a.send("PATCH", pathPages+"/"+id, object{"properties": object{"Notes": text(notes)}})
				if shown := at(r.body, "properties", "Notes", "rich_text", 0, "plain_text"); err == nil && r.status == 200 && shown == notes {
					t.Errorf("%s: the write was not struck", kind)
				}
			}
			remove()
		}
	})
}

func TestFaultsStrikeWhatTheyMatch(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, nil)
	body := object{"properties": object{"Notes": text("needle")}}
	for _, c := range []struct {
		name  string
		fault emulator.Fault
		want  string // for GET page, PATCH page, GET property item, GET database, query, POST page: x means struck
	}{
		{"everything", emulator.Fault{}, "xxxxxx"},
		{"a method", emulator.Fault{Method: "PATCH"}, ".x...."},
		{"a pattern", emulator.Fault{Path: "/v1/pages/*"}, "xx...."},
		{"a pattern within", emulator.Fault{Path: "/v1/databases/*/query"}, "....x."},
		{"a prefix", emulator.Fault{Path: "/v1/pages"}, "xxx..x"},
		{"a prefix with a slash", emulator.Fault{Path: "/v1/pages/"}, "xxx..x"},
		{"a prefix is of whole segments", emulator.Fault{Path: "/v1/page"}, "......"},
		{"one path", emulator.Fault{Method: "GET", Path: "/v1/pages/" + id}, "x.x..."},
		{"a match", emulator.Fault{Match: func(r *http.Request, body []byte) bool { return strings.Contains(string(body), "needle") }}, ".x...."},
		{"a match that looks at the emulator", emulator.Fault{Match: func(r *http.Request, _ []byte) bool {
			_, ok := a.e.Page(strings.TrimPrefix(r.URL.Path, "/v1/pages/"))
			return ok
		}}, "xx...."},
		{"skip", emulator.Fault{Skip: 4}, "....xx"},
		{"times", emulator.Fault{Times: 2}, "xx...."},
		{"skip and times", emulator.Fault{Skip: 1, Times: 3}, ".xxx.."},
		{"skip and times of a path", emulator.Fault{Path: "/v1/pages", Skip: 1, Times: 1}, ".x...."},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := a.in(t)
			c.fault.Kind = emulator.Error500
			remove := a.e.Inject(c.fault)
			defer remove()
			got := ""
			for _, r := range []reply{
				a.do("GET", "/v1/pages/"+id, nil), a.do("PATCH", "/v1/pages/"+id, body), a.do("GET", "/v1/pages/"+id+"/properties/title", nil),
				a.do("GET", "/v1/databases/"+dbs.Tasks, nil), a.do("POST", "/v1/databases/"+dbs.Tasks+"/query", object{}),
				a.do("POST", "/v1/pages", object{"parent": object{"database_id": dbs.Tasks}}),
			} {
				if r.status == 500 {
					got += "x"
				} else {
					got += "."
				}
			}
			if got != c.want {
				t.Errorf("struck %s, want %s", got, c.want)
			}
			remove()
			a.ok("GET", "/v1/pages/"+id, nil)
		})
	}
}

func TestTheFirstFaultStrikes(t *testing.T) {
	a := start(t, emulator.Options{})
	a.inject(emulator.Fault{Kind: emulator.Error500, Skip: 1, Times: 1})
	a.inject(emulator.Fault{Kind: emulator.Error504, Times: 2})
	var got []int
	for range 4 {
		got = append(got, a.do("GET", "/v1/users/me", nil).status)
	}
	if diff := cmp.Diff([]int{504, 500, 504, 200}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		id := a.row(dbs.Tasks, nil)
		a.e.SetLatency(func(r *http.Request) (before, after time.Duration) {
			if r.Method != "PATCH" {
				return 0, 0
			}
			return 2 * time.Second, 3 * time.Second
		})
		start := time.Now()
		done := make(chan time.Duration)
		go func() {
			a.ok("PATCH", pathPages+"/"+id, object{"properties": object{"status": status("BLOCKED")}})
			done <- time.Since(start)
		}()
		for _, want := range []string{"OPEN", "BLOCKED"} {
			time.Sleep(1900 * time.Millisecond)
			if p, _ := a.e.Page(id); p.Select("status") != want {
				t.Errorf("after %s the status is %s, want %s", time.Since(start), p.Select("status"), want)
			}
		}
		if took := <-done; took != 5*time.Second {
			t.Errorf("answered after %s, want 5s", took)
		}
		if at := a.e.Requests()[0].Time.Sub(start); at != 2*time.Second {
			t.Errorf("arrived after %s, want 2s", at)
		}
		// The request of a sender that gives up on the way never arrives.
		a.client.Timeout = time.Second
		if _, err := a.send("PATCH", pathPages+"/"+id, object{"properties": object{"status": status("OPEN")}}); err == nil {
			t.Error("answered within a second")
		}
		time.Sleep(time.Minute)
		if p, _ := a.e.Page(id); p.Select("status") != "BLOCKED" || len(a.e.Requests()) != 1 {
			t.Errorf("a request that was given up on arrived: %+v", a.e.Requests())
		}
	})
}

func TestInjectRefusesUnknownKinds(t *testing.T) {
	a := start(t, emulator.Options{})
	defer func() {
		if recover() == nil {
			t.Error("a fault of no known kind was injected")
		}
	}()
	a.e.Inject(emulator.Fault{Kind: "Earthquake"})
}

func TestStopHoldsRequests(t *testing.T) {
	for _, c := range []struct {
		kind emulator.FaultKind
		held string // the status while the request waits
		gone string // the status if the sender gives up
	}{
		{emulator.Stop, "OPEN", "OPEN"},
		{emulator.StopAfter, "BLOCKED", "BLOCKED"},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, dbs := seeded(t, "empty")
				kept, left := a.row(dbs.Tasks, nil), a.row(dbs.Tasks, nil)
				remove := a.inject(emulator.Fault{Kind: c.kind, Method: "PATCH", Times: 2})
				status := func(id string) string { p, _ := a.e.Page(id); return p.Select("status") }
				blocked := object{"properties": object{"status": object{"status": object{"name": "BLOCKED"}}}}

				done := make(chan reply)
				go func() {
					r, _ := a.send("PATCH", pathPages+"/"+kept, blocked)
					done <- r
				}()
				impatient := *a
				impatient.client = a.e.Client()
				impatient.client.Timeout = time.Minute
				if _, err := impatient.send("PATCH", pathPages+"/"+left, blocked); err == nil {
					t.Error("a held request was answered")
				}
				synctest.Wait()
				if status(kept) != c.held || status(left) != c.gone {
					t.Errorf("while held: %s and %s, want %s and %s", status(kept), status(left), c.held, c.gone)
				}
				if r := a.e.Requests()[0]; r.Status != 0 {
					t.Errorf("a held request has the status %d in the log", r.Status)
				}
				a.ok("PATCH", pathPages+"/"+kept, object{"properties": object{"Notes": text("not held: twice is enough")}})
				remove()
				if r := <-done; r.status != http.StatusOK || status(kept) != "BLOCKED" {
					t.Errorf("let go: status %d, page %s", r.status, status(kept))
				}
				synctest.Wait()
				if status(left) != c.gone {
					t.Errorf("the request whose sender left took effect later: %s", status(left))
				}
			})
		})
	}
}

func TestCloseEndsHeldRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		id := a.row(dbs.Tasks, nil)
		a.e.Inject(emulator.Fault{Kind: emulator.Stop})
		done := make(chan error)
		go func() {
			_, err := a.send("PATCH", pathPages+"/"+id, object{"properties": object{"status": status("BLOCKED")}})
			done <- err
		}()
		synctest.Wait()
		if err := a.e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err == nil {
			t.Error("the held request was answered")
		}
		synctest.Wait()
		if p, _ := a.e.Page(id); p.Select("status") != "OPEN" {
			t.Error("the held request took effect")
		}
	})
}

// Another server, which does not cut connections, may serve the emulator: Close also ends the
// requests that wait there.
func TestCloseEndsHeldRequestsOfOtherServers(t *testing.T) {
	for _, fault := range []emulator.Fault{{Kind: emulator.Stop}, {Kind: emulator.Delay, Delay: time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			a := start(t, emulator.Options{})
			a.e.Inject(fault)
			began := time.Now()
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				r := httptest.NewRequest("GET", "/v1/users/me", nil)
				r.Header.Set("Authorization", "Bearer "+a.token)
				r.Header.Set("Notion-Version", a.version)
				a.e.ServeHTTP(httptest.NewRecorder(), r)
			}()
			synctest.Wait()
			if err := a.e.Close(); err != nil {
				t.Fatal(err)
			}
			if got := <-done; got != http.ErrAbortHandler || time.Since(began) != 0 {
				t.Errorf("%s: ended with %v after %s", fault.Kind, got, time.Since(began))
			}
		})
	}
}
