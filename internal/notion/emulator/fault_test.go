package emulator_test

import (
	"fmt"
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

// onBoard runs a test in a bubble, with a board that has one task, $id.
func onBoard(t *testing.T, test func(t *testing.T, a *api)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		a.names["id"] = a.row(dbs.Tasks, object{"Name": title("Job")})
		test(t, a)
	})
}

// write sends a status for a page; it may fail.
func (a *api) write(id, to string) (reply, error) {
	return a.send("PATCH", pathPages+"/"+a.page(id).ID, object{"properties": object{"status": status(to)}})
}

// is checks the status of a page.
func (a *api) is(id, want, when string) {
	a.t.Helper()
	if got := a.page(id).Select("status"); got != want {
		a.t.Errorf("%s the status of %s is %s, want %s", when, id, got, want)
	}
}

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
			onBoard(t, func(t *testing.T, a *api) {
				page := func() string { return a.page("$id").Select("status") }
				a.inject(c.fault)
				start := time.Now()
				r, err := a.write("$id", sent)
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
	for kind, c := range map[emulator.FaultKind][2]string{emulator.Delay: {"OPEN", "00:00:10"}, emulator.DelayAnswer: {"BLOCKED", "00:00:00"}} {
		onBoard(t, func(t *testing.T, a *api) {
			a.inject(emulator.Fault{Kind: kind, Delay: 10 * time.Second})
			done := make(chan reply)
			go func() {
				r, _ := a.write("$id", "BLOCKED")
				done <- r
			}()
			time.Sleep(5 * time.Second)
			a.is("$id", c[0], string(kind)+": after half the delay")
			// The Date header is the time of the effect, not of the arrival.
			if date := (<-done).header.Get("Date"); !strings.Contains(date, c[1]) {
				t.Errorf("%s: Date is %s, want %s", kind, date, c[1])
			}
		})
	}
}

func TestLateWriteLandsOverLaterOnes(t *testing.T) {
	onBoard(t, func(t *testing.T, a *api) {
		a.inject(emulator.Fault{Kind: emulator.LateWrite, Late: 4 * time.Second, Times: 1})
		if _, err := a.write("$id", "CANCELLED"); err == nil {
			t.Error("the late write was answered")
		}
		need(a.write("$id", "BLOCKED"))(t)
		time.Sleep(3999 * time.Millisecond)
		a.is("$id", "BLOCKED", "before the write lands")
		time.Sleep(2 * time.Millisecond)
		a.is("$id", "CANCELLED", "after the write landed")
		a.inject(emulator.Fault{Kind: emulator.LateWrite503, Late: time.Minute})
		need(a.write("$id", "OPEN"))(t)
		must(t, a.e.Close())
		time.Sleep(time.Hour)
		a.is("$id", "CANCELLED", "after Close")
	})
}

func TestStaleQueryAnswersFromThePast(t *testing.T) {
	onBoard(t, func(t *testing.T, a *api) {
		a.names["gone"] = a.row(a.names["tasks"], object{"Name": title("trashed")})
		time.Sleep(time.Minute)
		a.setStatus(a.names["id"], "IN_PROGRESS")
		time.Sleep(20 * time.Second)
		a.setStatus(a.names["id"], "COMPLETED")
		must(t, a.e.TrashPage(a.names["gone"]))
		a.row(a.names["tasks"], object{"Name": title("new")})
		time.Sleep(10 * time.Second)
		for ago, want := range map[time.Duration][2]string{ // OPEN and IN_PROGRESS
			0: {`["new"]`, `[]`}, 9 * time.Second: {`["new"]`, `[]`}, 11 * time.Second: {`["trashed"]`, `["Job"]`},
			29 * time.Second: {`["trashed"]`, `["Job"]`}, 31 * time.Second: {`["trashed","Job"]`, `[]`}, time.Hour: {`[]`, `[]`},
		} {
			remove := a.inject(emulator.Fault{Kind: emulator.StaleQuery, Delay: ago})
			const query = `POST databases/$tasks/query {"filter":{"property":"status","status":{"equals":"%s"}}} | titles = %s` + "\n"
			a.play(fmt.Sprintf(query, "OPEN", want[0]) + fmt.Sprintf(query, "IN_PROGRESS", want[1]) +
				`GET pages/$id | properties.status.status.name = "COMPLETED"`) // pages themselves are never stale
			remove()
		}
	})
}

func TestSaved503TellsWhatItSaved(t *testing.T) {
	a, dbs := seeded(t, "empty")
	remove := a.inject(emulator.Fault{Kind: emulator.SavedBut503})
	a.play(`POST pages {"parent":{"database_id":"$tasks"}} | 503 | #additional_data.retry_guidance = 2 | $id = additional_data.committed_resource_id`)
	if pages := a.e.Pages(dbs.Tasks); len(pages) != 1 || pages[0].ID != a.names["id"] {
		t.Errorf("the pages are %v", pages)
	}
	said := a.play(`
PATCH pages/$id {"properties":{"Colour":null}} | 400
PATCH pages/$id {} | 503 | additional_data.committed_resource_id = null`)["message"].(string)
	if !strings.Contains(said, "saved") {
		t.Errorf("says %q", said)
	}
	remove()
	a.inject(emulator.Fault{Kind: emulator.NotApplied, Times: 1})
	a.play(`
POST pages {"parent":{"database_id":"$tasks"},"properties":{"priority":{"select":{"name":"urgent"}}}} | properties.ID.unique_id.number = 2
GET databases/$tasks | #properties.priority.select.options = 4
POST pages {"parent":{"database_id":"$tasks"}} | properties.ID.unique_id.number = 2`)
	if n := len(a.e.Pages(dbs.Tasks)); n != 2 {
		t.Errorf("%d pages, want 2", n)
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
	a.play(`GET users/me | 429 | additional_data.rate_limit_reason = "public_api_request_blocked"`)
}

// Faults of writes neither strike nor count reads; likewise those of queries.
func TestFaultsOfWritesAndQueries(t *testing.T) {
	onBoard(t, func(t *testing.T, a *api) {
		time.Sleep(time.Minute)
		for _, kind := range []emulator.FaultKind{
			emulator.SavedBut503, emulator.NotApplied, emulator.LateWrite, emulator.LateWrite503, emulator.Conflict409Saved, emulator.StaleQuery,
		} {
			remove := a.e.Inject(emulator.Fault{Kind: kind, Times: 1, Delay: time.Hour})
			a.play(`GET pages/$id`)
			if kind == emulator.StaleQuery {
				a.play("PATCH pages/$id {}\nPOST databases/$tasks/query {} | titles = []")
			} else {
				a.play(`POST databases/$tasks/query {} | titles = ["Job"]`)
				notes := string(kind)
				r, err := a.send("PATCH", pathPages+"/"+a.names["id"], object{"properties": object{"Notes": text(notes)}})
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
		c.fault.Kind = emulator.Error500
		remove := a.e.Inject(c.fault)
		got := ""
		for _, r := range []reply{
			a.do("GET", "/v1/pages/"+id, nil), a.do("PATCH", "/v1/pages/"+id, body), a.do("GET", "/v1/pages/"+id+"/properties/title", nil),
			a.do("GET", "/v1/databases/"+dbs.Tasks, nil), a.do("POST", "/v1/databases/"+dbs.Tasks+"/query", object{}),
			a.do("POST", "/v1/pages", object{"parent": object{"database_id": dbs.Tasks}}),
		} {
			got += map[bool]string{true: "x", false: "."}[r.status == 500]
		}
		if got != c.want {
			t.Errorf("%s: struck %s, want %s", c.name, got, c.want)
		}
		remove()
		a.ok("GET", "/v1/pages/"+id, nil)
	}
}

func TestTheFirstFaultStrikes(t *testing.T) {
	a := start(t, emulator.Options{})
	a.inject(emulator.Fault{Kind: emulator.Error500, Skip: 1, Times: 1})
	a.inject(emulator.Fault{Kind: emulator.Error504, Times: 2})
	a.play("GET users/me | 504\nGET users/me | 500\nGET users/me | 504\nGET users/me")
	defer func() {
		if recover() == nil {
			t.Error("a fault of no known kind was injected")
		}
	}()
	a.e.Inject(emulator.Fault{Kind: "Earthquake"})
}

func TestLatency(t *testing.T) {
	onBoard(t, func(t *testing.T, a *api) {
		a.e.SetLatency(func(r *http.Request) (before, after time.Duration) {
			if r.Method != "PATCH" {
				return 0, 0
			}
			return 2 * time.Second, 3 * time.Second
		})
		start := time.Now()
		done := make(chan time.Duration)
		go func() {
			a.write("$id", "BLOCKED")
			done <- time.Since(start)
		}()
		for _, want := range []string{"OPEN", "BLOCKED"} {
			time.Sleep(1900 * time.Millisecond)
			a.is("$id", want, time.Since(start).String())
		}
		if took, at := <-done, a.e.Requests()[0].Time.Sub(start); took != 5*time.Second || at != 2*time.Second {
			t.Errorf("arrived after %s, answered after %s, want 2s and 5s", at, took)
		}
		// The request of a sender that gives up on the way never arrives.
		a.client.Timeout = time.Second
		if _, err := a.write("$id", "OPEN"); err == nil {
			t.Error("answered within a second")
		}
		time.Sleep(time.Minute)
		if a.is("$id", "BLOCKED", "in the end"); len(a.e.Requests()) != 1 {
			t.Errorf("a request that was given up on arrived: %+v", a.e.Requests())
		}
	})
}

func TestStopHoldsRequests(t *testing.T) {
	for kind, held := range map[emulator.FaultKind]string{emulator.Stop: "OPEN", emulator.StopAfter: "BLOCKED"} { // the status while the request waits
		onBoard(t, func(t *testing.T, a *api) {
			a.names["left"] = a.row(a.names["tasks"], nil)
			remove := a.inject(emulator.Fault{Kind: kind, Method: "PATCH", Times: 2})
			done := make(chan reply)
			go func() {
				r, _ := a.write("$id", "BLOCKED")
				done <- r
			}()
			impatient := *a
			impatient.client = a.e.Client()
			impatient.client.Timeout = time.Minute
			if _, err := impatient.write("$left", "BLOCKED"); err == nil {
				t.Error("a held request was answered")
			}
			synctest.Wait()
			a.is("$id", held, "while held")
			a.is("$left", held, "while held")
			if r := a.e.Requests()[0]; r.Status != 0 {
				t.Errorf("a held request has the status %d in the log", r.Status)
			}
			a.play(`PATCH pages/$id {}`) // twice is enough
			remove()
			if r := <-done; r.status != http.StatusOK {
				t.Errorf("let go: status %d", r.status)
			}
			a.is("$id", "BLOCKED", "let go")
			synctest.Wait()
			a.is("$left", held, "though its sender left")
		})
	}
}

// Close ends the requests that wait, also those of another server, which does not cut connections.
func TestCloseEndsHeldRequests(t *testing.T) {
	for _, fault := range []emulator.Fault{{Kind: emulator.Stop}, {Kind: emulator.Delay, Delay: time.Hour}} {
		onBoard(t, func(t *testing.T, a *api) {
			a.e.Inject(fault)
			began := time.Now()
			cut, aborted := make(chan error, 1), make(chan any, 1)
			go func() {
				_, err := a.write("$id", "BLOCKED")
				cut <- err
			}()
			go func() {
				defer func() { aborted <- recover() }()
				r := httptest.NewRequest("GET", "/v1/users/me", nil)
				r.Header.Set("Authorization", "Bearer "+a.token)
				r.Header.Set("Notion-Version", a.version)
				a.e.ServeHTTP(httptest.NewRecorder(), r)
			}()
			synctest.Wait()
			must(t, a.e.Close())
			if err, got := <-cut, <-aborted; err == nil || got != http.ErrAbortHandler || time.Since(began) != 0 {
				t.Errorf("%s: ended with %v and %v after %s", fault.Kind, err, got, time.Since(began))
			}
			synctest.Wait()
			a.is("$id", "OPEN", "after Close")
		})
	}
}
