package notion_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"dibs/internal/testkit"

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

// A reading is of the moment that its answer's Date says. If that is missing, or nobody
// else has said so, the reading is of now, as far as is known, and unsure.
func TestAnswersSayOfWhenTheyAre(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{})
		read := func() (claim.Reading, error) { return tasks.Get(w.Context(), id) }
		write := func() (claim.Reading, error) { return tasks.Write(w.Context(), id, claimed("Sandman", dawn)) }
		for name, ask := range map[string]func() (claim.Reading, error){"read": read, "write": write} {
			for _, fault := range []emulator.Fault{
				{Kind: emulator.WrongDate, Off: time.Hour}, {Kind: emulator.WrongDate, Off: -time.Hour},
				{Kind: emulator.WrongDate, Off: 10 * 365 * 24 * time.Hour}, {Kind: emulator.NoDate},
			} {
				fault.Times = 1
				for i, unsure := range []bool{true, false} {
					if i == 0 {
						defer w.emulator.Inject(fault)()
					}
					now := time.Now()
					r, err := ask()
					if err != nil {
						w.Fatal(err)
					}
					if off := r.At.Sub(now); r.Unsure != unsure || off.Abs() > time.Second {
						w.Errorf("%s under %s of %v, answer %d: of now + %v, unsure %v; want unsure %v", name, fault.Kind, fault.Off, i, off, r.Unsure, unsure)
					}
					if off := time.Until(tasks.Now()); off.Abs() > time.Second {
						w.Errorf("%s under %s of %v, answer %d: the clock is off by %v", name, fault.Kind, fault.Off, i, off)
					}
				}
			}
		}
	})
}

// While Notion asks for one pause after another, whoever sits there and waits is
// answered within five seconds, whatever the length of the pauses, at whatever moment
// somebody asks, and whatever luck they have.
func TestNobodyIsKeptWaitingByPauses(t *testing.T) {
	const promised = 5 * time.Second
	long := 40 * time.Minute
	if testing.Short() {
		long = 10 * time.Minute
	}
	for name, jitter := range map[string]func(time.Duration) time.Duration{
		"least jitter": func(time.Duration) time.Duration { return 0 },
		"most jitter":  func(n time.Duration) time.Duration { return n - 1 },
	} {
		for _, pause := range []time.Duration{time.Second, 3 * time.Second, 6 * time.Second, time.Hour} {
			t.Run(fmt.Sprint(name, ", ", pause), func(t *testing.T) {
				inWorld(t, func(w *world) {
					client, err := notion.New(notion.Options{Token: w.emulator.Token(), Transport: w.transport, Jitter: jitter})
					if err != nil {
						w.Fatal(err)
					}
					w.client = client
					tasks, id := w.tasks(notion.TaskSchema{}), w.page(props{})
					w.emulator.Inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: pause})
					ask := map[string]func(ctx context.Context) error{
						"a claim": func(ctx context.Context) error {
							permitted, err := tasks.Permit(ctx, 2)
							if err != nil {
								return err
							}
							_, err = tasks.Get(permitted, id)
							return err
						},
						"a person": func(ctx context.Context) error {
							_, err := tasks.Get(notion.Impatient(ctx), id)
							return err
						},
					}
					for begin := time.Now(); time.Since(begin) < long; time.Sleep(1700 * time.Millisecond) {
						for who, ask := range ask {
							ctx, cancel := context.WithCancel(w.Context())
							start := time.Now()
							err := ask(ctx)
							cancel()
							failed, isFailed := errors.AsType[*claim.StoreError](err)
							if !isFailed || failed.Kind != claim.Unavailable || failed.RetryAfter <= 0 {
								w.Fatalf("%s: %v, want an error that says when to try again", who, err)
							}
							if took := time.Since(start); took > promised {
								w.Fatalf("%s was told after %v: %v; want it within %v", who, took, err, promised)
							}
						}
					}
				})
			})
		}
	}
}

// refused returns when to try again, if err says that nothing was sent because
// Notion is down.
func refused(err error) (time.Duration, bool) {
	held, isHeld := errors.AsType[*claim.StoreError](err)
	ok := isHeld && held.Kind == claim.Unavailable && held.Landed == claim.LandedNo &&
		strings.Contains(err.Error(), "Notion has been down")
	if !ok {
		return 0, false
	}
	return held.RetryAfter, true
}

// permitted takes a permit and gives it back.
func permitted(tasks *notion.Tasks) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := tasks.Permit(ctx, 1)
	return err
}

