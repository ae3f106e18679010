package claim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// steady is a network where every call takes 200 ms, half of it before its effect.
func steady(name string) sim.DaemonOptions {
	return sim.DaemonOptions{StoreOptions: sim.StoreOptions{Name: name, Latency: sim.Always(sim.Delay{Before: 100 * time.Millisecond, After: 100 * time.Millisecond})}}
}

func TestUncontendedClaim(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.start(steady("a"))
		time.Sleep(42*time.Second + 500*time.Millisecond)
		begun := time.Now()
		c := w.claim(d, "Sandman")

		// Two calls before the settle wait, one after it.
		if got, want := time.Since(begun), 3*time.Second+600*time.Millisecond; got != want {
			t.Errorf("took %v, want %v", got, want)
		}
		want := []sim.Kind{sim.Reads, sim.Claims, sim.Reads}
		same(t, "requests", want, requests(d))
		// By the daemon's clock, with which the answer dated 0:42 agrees.
		claimedAt := bubbleStart.Add(42*time.Second + 700*time.Millisecond)
		wantWrite := &claim.Write{
			Status: new(task.InProgress), ClaimedBy: new("Sandman"), ClaimedAt: &claimedAt, Token: new(string(c.ID)),
		}
		same(t, "claim write", wantWrite, d.Store.Calls()[1].Write)
		wantPage := openTask()
		wantPage.Status, wantPage.ClaimedBy, wantPage.ClaimedAt, wantPage.Token = task.InProgress, "Sandman", bubbleStart, string(c.ID)
		same(t, "page", wantPage, w.Page(page))

		if _, ok := claim.ParseID(string(c.ID)); !ok {
			t.Errorf("claim id %q has not the form of one", c.ID)
		}
		wantClaim := claim.Hold{
			ID: c.ID, Agent: "Sandman", Task: wantPage, State: claim.Held, Fence: 1,
			Reserved: begun, Started: bubbleStart.Add(46 * time.Second), Lease: claim.Lease{ClaimedAt: claimedAt, Timeout: 30 * time.Minute, StaleAt: bubbleStart.Add(31*time.Minute + 15*time.Second), Heartbeat: claimedAt},
		}
		same(t, "claim", wantClaim, c)
		same(t, "ledger", c, w.only(d))
		if want := claimedAt.Add(30 * time.Minute); !c.ExpiresAt().Equal(want) {
			t.Errorf("expires at %v, want %v", c.ExpiresAt(), want)
		}
		events := d.Ledger.Events()
		if len(events) != 1 || events[0].Kind != claim.KindGranted || !events[0].Remote || events[0].Claim != c.ID || events[0].Title != "Mend the roof" {
			t.Errorf("events %+v, want one grant", events)
		}
	})
}

// Who a task is assigned to claims it like any other, and its other session, of another
// daemon, does not get it as well.
func TestClaimOfAnAssignment(t *testing.T) {
	for _, status := range []task.Status{task.Open, task.InProgress} {
		t.Run(string(status), func(t *testing.T) {
			first := openTask()
			first.Status, first.ClaimedBy = status, "Sandman"
			inWorld(t, first, func(w *world) {
				a, b := w.daemon("a"), w.daemon("b")
				w.deny(a, "Oracle", claim.CodeReserved)
				granted := w.race(entrant{daemon: a, agent: "Sandman"}, entrant{daemon: b, agent: "Sandman"}, entrant{daemon: b, agent: "Oracle"})
				if len(granted) != 1 || granted[0].Agent != "Sandman" || granted[0].Former != "" {
					t.Fatalf("granted %+v, want it once, to Sandman", granted)
				}
				if p := w.Page(page); p.Status != task.InProgress || p.ClaimedAt.IsZero() || p.Token != string(granted[0].ID) {
					t.Errorf("page %+v, want the claim on it", p)
				}
			})
		})
	}
}

