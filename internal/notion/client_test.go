package notion_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/notion/transport"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

func TestOptionsThatCannotBe(t *testing.T) {
	for says, options := range map[string][]notion.Options{
		"notion.token": {{}, {Token: " \n"}, {Token: "ntn_1\nntn_2"}, {Token: "ntn_ü"}},
		"":             {{Token: "ntn_1", Timeout: -1}, {Token: "ntn_1", Rate: 0.1}}, // a rate below the burst
	} {
		for _, o := range options {
			if _, err := notion.New(o); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("New took %+v: %v", o, err)
			}
		}
	}
	need(notion.New(notion.Options{Token: "ntn_1\n"}))(t)
}

func TestMe(t *testing.T) {
	inWorld(t, func(w *world) {
		me, err := w.client.Me(w.Context())
		if err != nil || me.ID == "" || me.Name == "" || me.Workspace == "" || me.OwnedBy != "workspace" || me.MaxUpload != notion.FreeUpload {
			w.Errorf("%+v, %v", me, err)
		}
		var log bytes.Buffer
		client := w.another(notion.Options{Token: "ntn_wrong", Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		_, err = client.Me(w.Context())
		failed(w, err, claim.Refused, claim.LandedNo, "the token was refused: check notion.token")
		if answered, ok := errors.AsType[*notion.APIError](err); !ok || answered.Status != 401 {
			w.Errorf("err = %v, want the 401 in it", err)
		}
		if said := err.Error() + log.String(); strings.Contains(said, "ntn_wrong") || !strings.Contains(log.String(), "/v1/users/me") {
			w.Errorf("said %q", said)
		}
	})
}

func TestStats(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{})
		w.get(tasks, id)
		w.get(tasks, id)
		w.write(tasks, id, claimed("Sandman", dawn))
		if _, err := tasks.Get(w.Context(), "11111111-2222-3333-8444-555555555555"); err == nil {
			w.Fatal("found a page that is not there")
		}
		w.emulator.Inject(emulator.Fault{Path: "/v1/data_sources/*/query", Times: 1, Kind: emulator.DropAnswer})
		w.rows(tasks, notion.Query{})
		w.emulator.Inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: time.Minute})
		_, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn))
		failed(w, err, claim.Unavailable, claim.LandedNo)
		ctx, cancel := context.WithCancel(w.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() { tasks.Get(ctx, id) })
		waiting.Go(func() { tasks.Query(ctx, notion.Query{}) })
		// A caller can choose another lane.
		waiting.Go(func() { tasks.Query(transport.InLane(ctx, transport.LaneClaim), notion.Query{}) })
		waiting.Go(func() { tasks.Get(transport.InLane(ctx, transport.LaneLog), id) })
		time.Sleep(time.Second)

		stats := w.client.Stats()
		same(w, []transport.Count{
			{Endpoint: "data_sources.get", Status: 200, N: 2}, // the second as a page was not found
			{Endpoint: "data_sources.query", Status: 0, N: 1},
			{Endpoint: "data_sources.query", Status: 200, N: 1},
			{Endpoint: "databases.get", Status: 200, N: 1},
			{Endpoint: "pages.get", Status: 200, N: 2},
			{Endpoint: "pages.get", Status: 404, N: 1},
			{Endpoint: "pages.update", Status: 200, N: 1},
			{Endpoint: "pages.update", Status: 429, N: 1},
		}, stats.Requests, "requests")
		same(w, map[transport.Lane]int{transport.LaneClaim: 2, transport.LaneLog: 1, transport.LaneSync: 1}, stats.Waiting, "waiting")
		if left := time.Until(stats.PausedUntil); left < 50*time.Second || left > 66*time.Second {
			w.Errorf("paused for another %s", left)
		}
		cancel()
		waiting.Wait()

		// What was not sent because of the pause says so, and when to come back.
		_, err = tasks.Write(w.Context(), id, claimed("Sandman", dawn))
		ctx, cancel = context.WithTimeout(w.Context(), 10*time.Second)
		defer cancel()
		_, permitErr := tasks.Permit(ctx, 2)
		for _, err := range []error{err, permitErr} {
			failed(w, err, claim.Unavailable, claim.LandedNo)
			if held, _ := errors.AsType[*claim.StoreError](err); held != nil && (held.RetryAfter < 50*time.Second || held.RetryAfter > 66*time.Second) {
				w.Errorf("come back after %s", held.RetryAfter)
			}
		}
		// The end of a pause that is nearly over is waited for.
		time.Sleep(time.Until(stats.PausedUntil) - 2*time.Second)
		need(tasks.Permit(w.Context(), 2))(w)
	})
}

