package notion_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/notion/transport"

	"github.com/google/go-cmp/cmp"
)

func TestTokensThatAreNone(t *testing.T) {
	for _, token := range []string{"", " \n", "ntn_1\nntn_2", "ntn_ü"} {
		if _, err := notion.New(notion.Options{Token: token}); err == nil || !strings.Contains(err.Error(), "notion.token") {
			t.Errorf("New took the token %q: %v", token, err)
		}
	}
	if _, err := notion.New(notion.Options{Token: "ntn_1\n"}); err != nil {
		t.Errorf("a line break behind the token: %v", err)
	}
	if _, err := notion.New(notion.Options{Token: "ntn_1", Timeout: -1}); err == nil {
		t.Error("New took a negative timeout")
	}
	if _, err := notion.New(notion.Options{Token: "ntn_1", Rate: 0.1}); err == nil {
		t.Error("New took a rate below the burst")
	}
}

func TestWrongToken(t *testing.T) {
	inWorld(t, func(w *world) {
		var log bytes.Buffer
		client, err := notion.New(notion.Options{
			Token: "ntn_wrong", Transport: w.transport,
			Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		if err != nil {
			w.Fatal(err)
		}
		_, err = client.Me(w.Context())
		var refused *claim.StoreError
		var answered *notion.APIError
		if !errors.As(err, &refused) || refused.Kind != claim.Refused || !errors.As(err, &answered) || answered.Status != 401 {
			w.Fatalf("err = %v, want a refusal with the 401 in it", err)
		}
		if !strings.HasPrefix(err.Error(), "the token was refused: check notion.token") {
			w.Errorf("err = %q", err)
		}
		if said := err.Error() + log.String(); strings.Contains(said, "ntn_wrong") || !strings.Contains(log.String(), "/v1/users/me") {
			w.Errorf("said %q", said)
		}
	})
}

func TestMe(t *testing.T) {
	inWorld(t, func(w *world) {
		me, err := w.client.Me(w.Context())
		if err != nil || me.ID == "" || me.Name == "" || me.Workspace == "" || me.OwnedBy != "workspace" || me.MaxUpload != notion.FreeUpload {
			w.Errorf("%+v, %v", me, err)
		}
	})
}

func TestNowIsNotionsTime(t *testing.T) {
	inWorld(t, func(w *world) {
		if got := w.client.Now(); !got.Equal(time.Now()) {
			w.Errorf("before any answer, Now = %s, want %s", got, time.Now())
		}
		ahead := roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := w.transport.RoundTrip(req)
			if err == nil {
				resp.Header.Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
			}
			return resp, err
		})
		client, err := notion.New(notion.Options{Token: w.emulator.Token(), Transport: ahead})
		if err != nil {
			w.Fatal(err)
		}
		if _, err := client.Me(w.Context()); err != nil {
			w.Fatal(err)
		}
		if off := time.Until(client.Now()); off.Abs() > time.Second {
			w.Errorf("after one answer, which nothing confirms, Now is off by %s", off)
		}
		tasks, err := client.Tasks(w.Context(), w.databases.Tasks, notion.TaskSchema{})
		if err != nil {
			w.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		if off := tasks.Now().Sub(time.Now().Add(time.Hour)); off < -time.Second || off > time.Second {
			w.Errorf("Now is off by %s", off)
		}
	})
}

func TestStats(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{})
		w.get(tasks, id)
		w.get(tasks, id)
		if _, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn)); err != nil {
			w.Fatal(err)
		}
		if _, err := tasks.Get(w.Context(), "11111111-2222-3333-8444-555555555555"); err == nil {
			w.Fatal("found a page that is not there")
		}
		w.emulator.Inject(emulator.Fault{Path: "/v1/data_sources/*/query", Times: 1, Kind: emulator.DropAnswer})
		if _, _, err := tasks.Query(w.Context(), notion.Query{}); err != nil {
			w.Fatal(err)
		}
		w.emulator.Inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: time.Minute})
		if _, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn)); err == nil {
			w.Fatal("a limited write succeeded")
		}
		ctx, cancel := context.WithCancel(w.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() { tasks.Get(ctx, id) })
		waiting.Go(func() { tasks.Query(ctx, notion.Query{}) })
		// A caller can choose another lane.
		waiting.Go(func() { tasks.Query(transport.InLane(ctx, transport.LaneClaim), notion.Query{}) })
		waiting.Go(func() { tasks.Get(transport.InLane(ctx, transport.LaneLog), id) })
		time.Sleep(time.Second)

		stats := w.client.Stats()
		want := []transport.Count{
			{Endpoint: "data_sources.get", Status: 200, N: 2}, // the second as a page was not found
			{Endpoint: "data_sources.query", Status: 0, N: 1},
			{Endpoint: "data_sources.query", Status: 200, N: 1},
			{Endpoint: "databases.get", Status: 200, N: 1},
			{Endpoint: "pages.get", Status: 200, N: 2},
			{Endpoint: "pages.get", Status: 404, N: 1},
			{Endpoint: "pages.update", Status: 200, N: 1},
			{Endpoint: "pages.update", Status: 429, N: 1},
		}
		if diff := cmp.Diff(want, stats.Requests); diff != "" {
			w.Errorf("-want +got\n%s", diff)
		}
		if diff := cmp.Diff(map[transport.Lane]int{transport.LaneClaim: 2, transport.LaneLog: 1, transport.LaneSync: 1}, stats.Waiting); diff != "" {
			w.Errorf("-want +got\n%s", diff)
		}
		if left := time.Until(stats.PausedUntil); left < 50*time.Second || left > 66*time.Second {
			w.Errorf("paused for another %s", left)
		}
		cancel()
		waiting.Wait()
	})
}