func TestLosersOfTheSameDaemonCostNoRequest(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.start(steady("a"))
		var wg sync.WaitGroup
		wg.Go(func() { w.race(entrant{daemon: d, agent: "Sandman"}) })
		time.Sleep(time.Second)
		// While it is being claimed.
		denied := w.deny(d, "Oracle", claim.CodeHeld)
		if denied.Holder != "Sandman" || !denied.ExpiresAt.IsZero() {
			t.Errorf("denied %+v, want Sandman as holder and no expiry yet", denied)
		}
		wg.Wait()

		// Once it is held; Sandman's other session is no exception.
		held := w.only(d)
		for _, agent := range []string{"Oracle", "Sandman", "Hypnos", "Oracle"} {
			denied := w.deny(d, agent, claim.CodeHeld)
			if denied.Holder != "Sandman" || !denied.ExpiresAt.Equal(held.ExpiresAt()) || denied.Task.Title != "Mend the roof" {
				t.Errorf("%s: denied %+v, want Sandman as holder, until %v, with the title", agent, denied, held.ExpiresAt())
			}
		}
		if got := len(d.Store.Calls()); got != 3 {
			t.Errorf("%d requests, want the 3 of the winner", got)
		}

		// The refusals are summed up when the claim ends.
		w.finish(d, held, claim.EndReleased)
		events := d.Ledger.Events()
		contested := events[len(events)-1]
		if contested.Kind != claim.KindContested || contested.Count != 5 || !cmp.Equal(contested.Names, []string{"Hypnos", "Oracle", "Sandman"}) {
			t.Errorf("last event %+v, want 5 refusals of Hypnos, Oracle and Sandman", contested)
		}
	})
}

// waiting is a board on which all that a task depends on is still to be done.
type waiting struct{ claim.OpenBoard }

func (waiting) Blockers(_ context.Context, t task.Task) ([]task.ID, error) { return t.DependsOn, nil }

func TestDenials(t *testing.T) {
	live := bubbleStart.Add(-10 * time.Minute)
	for name, tt := range map[string]struct {
		change  func(*task.Task)
		code    claim.Code
		holder  string
		expires time.Duration // after the bubble's start, 0 for none
		says    string
	}{
		"held by an agent of another daemon":       {func(t *task.Task) { hold(t, "Oracle", live) }, claim.CodeHeld, "Oracle", 21 * time.Minute, ""},
		"held under one's own name":                {func(t *task.Task) { hold(t, "Sandman", live) }, claim.CodeHeld, "Sandman", 21 * time.Minute, ""},
		"held with a lease of its own":             {func(t *task.Task) { hold(t, "Oracle", bubbleStart); t.Timeout = 2 * time.Hour }, claim.CodeHeld, "Oracle", 121 * time.Minute, ""},
		"reserved by a person":                     {func(t *task.Task) { t.ClaimedBy = "Maria" }, claim.CodeReserved, "Maria", 0, "assigned to Maria"},
		"trashed":                                  {func(t *task.Task) { t.Trashed = true }, claim.CodeNotOpen, "", 0, "trash"},
		"completed":                                {func(t *task.Task) { t.Status = task.Completed }, claim.CodeNotOpen, "", 0, "COMPLETED"},
		"waiting for another task":                 {func(t *task.Task) { t.DependsOn = []task.ID{otherPage} }, claim.CodeBlockedByDependency, "", 0, "waits for another task"},
		"stale, with overrides of open tasks only": {func(t *task.Task) { *t = staleTask() }, claim.CodeNotOpen, "Ghost", -89 * time.Minute, "sweep"},
	} {
		t.Run(name, func(t *testing.T) {
			first := openTask()
			tt.change(&first)
			inWorld(t, first, func(w *world) {
				o := sim.DaemonOptions{Policy: sim.Policy(), Board: waiting{}}
				o.Policy.OpenOnly = true
				d := w.start(o)
				before := w.Page(page)
				denied := w.deny(d, "Sandman", tt.code)
				var expires time.Time
				if tt.expires != 0 {
					expires = bubbleStart.Add(tt.expires)
				}
				if denied.Holder != tt.holder || !denied.ExpiresAt.Equal(expires) || !strings.Contains(denied.Detail, tt.says) || denied.Task.Title != "Mend the roof" {
					t.Errorf("denied %+v; want holder %q until %v, saying %q", denied, tt.holder, expires, tt.says)
				}
				if n := len(d.Store.Calls()); n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
				same(t, "page", before, w.Page(page))
				w.none(d)
				events := d.Ledger.Events()
				if len(events) != 1 || events[0].Kind != claim.KindDenied || events[0].Code != tt.code || events[0].Holder != tt.holder || !events[0].Remote {
					t.Errorf("events %+v, want one denial that reached Notion", events)
				}
			})
		})
	}
}

