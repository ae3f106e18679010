package notion_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

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
