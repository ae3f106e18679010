package daemon_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// openCard is a card that anybody may claim.
var openCard = shown{Status: "OPEN"}

// drag moves a card to another column, as a person.
func (w *world) drag(id string, s task.Status) {
	w.Helper()
	w.edit(id, map[string]any{"status": option("status", string(s))})
}

// until waits for done, at most that long, and returns how long it took.
func (w *world) until(most time.Duration, what string, done func() bool) time.Duration {
	w.Helper()
	began := time.Now()
	for !done() {
		if time.Since(began) > most {
			w.Fatalf("after %v: not %s", most, what)
		}
		time.Sleep(500 * time.Millisecond)
	}
	return time.Since(began)
}

// Dragging a held card to OPEN ends the agent's claim, the agent is told, and the next waiter gets
// the task.
func TestDraggedToOpen(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("contended", nil)
		a, b := w.daemon(nil), w.daemon(nil)
		for _, waits := range []*node{a, b} { // at the holder's daemon, and at another
			cl := a.mustClaim("Sandman", id)
			time.Sleep(5 * time.Minute)
			got := make(chan api.Claim, 1)
			go func() {
				next, err := waits.Claim(w.Context(), api.ClaimRequest{Agent: "Oracle", WaitSeconds: 120}, "")
				if err != nil {
					w.Error(err)
				}
				got <- next
			}()
			time.Sleep(7 * time.Second)
			w.drag(id, task.Open)
			began := time.Now()
			next := <-got
			if took := time.Since(began); took > 3*config.Default().Sync.Interval {
				w.Errorf("the next agent got the task after %v", took)
			}
			lost, err := a.Lookup(w.Context(), string(cl.ID), "")
			if err != nil || lost.Outcome != claim.EndLost || !strings.Contains(lost.Detail, "OPEN by a person") {
				w.Errorf("the claim ended as %s, %q, %v; want it lost, by a person", lost.Outcome, lost.Detail, err)
			}
			if err := waits.complete(next); err != nil {
				w.Error(err)
			}
			w.drag(id, task.Open)
			time.Sleep(time.Minute)
		}
		if !strings.Contains(strings.Join(w.mesh(), "\n"), "cleared: Sandman") {
			w.Errorf("mesh log %q does not tell what was done to the card", w.mesh())
		}
		w.logsAgree(a, b)
	})
}

// A person who puts a name over the agent's keeps the task until giving it back.
func TestTakenOver(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("wanted by Maria", nil)
		a, b := w.daemon(nil), w.daemon(nil)
		a.mustClaim("Sandman", id)
		time.Sleep(5 * time.Minute)
		w.edit(id, map[string]any{"claimed_by": text("rich_text", "Maria")})
		time.Sleep(config.Default().Sync.Interval + time.Second)
		want := shown{Status: "IN_PROGRESS", ClaimedBy: "Maria"}
		if diff := cmp.Diff(want, show(w.page(id))); diff != "" {
			w.Errorf("the card (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Hour) // the agent's lease would have ended and been swept
		if diff := cmp.Diff(want, show(w.page(id))); diff != "" {
			w.Errorf("the card, later (-want +got):\n%s", diff)
		}
		for _, n := range []*node{a, b} {
			if _, err := n.claim("Oracle", id); code(err) != denied(claim.CodeReserved) {
				w.Errorf("Oracle: %v, want reserved", err)
			}
		}
	})
}

// A person's edit during a claim attempt stays, and nothing of the claim does.
func TestTouchedWhileItIsClaimed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(w *world, id string)
		code claim.Code
		want shown
		says string
	}{
		"cancelled": {func(w *world, id string) { w.drag(id, task.Cancelled) }, claim.CodeNotOpen, shown{Status: "CANCELLED"}, "CANCELLED by a person"},
		"completed": {func(w *world, id string) { w.drag(id, task.Completed) }, claim.CodeNotOpen, shown{Status: "COMPLETED"}, "COMPLETED by a person"},
		"blocked":   {func(w *world, id string) { w.drag(id, task.Blocked) }, claim.CodeNotOpen, shown{Status: "BLOCKED"}, "BLOCKED by a person"},
		"taken": {func(w *world, id string) { w.edit(id, map[string]any{"claimed_by": text("rich_text", "Maria")}) },
			claim.CodeReserved, shown{Status: "IN_PROGRESS", ClaimedBy: "Maria"}, "Maria by a person"},
		"trashed, and back": {func(w *world, id string) {
			if err := w.notion.TrashPage(id); err != nil {
				w.Error(err)
			}
			time.AfterFunc(time.Minute, func() {
				if err := w.notion.RestorePage(id); err != nil {
					w.Error(err)
				}
			})
		}, claim.CodeNotOpen, openCard, "trash by a person"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("touched", nil)
				n := w.daemon(nil)
				time.AfterFunc(time.Second, func() { tt.edit(w, id) })
				_, err := n.claim("Sandman", id)
				if code(err) != denied(tt.code) || !strings.Contains(err.Error(), tt.says) {
					w.Errorf("denied: %v, want %s, and %q", err, tt.code, tt.says)
				}
				time.Sleep(5 * time.Minute)
				if diff := cmp.Diff(tt.want, show(w.page(id))); diff != "" {
					w.Errorf("the card (-want +got):\n%s", diff)
				}
				told := false
				for _, p := range w.notion.Pages(w.notion.Databases().MeshLog) {
					told = told || p.Select("event") == "denied" && strings.Contains(p.Text("detail"), tt.says)
				}
				if !told {
					w.Errorf("no entry of the mesh log says %q", tt.says)
				}
			})
		})
	}
}

