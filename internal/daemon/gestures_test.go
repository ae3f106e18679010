package daemon_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
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
				next, err := client.Do(w.Context(), waits.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", WaitSeconds: 120}))
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
			lost, err := client.Do(w.Context(), a.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture})
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
			if _, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(token, "", api.CompleteRequest{Agent: "Sandman"})); err != nil {
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
		if now, err := client.Do(w.Context(), a.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture}); err != nil || now.State != claim.Held {
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
			cl, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: agent, Task: id, TimeoutMinutes: 10}))
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
				_, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{Agent: cl.Agent}))
				if err != nil && cl.ID == renewed.ID {
					w.Errorf("the renewal: %v", err)
				}
			}
			if err := n.complete(done); err != nil {
				w.Errorf("the completion: %v", err)
			}
		}
		if now, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(renewed.ID), After: api.EventsFuture}); err != nil || now.State != claim.Held {
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

// finishVerbs are the ways to finish a claim, and the status that each sets.
var finishVerbs = map[string]struct {
	status string
	do     func(n *node, cl api.Claim) error
}{
	"complete": {"COMPLETED", func(n *node, cl api.Claim) error {
		_, err := client.Do(n.w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Agent: cl.Agent, Summary: "done"}))
		return err
	}},
	"release": {"OPEN", func(n *node, cl api.Claim) error {
		_, err := client.Do(n.w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{Agent: cl.Agent, Reason: "no time"}))
		return err
	}},
	"block": {"BLOCKED", func(n *node, cl api.Claim) error {
		_, err := client.Do(n.w.Context(), n.Client, api.OpBlock, api.On(string(cl.ID), "", api.BlockRequest{Agent: cl.Agent, Reason: "no access"}))
		return err
	}},
	"fail": {"OPEN", func(n *node, cl api.Claim) error {
		_, err := client.Do(n.w.Context(), n.Client, api.OpFail, api.On(string(cl.ID), "", api.FailRequest{Agent: cl.Agent, Reason: "it does not build", Reopen: true}))
		return err
	}},
}

// personEdits are a person's edits, and whether a card still shows them.
var personEdits = map[string]struct {
	do    func(w *world, id string)
	kept  func(p emulator.Page) bool
	after string // the status after a finish alone, which looks the same
}{
	"CANCELLED": {
		func(w *world, id string) { w.edit(id, map[string]any{"status": option("status", "CANCELLED")}) },
		func(p emulator.Page) bool { return p.Select("status") == "CANCELLED" }, "",
	},
	"OPEN": {
		func(w *world, id string) { w.edit(id, map[string]any{"status": option("status", "OPEN")}) },
		func(p emulator.Page) bool { return p.Select("status") == "OPEN" }, "OPEN",
	},
	"another name": {
		func(w *world, id string) { w.edit(id, map[string]any{"claimed_by": text("rich_text", "Anna")}) },
		func(p emulator.Page) bool { return p.Text("claimed_by") == "Anna" }, "",
	},
	"note": {
		func(w *world, id string) { w.edit(id, map[string]any{"note": text("rich_text", "ask Anna first")}) },
		func(p emulator.Page) bool { return strings.Contains(p.Text("note"), "ask Anna first") }, "",
	},
	"lease": {
		func(w *world, id string) { w.edit(id, map[string]any{"claim_timeout_minutes": number(45)}) },
		func(p emulator.Page) bool { return p.Number("claim_timeout_minutes") == 45 }, "",
	},
	"title": {
		func(w *world, id string) { w.edit(id, map[string]any{"Name": text("title", "another title")}) },
		func(p emulator.Page) bool { return p.Text("Name") == "another title" }, "",
	},
}

