package notion_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

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