// A reading is of the moment that its answer's Date says. If that is missing, or nobody
// else has said so, the reading is of now, as far as is known, and unsure.
func TestAnswersSayOfWhenTheyAre(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{})
		for name, ask := range map[string]func() (claim.Reading, error){
			"read":  func() (claim.Reading, error) { return tasks.Get(w.Context(), id) },
			"write": func() (claim.Reading, error) { return tasks.Write(w.Context(), id, claimed("Sandman", dawn)) },
		} {
			for _, fault := range []emulator.Fault{
				{Kind: emulator.WrongDate, Off: time.Hour}, {Kind: emulator.WrongDate, Off: -time.Hour},
				{Kind: emulator.WrongDate, Off: 10 * 365 * 24 * time.Hour}, {Kind: emulator.NoDate},
			} {
				fault.Times = 1
				defer w.emulator.Inject(fault)()
				for i, unsure := range []bool{true, false} {
					now := time.Now()
					r := need(ask())(w)
					if off, clock := r.At.Sub(now), time.Until(tasks.Now()); r.Unsure != unsure || off.Abs() > time.Second || clock.Abs() > time.Second {
						w.Errorf("%s under %s of %v, answer %d: of now + %v, unsure %v, and the clock is off by %v", name, fault.Kind, fault.Off, i, off, r.Unsure, clock)
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
	for name, jitter := range map[string]func(time.Duration) time.Duration{
		"least jitter": func(time.Duration) time.Duration { return 0 },
		"most jitter":  func(n time.Duration) time.Duration { return n - 1 },
	} {
		for _, pause := range []time.Duration{time.Second, 3 * time.Second, 6 * time.Second, time.Hour} {
			inWorld(t, func(w *world) {
				w.client = w.another(notion.Options{Jitter: jitter})
				tasks, id := w.tasks(notion.TaskSchema{}), w.page(props{})
				w.emulator.Inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: pause})
				for begin := time.Now(); time.Since(begin) < 10*time.Minute; time.Sleep(1700 * time.Millisecond) {
					for who, ask := range map[string]func(context.Context) error{
						"a claim": func(ctx context.Context) error {
							permitted, err := tasks.Permit(ctx, 2)
							if err == nil {
								_, err = tasks.Get(permitted, id)
							}
							return err
						},
						"a person": func(ctx context.Context) error { _, err := tasks.Get(notion.Impatient(ctx), id); return err },
					} {
						ctx, cancel := context.WithCancel(w.Context())
						start := time.Now()
						err := ask(ctx)
						cancel()
						failed, isFailed := errors.AsType[*claim.StoreError](err)
						if took := time.Since(start); !isFailed || failed.Kind != claim.Unavailable || failed.RetryAfter <= 0 || took > 5*time.Second {
							w.Fatalf("%s, pauses of %s, %s: %v after %s, want within 5s an error that says when to try again", name, pause, who, err, took)
						}
					}
				}
			})
		}
	}
}

// refused returns when to try again, if err says that nothing was sent because
// Notion is down.
func refused(err error) (time.Duration, bool) {
	held, isHeld := errors.AsType[*claim.StoreError](err)
	if !isHeld || held.Kind != claim.Unavailable || held.Landed != claim.LandedNo || !strings.Contains(err.Error(), "Notion has been down") {
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
	for _, kind := range []emulator.FaultKind{emulator.DropRequest, emulator.HTML502, emulator.Error503} {
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
				query := func() {
					w.Helper()
					if _, _, err := tasks.Query(w.Context(), notion.Query{}); err == nil {
						w.Fatal("a query succeeded")
					}
				}
				query()
				w.sent()
				start := time.Now()
				_, permit := tasks.Permit(w.Context(), 2)
				_, get := tasks.Get(w.Context(), id)
				_, write := tasks.Write(w.Context(), id, claimed("Sandman", dawn))
				for _, err := range []error{permit, get, write} {
					if again, ok := refused(err); !ok || again <= 0 || again > 30*time.Second {
						w.Errorf("err = %v (again in %s), want a refusal and when to try again", err, again)
					}
				}
				if took, n := time.Since(start), w.sent(); took != 0 || n != 0 {
					w.Errorf("to be refused took %s and %d requests", took, n)
				}

				// While somebody waits, Notion is looked for every three seconds, and less often in the
				// long run. Else an hour costs two requests a minute and some. Nobody who waits makes them.
				for i, want := range [][2]int{{300, 700}, {60, 130}} {
					waiting := i == 0
					w.sent()
					start := time.Now()
					for time.Since(start) < time.Hour {
						if waiting && permitted(tasks) == nil {
							w.Fatal("a permit was given")
						}
						for range 2 { // more often than Notion is looked for
							query()
							time.Sleep(2500 * time.Millisecond)
						}
						if n := len(w.emulator.Requests()); waiting && n > int(time.Since(start)/(3*time.Second))+1 {
							w.Fatalf("%d requests in %s", n, time.Since(start))
						}
					}
					if n := w.sent(); n < want[0] || n > want[1] {
						w.Errorf("somebody waits: %t; %d requests in an hour, want %v", waiting, n, want)
					}
				}

				up()
				for start = time.Now(); ; time.Sleep(time.Second) {
					if _, _, err := tasks.Query(w.Context(), notion.Query{}); err == nil {
						break
					}
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
	for _, tt := range []struct {
		everything, writes bool
		took               time.Duration
		looks              int // at the most
	}{
		{true, false, 13 * time.Second, 1}, {true, true, 13 * time.Second, 1},
		{false, false, 20 * time.Second, 2}, // it is sent twice
		{false, true, 10 * time.Second, 1},
	} {
		t.Run(fmt.Sprintf("everything %t, writes %t", tt.everything, tt.writes), func(t *testing.T) {
			inWorld(t, func(w *world) {
				tasks := w.tasks(notion.TaskSchema{})
				id := w.page(props{})
				w.get(tasks, id)
				fault := emulator.Fault{Kind: emulator.Delay, Delay: time.Hour, Path: "/v1/pages/" + string(id)}
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
						if tt.writes && !tt.everything {
							failed(w, err, claim.Unavailable, claim.LandedUnknown, "no answer within 10s")
						}
					})
				}
				all.Wait()
				if _, down := refused(permitted(tasks)); down != tt.everything {
					w.Errorf("Notion counts as down: %v, want %v", down, tt.everything)
				}
				looks := 0
				for _, r := range w.emulator.Requests() {
					if r.Path == "/v1/users/me" {
						looks++
					}
				}
				if looks < 1 || looks > tt.looks {
					w.Errorf("%d looks, want 1 to %d", looks, tt.looks)
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
		for what, tt := range map[string]struct {
			fault emulator.Fault
			do    func(context.Context) error
		}{
			"a page that is not there": {emulator.Fault{Kind: emulator.Error503, Method: "none"}, func(ctx context.Context) error {
				_, err := tasks.Get(ctx, "11111111-2222-3333-8444-555555555555")
				return err
			}},
			"writes that fail": {emulator.Fault{Kind: emulator.Error503, Method: http.MethodPatch}, func(ctx context.Context) error {
				_, err := tasks.Write(ctx, id, claimed("Sandman", dawn))
				return err
			}},
			"callers that go away": {emulator.Fault{Kind: emulator.Delay, Delay: 8 * time.Second}, func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, err := tasks.Get(ctx, id)
				return err
			}},
		} {
			remove := w.emulator.Inject(tt.fault)
			for range 10 {
				if tt.do(w.Context()) == nil {
					w.Fatalf("%s: it succeeded", what)
				}
			}
			remove()
			w.get(tasks, id)
		}
	})
}

// BenchmarkRequest measures what a request costs from the caller to the network and back: everything but
// the network, which answers what the emulator has answered to the first request of its kind.
func BenchmarkRequest(b *testing.B) {
	em := need(emulator.New(emulator.Options{}))(b)
	defer em.Close()
	databases := need(em.Seed("empty"))(b)
	must(b, em.AddTasks(100))
	id := task.ID(em.Pages(databases.Tasks)[0].ID)
	kept := make(map[string]string)
	network := roundTrip(func(req *http.Request) (*http.Response, error) {
		kind := req.Method + req.URL.Path
		if kept[kind] == "" {
			resp, err := em.Client().Transport.RoundTrip(req)
			if err != nil {
				return nil, err
			}
			kept[kind] = string(need(io.ReadAll(resp.Body))(b))
		} else if req.Body != nil {
			io.Copy(io.Discard, req.Body)
		}
		return answer(http.StatusOK, "application/json", kept[kind]), nil
	})
	client := need(notion.New(notion.Options{Token: em.Token(), Transport: network, Rate: 1e9, Burst: 1e9}))(b)
	tasks := need(client.Tasks(b.Context(), databases.Tasks, notion.TaskSchema{}))(b)
	log := need(client.Log(b.Context(), databases.MeshLog))(b)
	for name, request := range map[string]func() error{
		"get a page":   func() error { _, err := tasks.Get(b.Context(), id); return err },
		"patch a page": func() error { _, err := tasks.Write(b.Context(), id, claimed("Sandman", dawn)); return err },
		"post a page":  func() error { return log.Create(b.Context(), wording.Entry{ID: "1", Title: "Done"}) },
		"post a query": func() error { _, _, err := tasks.Query(b.Context(), notion.Query{}); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must(b, request())
			}
		})
	}
}