// finishWays are the circumstances of a finish. The edits land that long after it began.
var finishWays = map[string]struct {
	fault emulator.FaultKind // for its first write
	lease time.Duration      // how much of the lease is left; negative once it is over
	edits []time.Duration
}{
	"at once":        {"", 6 * time.Minute, around(0, 20*time.Millisecond)},
	"answer lost":    {emulator.DropAnswer, 6 * time.Minute, around(0, 20*time.Millisecond)},
	"saved, and 503": {emulator.SavedBut503, 6 * time.Minute, around(0, 20*time.Millisecond)},
	"write lost":     {emulator.DropRequest, 6 * time.Minute, slices.Concat(around(0, 20*time.Millisecond), around(config.Default().Claim.Settle+finishWay*3, 20*time.Millisecond))},
	"lease over": {"", -3 * time.Second, slices.Concat(around(0, 20*time.Millisecond), around(finishWay*2, 20*time.Millisecond),
		around(config.Default().Claim.Settle+finishWay*6, 20*time.Millisecond))},
}

// finishWay is how long a request takes to Notion, and its answer back.
const finishWay = 20 * time.Millisecond

// around returns times in and around a read and a write that begin then.
func around(began, step time.Duration) (all []time.Duration) {
	for at := -7 * time.Millisecond; at < 6*finishWay; at += step {
		all = append(all, began+at)
	}
	return all
}

// window reports whether something landed between a read of the page and the write that depends on
// it, and describes both. fault struck the first write.
func (w *world) window(id string, began, landed time.Time, fault emulator.FaultKind) (between bool, story string) {
	var read time.Time
	for i, r := range w.notion.Requests() {
		switch {
		case !strings.HasSuffix(r.Path, id):
			continue
		case r.Method == http.MethodGet:
			read = r.Time
		case i > 0 && r.Status == 0 && fault == emulator.DropRequest: // not applied
		default:
			between = between || landed.After(read) && landed.Before(r.Time)
		}
		story += fmt.Sprintf(", %s %v", r.Method, r.Time.Sub(began))
	}
	return between, story
}

// TestEditsAroundAFinish edits a card at every step in and around a finish. An edit survives if it
// lands before the read on which a write of the finish depends, or after that write. Each edit comes
// at each moment of each way, around one of the verbs in turn; with TEST_LONG=all around all of them.
func TestEditsAroundAFinish(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	verbs, edits := slices.Sorted(maps.Keys(finishVerbs)), slices.Sorted(maps.Keys(personEdits))
	for way, meets := range finishWays {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				f := &finishing{world: w, fault: meets.fault, lease: meets.lease}
				f.n = w.daemon(func(c *config.Config) {
					quiet(c)
					c.Notion.Rate, c.Notion.Burst, c.Schedule.Sweep = 100, 100, "@every 100h"
				})
				w.notion.SetLatency(func(*http.Request) (before, after time.Duration) { return finishWay, finishWay })
				for m, after := range meets.edits {
					for e, what := range edits {
						for v, verb := range verbs {
							mine := testkit.InFull() || v == (m+e)%len(verbs)
							if mine && finishVerbs[verb].status != personEdits[what].after {
								f.meets(verb, what, after)
							}
						}
					}
				}
				w.Logf("%d edits outside of the window, all kept; %d inside, of which %d were overwritten", f.outside, f.inside, f.lost)
				if f.lost == 0 {
					w.Error("no edit was overwritten inside of the window: the test does not see what it looks for")
				}
			})
		})
	}
}

// finishing counts edits around finishes of one way.
type finishing struct {
	*world
	n                     *node
	fault                 emulator.FaultKind
	lease                 time.Duration
	outside, inside, lost int
}