// A card that shows an ended claim is cleared, whatever brought the claim back.
func TestClaimThatIsOverOnACard(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	// undo restores the card's earlier content.
	undo := func(w *world, id, token string) {
		w.edit(id, map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"),
			"claimed_at": date(time.Now().Add(-5 * time.Minute)), "claim_token": text("rich_text", token),
		})
	}
	for name, run := range map[string]func(w *world, n *node, id, token string){
		"cleared, and undone": func(w *world, n *node, id, token string) {
			w.edit(id, map[string]any{
				"status": option("status", "OPEN"), "claimed_by": text("rich_text", ""), "claim_token": text("rich_text", ""), "claimed_at": map[string]any{"date": nil},
			})
			time.Sleep(time.Minute)
			undo(w, id, token)
		},
		"cancelled, and undone": func(w *world, n *node, id, token string) {
			w.drag(id, task.Cancelled)
			time.Sleep(time.Minute)
			w.drag(id, task.InProgress)
		},
		"completed, and restored": func(w *world, n *node, id, token string) {
			if _, err := n.Complete(w.Context(), token, api.CompleteRequest{Agent: "Sandman"}, ""); err != nil {
				w.Error(err)
			}
			time.Sleep(time.Minute)
			undo(w, id, token)
		},
		"trashed, and back": func(w *world, n *node, id, token string) {
			if err := w.notion.TrashPage(id); err != nil {
				w.Error(err)
			}
			time.Sleep(time.Minute)
			if err := w.notion.RestorePage(id); err != nil {
				w.Error(err)
			}
		},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				inWorld(t, 0, func(w *world) {
					id := w.add("undone", nil)
					o, other := w.options(nil), w.daemon(nil)
					n := w.start(o)
					cl := n.mustClaim("Sandman", id)
					time.Sleep(2 * time.Minute)
					run(w, n, id, string(cl.ID))
					if restart {
						n.stop()
						w.start(o)
					}
					w.until(3*time.Minute, "put right", func() bool { return show(w.page(id)) == openCard })
					time.Sleep(time.Minute)
					if !strings.Contains(strings.Join(w.mesh(), "\n"), "cleared: Sandman") {
						w.Errorf("mesh log %q does not tell what was done to the card", w.mesh())
					}
					other.mustClaim("Oracle", id)
					time.Sleep(5 * time.Minute)
					if got := show(w.page(id)); got.ClaimedBy != "Oracle" {
						w.Errorf("the card shows %+v, want Oracle's claim left alone", got)
					}
				})
			})
		}
	}
}

// A duplicate of a held card, or a card from a template, is a task of its own.
func TestDuplicatedAndTemplated(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("original", nil)
		a, b := w.daemon(nil), w.daemon(nil)
		cl := a.mustClaim("Sandman", id)
		copied := map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"),
			"claimed_at": date(time.Now()), "claim_token": text("rich_text", string(cl.ID)),
		}
		duplicate := w.add("original (1)", copied)
		copied["status"] = option("status", "OPEN")
		templated := w.add("from a template", copied)
		time.Sleep(2 * config.Default().Sync.Interval)
		for _, one := range []string{duplicate, templated} {
			if diff := cmp.Diff(openCard, show(w.page(one))); diff != "" {
				w.Errorf("the copy (-want +got):\n%s", diff)
			}
			b.mustClaim("Oracle", one)
		}
		time.Sleep(10 * time.Minute)
		if now, err := a.Lookup(w.Context(), string(cl.ID), ""); err != nil || now.State != claim.Held {
			w.Errorf("the claim of the original is %s, %s, %v; want it held", now.State, now.Detail, err)
		}
		events := a.get("/v1/events?after=0&follow=false&agent=Sandman")
		if strings.Contains(events, duplicate) || strings.Contains(events, templated) {
			w.Errorf("Sandman is told of the copies:\n%s", events)
		}
	})
}

