package emulator_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"
)

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