func TestNothingWaitsForANotionThatIsDown(t *testing.T) {
	testkit.TakesSeconds(t)
	for _, kind := range []emulator.FaultKind{
		emulator.DropRequest, emulator.DropAnswer, emulator.HTML502, emulator.Error500, emulator.Error503, emulator.Error504,
	} {
		t.Run(string(kind), func(t *testing.T) {
			inWorld(t, func(w *world) {
				tasks := w.tasks(notion.TaskSchema{})
				id := w.page(props{})
				up := w.emulator.Inject(emulator.Fault{Kind: kind})
				if _, err := tasks.Get(w.Context(), id); err == nil {
					w.Fatal("a read succeeded")
				}
				if _, ok := refused(permitted(tasks)); ok {
					w.Error("the whole of Notion counts as down because of one page")
				}
				if _, _, err := tasks.Query(w.Context(), notion.Query{}); err == nil {
					w.Fatal("a query succeeded")
				}
				w.emulator.ResetRequests()
				start := time.Now()
				_, permit := tasks.Permit(w.Context(), 2)
				_, get := tasks.Get(w.Context(), id)
				_, write := tasks.Write(w.Context(), id, claimed("Sandman", dawn))
				for _, err := range []error{permit, get, write} {
					if again, ok := refused(err); !ok || again <= 0 || again > 30*time.Second {
						w.Errorf("err = %v (again in %s), want a refusal and when to try again", err, again)
					}
				}
				if took := time.Since(start); took != 0 {
					w.Errorf("to be refused took %s", took)
				}
				if n := len(w.emulator.Requests()); n != 0 {
					w.Errorf("%d requests were sent", n)
				}

				// While somebody waits, Notion is looked for every three seconds, and
				// less often in the long run. Else an hour costs two requests a minute
				// and some. Nobody who waits makes them.
				for _, waiting := range []bool{true, false} {
					w.emulator.ResetRequests()
					start := time.Now()
					for time.Since(start) < time.Hour {
						if waiting && permitted(tasks) == nil {
							w.Fatal("a permit was given")
						}
						for range 2 { // more often than Notion is looked for
							if _, _, err := tasks.Query(w.Context(), notion.Query{}); err == nil {
								w.Fatal("a query succeeded")
							}
							time.Sleep(2500 * time.Millisecond)
						}
						if n := len(w.emulator.Requests()); waiting && n > int(time.Since(start)/(3*time.Second))+1 {
							w.Fatalf("%d requests in %s", n, time.Since(start))
						}
					}
					n := len(w.emulator.Requests())
					if least, most := 60, 130; !waiting && (n < least || n > most) {
						w.Errorf("%d requests in an hour, want about two a minute", n)
					}
					if waiting && (n < 300 || n > 700) {
						w.Errorf("%d requests in an hour for those who wait, want one every three seconds at first, and fewer then", n)
					}
				}

				up()
				start = time.Now()
				for {
					if _, _, err := tasks.Query(w.Context(), notion.Query{}); err == nil {
						break
					}
					time.Sleep(time.Second)
				}
				if took := time.Since(start); took > 31*time.Second {
					w.Errorf("noticed after %s that Notion is back", took)
				}
				w.get(tasks, id)
			})
		})
	}
}

// A request that gets no answer is followed by one look at Notion, which tells whether it
// is the page that hangs or all of Notion.
func TestNotionThatHangs(t *testing.T) {
	const silence = time.Hour
	for name, tt := range map[string]struct {
		everything, writes bool
		down               bool
		took               time.Duration
	}{
		"everything, at a read":  {everything: true, down: true, took: 13 * time.Second},
		"everything, at a write": {everything: true, writes: true, down: true, took: 13 * time.Second},
		"one page, at a read":    {took: 20 * time.Second}, // it is sent twice
		"one page, at a write":   {writes: true, took: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				tasks := w.tasks(notion.TaskSchema{})
				id := w.page(props{})
				w.get(tasks, id)
				fault := emulator.Fault{Kind: emulator.Delay, Delay: silence, Path: "/v1/pages/" + string(id)}
				if tt.everything {
					fault.Path = ""
				}
				up := w.emulator.Inject(fault)
				var all sync.WaitGroup
				for range 3 { // who asks at the same time shares the look
					all.Go(func() {
						start := time.Now()
						var err error
						if tt.writes {
							_, err = tasks.Write(w.Context(), id, claimed("Sandman", dawn))
						} else {
							_, err = tasks.Get(w.Context(), id)
						}
						if took := time.Since(start); err == nil || took < tt.took || took > tt.took+time.Second {
							w.Errorf("err = %v after %s, want a failure after %s", err, took, tt.took)
						}
					})
				}
				all.Wait()
				if _, down := refused(permitted(tasks)); down != tt.down {
					w.Errorf("Notion counts as down: %v, want %v", down, tt.down)
				}
				looks := 0
				for _, r := range w.emulator.Requests() {
					if r.Path == "/v1/users/me" {
						looks++
					}
				}
				if most := map[bool]int{true: 1, false: 2}[tt.writes || tt.down]; looks < 1 || looks > most {
					w.Errorf("%d looks, want 1 to %d", looks, most)
				}
				up()
				time.Sleep(4 * time.Second)
				w.get(tasks, id)
			})
		})
	}
}

// What Notion says of a request, however often, does not mean that it is down;
// nor do writes that fail, nor callers that go away.
func TestNotionIsNotDown(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{})
		for range 10 {
			if _, err := tasks.Get(w.Context(), "11111111-2222-3333-4444-555555555555"); err == nil {
				w.Fatal("read a page that is not there")
			}
		}
		w.get(tasks, id)

		remove := w.emulator.Inject(emulator.Fault{Method: http.MethodPatch, Kind: emulator.Error503})
		for range 10 {
			if _, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn)); err == nil {
				w.Fatal("wrote to a failing server")
			}
		}
		remove()
		w.get(tasks, id)

		remove = w.emulator.Inject(emulator.Fault{Kind: emulator.Delay, Delay: 8 * time.Second})
		for range 10 {
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			if _, err := tasks.Get(ctx, id); err == nil {
				w.Fatal("read from a server that did not answer")
			}
			cancel()
		}
		remove()
		w.get(tasks, id)
	})
}