// hold puts a live claim on a task, made at the given time elsewhere.
func hold(t *task.Task, agent string, at time.Time) {
	t.Status, t.ClaimedBy, t.ClaimedAt, t.Token = task.InProgress, agent, at, string(claim.NewID(at))
}

func TestUnknownPage(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		w.Remove(page)
		w.deny(d, "Sandman", claim.CodeNotFound)
		w.none(d)
	})
}

func TestTrashedBetweenReadAndWrite(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.start(steady("a"))
		time.AfterFunc(250*time.Millisecond, func() { w.Edit(page, func(t *task.Task) { t.Trashed = true }) })
		w.deny(d, "Sandman", claim.CodeNotOpen)
		w.none(d)
		if w.Page(page).ClaimedBy != "" {
			t.Error("a page in the trash was written")
		}
	})
}

func TestMostTasksPerAgent(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		second := openTask()
		second.ID = otherPage
		w.Add(second)
		o := sim.DaemonOptions{Policy: sim.Policy()}
		o.Policy.MaxPerAgent = 1
		d := w.start(o)
		first := w.claim(d, "Sandman")

		sent := len(d.Store.Calls())
		_, err := d.Claim(w.ctx, claim.Request{Agent: "Sandman", Task: second})
		if denied := w.denied(err); denied.Code != claim.CodeLimitReached || !strings.Contains(denied.Detail, "(1)") {
			t.Errorf("denied %+v, want limit_reached", denied)
		} else if len(denied.Has) != 1 || denied.Has[0].ID != first.ID || !strings.Contains(denied.Detail, "“"+first.Task.Title+"”") {
			t.Errorf("denied %+v, want it to name %q", denied, first.Task.Title)
		}
		if n := len(d.Store.Calls()); n != sent {
			t.Errorf("the refusal took %d requests", n-sent)
		}
		w.ok(errOf(d.Claim(w.ctx, claim.Request{Agent: "Oracle", Task: second})))
		// A request may come with a limit of its own.
		_, err = d.Claim(w.ctx, claim.Request{Agent: "Hypnos", Task: second, Limit: new(0)})
		if denied := w.denied(err); denied.Code != claim.CodeHeld {
			t.Errorf("denied %+v, want held", denied)
		}

		w.finish(d, first, claim.EndReleased)
		w.claim(d, "Sandman")
	})
}

// What is being withdrawn from Notion does not count against its agent, nor
// keep the task from the others here: the page speaks for itself.
func TestAbandonedAttemptsDoNotCount(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		o := sim.DaemonOptions{Policy: sim.Policy()}
		o.Policy.MaxPerAgent = 1
		d := w.start(o, sim.InTurn(sim.Claims, sim.RequestDropped))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		if got := w.onlyMark(d).State; got != claim.Unseen {
			t.Fatalf("the attempt is %s, want unseen", got)
		}
		w.claim(d, "Sandman")
	})
}