// A person's edit between the read and the write of a claim is overwritten: nothing can prevent
// that. The daemon reports how long that window is.
func TestEditBetweenReadAndWrite(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("edited at the wrong moment", nil)
		n := w.daemon(nil)
		if s := n.status(); s.ReadToWrite != nil {
			w.Errorf("before any claim: %+v", s.ReadToWrite)
		}
		w.notion.SetLatency(func(*http.Request) (before, after time.Duration) {
			return 200 * time.Millisecond, 200 * time.Millisecond
		})
		time.AfterFunc(300*time.Millisecond, func() { w.drag(id, task.Cancelled) }) // the read takes effect after 200 ms
		cl := n.mustClaim("Sandman", id)
		if got := show(w.page(id)); got.Status != "IN_PROGRESS" {
			w.Errorf("the card shows %+v: if the edit can be saved, say so", got)
		}
		s := n.status()
		if got := s.ReadToWrite; got == nil || got.Writes != 1 || got.SlowestSeconds < 0.8 || got.SlowestSeconds > 0.9 || got.MedianSeconds != got.SlowestSeconds {
			w.Errorf("read to write: %+v, want 0.8 seconds", got)
		}
		if got := n.samples()["dibs_claim_read_to_write_seconds_count"]; got != "1" {
			w.Errorf("dibs_claim_read_to_write_seconds_count = %s", got)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
	})
}

// refusesPage answers 400 to all requests about one page.
type refusesPage struct {
	http.RoundTripper
	page atomic.Value // a string; unset for none
}

func (r *refusesPage) RoundTrip(req *http.Request) (*http.Response, error) {
	if page, set := r.page.Load().(string); !set || !strings.HasSuffix(req.URL.Path, page) {
		return r.RoundTripper.RoundTrip(req)
	}
	return &http.Response{
		StatusCode: http.StatusBadRequest, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}},
		Body:   io.NopCloser(strings.NewReader(`{"object":"error","status":400,"code":"validation_error","message":"body failed validation"}`)),
	}, nil
}

// If Notion refuses one page, the others are still swept, renewed, delivered and cleared.
func TestOnePageIsRefused(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		notion := &refusesPage{RoundTripper: w.notion.Client().Transport}
		o := w.options(nil)
		o.Transport = notion
		n := w.start(o)
		long := func(agent, id string) api.Claim {
			cl, err := n.Claim(w.Context(), api.ClaimRequest{Agent: agent, Task: id, TimeoutMinutes: 10}, "")
			if err != nil {
				w.Fatal(err)
			}
			return cl
		}
		bad, good := w.add("refused", nil), w.add("renewed", nil)
		finished, left := w.add("finished", nil), w.add("left behind", nil)
		refused, renewed := long("Sandman", bad), long("Oracle", good)
		long("Hypnos", left)
		done := long("Morpheus", finished)
		notion.page.Store(bad)
		for range 8 { // the agents are alive, even the one whose page is refused
			time.Sleep(2 * time.Minute)
			for _, cl := range []api.Claim{refused, renewed} {
				_, err := n.Renew(w.Context(), string(cl.ID), api.RenewRequest{Agent: cl.Agent}, "")
				if err != nil && cl.ID == renewed.ID {
					w.Errorf("the renewal: %v", err)
				}
			}
			if err := n.complete(done); err != nil {
				w.Errorf("the completion: %v", err)
			}
		}
		if now, err := n.Lookup(w.Context(), string(renewed.ID), ""); err != nil || now.State != claim.Held {
			w.Errorf("the claim whose page is fine is %s, %v", now.State, err)
		}
		if got := show(w.page(left)); got != openCard {
			w.Errorf("what was left behind shows %+v, want it swept", got)
		}
		if got := show(w.page(finished)); got.Status != "COMPLETED" {
			w.Errorf("what was finished shows %+v", got)
		}
		if err := n.complete(refused); err == nil {
			if got := show(w.page(bad)); got.Status == "COMPLETED" {
				w.Errorf("the refused page shows %+v", got)
			}
		}
		w.drag(good, task.Open)
		w.until(time.Minute, "handed out", func() bool { return show(w.page(good)) == openCard })
	})
}