// meets finishes a new claim, with an edit that long after it began.
func (f *finishing) meets(verb, what string, after time.Duration) {
	w, edit := f.world, personEdits[what]
	id := w.add(what, map[string]any{"claim_timeout_minutes": number(7)})
	cl := f.n.mustClaim("Sandman", id)
	end := cl.ClaimedAt.Truncate(time.Minute).Add(8 * time.Minute)
	time.Sleep(time.Until(end.Add(-f.lease)))
	w.notion.ResetRequests()
	heal := func() {}
	if f.fault != "" {
		heal = w.notion.Inject(emulator.Fault{Kind: f.fault, Method: http.MethodPatch, Path: "/v1/pages/" + id, Times: 1})
	}
	landed := make(chan time.Time)
	go func() {
		time.Sleep(20*time.Millisecond + after)
		edit.do(w, id)
		landed <- time.Now()
	}()
	time.Sleep(20 * time.Millisecond)
	began := time.Now()
	if err := finishVerbs[verb].do(f.n, cl); err != nil && code(err) != string(api.CodeClaimLost) {
		w.Fatal(err)
	}
	at := <-landed
	time.Sleep(time.Minute)
	heal()
	kept := edit.kept(w.page(id))
	between, story := w.window(id, began, at, f.fault)
	switch {
	case between:
		f.inside++
		if !kept {
			f.lost++
		}
	default:
		f.outside++
		if !kept {
			w.Errorf("%s, %s, %v after the beginning, was lost%s", verb, what, at.Sub(began), story)
		}
	}
	w.trash(id) // else every sync reads more
}

// TestEditsAroundASweep is TestEditsAroundAFinish for a sweep, which marks the page and clears it
// after the settle wait. A page that is trashed meanwhile stays trashed.
func TestEditsAroundASweep(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	// No edit coincides with a request: their order would be chance.
	moments := slices.Concat(around(0, 20*time.Millisecond), around(config.Default().Claim.Settle+finishWay*3, 20*time.Millisecond))
	edits := map[string]func(w *world, id string){"trash": (*world).trash}
	kept := map[string]func(p emulator.Page) bool{"trash": func(p emulator.Page) bool { return p.Trashed }}
	for what, edit := range personEdits {
		if edit.after != "OPEN" {
			edits[what], kept[what] = edit.do, edit.kept
		}
	}
	// A name alone leaves the claim stale: whoever takes the task must set the date, too.
	edits["another name"] = func(w *world, id string) {
		w.edit(id, map[string]any{"claimed_by": text("rich_text", "Anna"), "claimed_at": date(time.Now())})
	}
	for what, edit := range edits {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				n := w.daemon(func(c *config.Config) {
					quiet(c)
					c.Notion.Rate, c.Notion.Burst, c.Schedule.Sweep = 100, 100, "@every 100h"
				})
				w.notion.SetLatency(func(*http.Request) (before, after time.Duration) { return finishWay, finishWay })
				outside, inside, lost := 0, 0, 0
				for _, after := range moments {
					id := w.add(what, map[string]any{
						"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Nyx"),
						"claimed_at": date(time.Now().Add(-2 * time.Hour)), "claim_token": text("rich_text", "01JAAAAAAAAAAAAAAAAAAAAAAA"),
					})
					time.Sleep(time.Minute)
					if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true})); err != nil {
						w.Fatal(err)
					}
					w.notion.ResetRequests()
					landed := make(chan time.Time)
					go func() {
						time.Sleep(20*time.Millisecond + after)
						edit(w, id)
						landed <- time.Now()
					}()
					time.Sleep(20 * time.Millisecond)
					began := time.Now()
					if _, err := client.Do(w.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{}); err != nil && what != "trash" {
						w.Fatal(err)
					}
					at := <-landed
					time.Sleep(time.Minute)
					between, story := w.window(id, began, at, "")
					stays := kept[what](w.page(id))
					switch {
					case between:
						inside++
						if !stays {
							lost++
						}
						continue
					case !stays:
						w.Errorf("%v after the beginning, was lost%s", at.Sub(began), story)
					}
					outside++
				}
				if what == "CANCELLED" && lost == 0 {
					w.Error("no edit was overwritten inside of a window: the test does not see what it looks for")
				}
				if inside == 0 || outside == 0 {
					w.Errorf("%d edits inside of a window and %d outside: the test does not see what it looks for", inside, outside)
				}
			})
		})
	}
}