func TestOverride(t *testing.T) {
	for _, status := range []task.Status{task.InProgress, task.Open} {
		t.Run(string(status), func(t *testing.T) {
			first := staleTask()
			first.Status = status
			inWorld(t, first, func(w *world) {
				o := sim.DaemonOptions{Policy: sim.Policy()}
				o.Policy.OpenOnly = status == task.Open // does not stand in the way of an open task
				d := w.start(o)
				c := w.claim(d, "Sandman")
				if c.Former != "Ghost" {
					t.Errorf("claim %+v, want an override of Ghost", c)
				}
				w.shows(task.InProgress, "Sandman", string(c.ID))
				events := d.Ledger.Events()
				if len(events) != 2 || events[0].Kind != claim.KindGranted || events[1].Kind != claim.KindOverridden || events[1].Holder != "Ghost" || events[1].Agent != "Sandman" {
					t.Errorf("events %+v, want granted and overridden", events)
				}
			})
		})
	}
}

// An override through the same daemon ends the claim that went stale.
func TestOverrideOfOnesOwn(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		old := w.claim(d, "Sandman")
		second := openTask()
		second.ID = otherPage
		w.Add(second)
		other, err := d.Claim(w.ctx, claim.Request{Agent: "Hypnos", Task: second})
		w.ok(err)
		time.Sleep(time.Until(old.StaleAt))
		w.deny(d, "Oracle", claim.CodeHeld)
		time.Sleep(time.Second)
		w.claim(d, "Oracle")
		if got := w.record(d, old.ID); got.State != claim.Ended || got.Ending != claim.EndOverridden {
			t.Errorf("the stale claim is %s, %s; want it overridden", got.State, got.Ending)
		}
		_, err = d.Finish(w.ctx, old.ID, claim.Finish{As: claim.EndCompleted})
		w.lost(err)
		if got := w.record(d, other.ID); got.State != claim.Held {
			t.Errorf("the claim on another task is %s, %s; want it held", got.State, got.Ending)
		}
	})
}

// alone is a daemon that is the only claimer and does not wait for the page to settle.
func (w *world) alone(faults ...sim.Fault) *sim.Daemon {
	w.Helper()
	o := sim.DaemonOptions{Policy: sim.Policy()}
	o.Policy.Exclusive, o.Policy.Settle = true, 0
	return w.start(o, faults...)
}

// Where nobody else claims, the answer to the write is enough.
func TestClaimWithoutSettling(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.alone()
		c := w.claim(d, "Sandman")
		if want := []sim.Kind{sim.Reads, sim.Claims}; !slices.Equal(requests(d), want) {
			t.Errorf("requests %v, want %v", requests(d), want)
		}
		w.shows(task.InProgress, "Sandman", string(c.ID))
		w.finish(d, c, claim.EndCompleted)
		w.shows(task.Completed, "Sandman", "done "+string(c.ID)+" "+c.Agent)
	})
}

// An answer that does not show the claim, all of it, grants nothing by itself.
func TestNotShownWithoutSettling(t *testing.T) {
	for name, fault := range map[string]sim.Fault{
		"not applied":    sim.NotApplied,
		"answer dropped": sim.AnswerDropped,
		"slow":           sim.Slow(0, 3e9),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.alone(sim.InTurn(sim.Claims, fault))
				if _, err := d.Claim(w.ctx, request("Sandman")); err == nil && count(d, sim.Reads) < 2 {
					t.Errorf("granted after %v", requests(d))
				}
			})
		})
	}
}

// A person who puts another name on the task at the same moment wins.
func TestOverwrittenWithoutSettling(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.alone(func(s claim.Store) claim.Store { return overwritten{s, w} })
		if denied := w.deny(d, "Sandman", claim.CodeLostRace); denied.Holder != "Maria" {
			t.Errorf("denied %+v, want Maria as holder", denied)
		}
		w.shows(task.InProgress, "Maria", string(w.onlyMark(d).ID))
	})
}