// What was not sent because of a pause says so, and when to come back.
func TestPermitDuringAPause(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{})
		w.emulator.Inject(emulator.Fault{Kind: emulator.RateLimited429, Times: 1, RetryAfter: time.Minute})
		if _, err := tasks.Write(w.Context(), id, claim.Write{}); err == nil {
			w.Fatal("a limited write succeeded")
		}
		_, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn))
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
		defer cancel()
		_, permitErr := tasks.Permit(ctx, 2)
		_, getErr := tasks.Get(ctx, id)
		for _, err := range []error{err, permitErr, getErr} {
			held, isHeld := errors.AsType[*claim.StoreError](err)
			if !isHeld || held.Kind != claim.Unavailable || held.Landed != claim.LandedNo ||
				held.RetryAfter < time.Minute || held.RetryAfter > 66*time.Second {
				w.Errorf("err = %#v", err)
			}
		}
		// The end of a pause that is short, or nearly over, is waited for.
		time.Sleep(63 * time.Second)
		if _, err := tasks.Permit(w.Context(), 2); err != nil {
			w.Error(err)
		}
	})
}

// A server that counts in fixed windows, as Notion does, never has to refuse.
func TestRateStaysBelowTheLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		em, err := emulator.New(emulator.Options{Limit: 180})
		if err != nil {
			w.Fatal(err)
		}
		defer em.Close()
		transport := em.Client().Transport
		defer transport.(*http.Transport).CloseIdleConnections()
		client, err := notion.New(notion.Options{Token: em.Token(), Transport: transport})
		if err != nil {
			w.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Minute)
		defer cancel()
		var agents sync.WaitGroup
		for range 8 {
			agents.Go(func() {
				for ctx.Err() == nil {
					client.Me(ctx)
				}
			})
		}
		agents.Wait()
		requests := em.Requests()
		if slices.ContainsFunc(requests, func(r emulator.Request) bool { return r.Status == 429 }) {
			w.Error("a request was refused")
		}
		if len(requests) < 5*160 {
			w.Errorf("%d requests in five minutes", len(requests))
		}
	})
}