// overwritten is a store on which a person puts her name right after each claim.
type overwritten struct {
	claim.Store
	w *world
}

func (s overwritten) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	r, err := s.Store.Write(ctx, id, w)
	if sim.KindOf(&w) == sim.Claims {
		s.w.Edit(id, func(t *task.Task) { t.ClaimedBy = "Maria" })
		r.Task.ClaimedBy = "Maria"
	}
	return r, err
}

// Whatever happens to a claim while it settles, it is not granted.
func TestTouchedWhileSettling(t *testing.T) {
	rival := string(claim.NewID(bubbleStart))
	for _, tt := range []struct {
		name   string
		edit   func(*task.Task)
		holder string
	}{
		{"overwritten", func(t *task.Task) { t.ClaimedBy, t.Token = "Oracle", rival }, "Oracle"},
		{"overwritten under the same name", func(t *task.Task) { t.Token = rival }, "Sandman"},
		{"marked void", func(t *task.Task) { t.Token = "void " + rival }, ""},
		{"token cleared", func(t *task.Task) { t.Token = "" }, "Sandman"},
		{"name cleared", func(t *task.Task) { t.ClaimedBy = "" }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a")
				time.AfterFunc(time.Second, func() { w.Edit(page, tt.edit) })
				denied := w.deny(d, "Sandman", claim.CodeLostRace)
				if denied.Holder != tt.holder || denied.ExpiresAt.IsZero() != (tt.holder == "") {
					t.Errorf("denied %+v, want %q as holder, and until when", denied, tt.holder)
				}
				w.none(d)
				w.sync(2*time.Minute, d)
				if n := len(w.History(page)); n != 3 {
					t.Errorf("the page has %d versions, want none after the edit", n)
				}
			})
		})
	}
}

// What a person does to a task in the middle of an attempt stands, nothing of the attempt
// stays on the card, and the denial says whose doing it was.
func TestPersonEditsWhileSettling(t *testing.T) {
	for _, tt := range []struct {
		name   string
		edit   func(*task.Task)
		code   claim.Code
		holder string
		says   string
	}{
		{"cancelled", func(t *task.Task) { t.Status = task.Cancelled }, claim.CodeNotOpen, "", "CANCELLED by a person"},
		{"completed", func(t *task.Task) { t.Status = task.Completed }, claim.CodeNotOpen, "", "COMPLETED by a person"},
		{"blocked", func(t *task.Task) { t.Status = task.Blocked }, claim.CodeNotOpen, "", "BLOCKED by a person"},
		{"status unknown", func(t *task.Task) { t.Status = task.Unknown }, claim.CodeNotOpen, "", "by a person"},
		{"opened", func(t *task.Task) { t.Status = task.Open }, claim.CodeLostRace, "", "OPEN by a person"},
		{"given to somebody else", func(t *task.Task) { t.ClaimedBy = "Maria" }, claim.CodeReserved, "Maria", "set to Maria by a person"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				w.Edit(page, func(t *task.Task) { t.Timeout = 45 * time.Minute })
				d := w.daemon("a")
				time.AfterFunc(time.Second, func() { w.Edit(page, tt.edit) })
				r := request("Sandman")
				r.Timeout = 2 * time.Hour
				_, err := d.Claim(w.ctx, r)
				denied := w.denied(err)
				if denied.Code != tt.code || denied.Holder != tt.holder || !strings.Contains(denied.Detail, tt.says) {
					t.Errorf("denied %s, %q, %q; want %s, %q, %q", denied.Code, denied.Holder, denied.Detail, tt.code, tt.holder, tt.says)
				}
				want := openTask()
				want.Timeout = 45 * time.Minute
				tt.edit(&want)
				if want.Status == task.Open && tt.holder != "" {
					want.Status = task.InProgress // as the claim left it, and the person did not mind
				}
				same(t, "page", want, w.Page(page))
				w.none(d)
				w.sync(2*time.Minute, d)
				same(t, "page", want, w.Page(page))
				if e := d.Ledger.Events()[0]; e.Code != tt.code || !strings.Contains(e.Detail, tt.says) {
					t.Errorf("the log says %s, %q", e.Code, e.Detail)
				}
			})
		})
	}
}

// A task that is put into the trash while a claim settles is for the taking once it
// is restored.
func TestTrashedWhileSettling(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		time.AfterFunc(time.Second, func() { w.Edit(page, func(t *task.Task) { t.Trashed = true }) })
		if denied := w.deny(d, "Sandman", claim.CodeNotOpen); !strings.Contains(denied.Detail, "trash by a person") {
			t.Errorf("denied: %s", denied.Detail)
		}
		w.sync(2*time.Minute, d)
		if n := len(w.History(page)); n != 3 {
			t.Errorf("the page has %d versions, want none after the edit", n)
		}
		w.Edit(page, func(t *task.Task) { t.Trashed = false })
		w.sync(3*time.Minute, d)
		w.shows(task.Open, "", "")
		w.none(d)
	})
}

// counter is a store that answers requests one after the other, each of which takes
// some time: whoever comes while others wait is answered late.
type counter struct {
	claim.Store
	each time.Duration

	mu   *sync.Mutex
	free *time.Time
}

func (s counter) serve() {
	s.mu.Lock()
	now := time.Now()
	if s.free.Before(now) {
		*s.free = now
	}
	*s.free = s.free.Add(s.each)
	wait := s.free.Sub(now)
	s.mu.Unlock()
	time.Sleep(wait)
}

func (s counter) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	s.serve()
	return s.Store.Get(ctx, id)
}

func (s counter) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	s.serve()
	return s.Store.Write(ctx, id, w)
}

// More agents than the store can answer in time get as many tasks as few would:
// those who come too late are told to wait, and what is written is granted.
func TestCrowd(t *testing.T) {
	const each = 20 * time.Millisecond // 50 requests a second
	granted := func(t *testing.T, agents int) (n, refused int) {
		synctest.Test(t, func(t *testing.T) {
			register := sim.NewRegister()
			o := sim.DaemonOptions{Policy: sim.Policy()}
			o.Policy.WriteWindow, o.Policy.Settle, o.Policy.Exclusive = 300*time.Millisecond, 0, true
			o.Fault = func(s claim.Store) claim.Store { return counter{s, each, new(sync.Mutex), new(time.Time)} }
			d := register.Daemon(o)
			defer d.Close()
			var mu sync.Mutex
			var all sync.WaitGroup
			for i := range agents {
				all.Go(func() {
					for k := 0; time.Since(bubbleStart) < time.Minute; k++ {
						next := task.Task{ID: task.ID(fmt.Sprintf("%08d-1111-1111-1111-%012d", i, k)), Status: task.Open}
						register.Add(next)
						c, err := d.Claim(t.Context(), claim.Request{Agent: fmt.Sprint(i), Task: next})
						mu.Lock()
						if denied := (*claim.Denied)(nil); err == nil {
							n++
						} else if errors.As(err, &denied) && denied.RetryAfter > 0 {
							refused++
						}
						mu.Unlock()
						if err == nil {
							if _, err := d.Finish(t.Context(), c.ID, claim.Finish{As: claim.EndReleased}); err != nil {
								t.Error(err)
							}
						} else {
							time.Sleep(time.Second)
						}
					}
				})
			}
			all.Wait()
		})
		return n, refused
	}
	few, _ := granted(t, 4)
	many, refused := granted(t, 64)
	t.Logf("64 agents: %d claims in a minute, %d refusals; 4 agents: %d claims", many, refused, few)
	if many < few*8/10 {
		t.Errorf("64 agents got %d claims, 4 agents %d: want at least 80 %%", many, few)
	}
}
