package claim_test

import (
	"context"
	"strings"
	"sync"
	"testing"
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
		if diff := cmp.Diff(want, requests(d)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		// By the daemon's clock, with which the answer dated 0:42 agrees.
		claimedAt := bubbleStart.Add(42*time.Second + 700*time.Millisecond)
		wantWrite := &claim.Write{
			Status: new(task.InProgress), ClaimedBy: new("Sandman"), ClaimedAt: &claimedAt, Token: new(string(c.ID)),
		}
		if diff := cmp.Diff(wantWrite, d.Store.Calls()[1].Write); diff != "" {
			t.Errorf("claim write (-want +got):\n%s", diff)
		}
		wantPage := openTask()
		wantPage.Status, wantPage.ClaimedBy, wantPage.ClaimedAt, wantPage.Token = task.InProgress, "Sandman", bubbleStart, string(c.ID)
		if diff := cmp.Diff(wantPage, w.Page(page)); diff != "" {
			t.Errorf("page (-want +got):\n%s", diff)
		}

		if _, ok := claim.ParseID(string(c.ID)); !ok {
			t.Errorf("claim id %q has not the form of one", c.ID)
		}
		wantClaim := claim.Hold{
			ID: c.ID, Agent: "Sandman", Task: wantPage, State: claim.Held, Fence: 1,
			Reserved: begun, Started: bubbleStart.Add(46 * time.Second), Lease: claim.Lease{ClaimedAt: claimedAt, Timeout: 30 * time.Minute, StaleAt: bubbleStart.Add(31*time.Minute + 15*time.Second), Heartbeat: claimedAt},
		}
		if diff := cmp.Diff(wantClaim, c); diff != "" {
			t.Errorf("claim (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(c, w.only(d)); diff != "" {
			t.Errorf("ledger (-claim +ledger):\n%s", diff)
		}
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
		_, err := d.Finish(w.ctx, held.ID, claim.Finish{As: claim.EndReleased})
		w.ok(err)
		events := d.Ledger.Events()
		contested := events[len(events)-1]
		if contested.Kind != claim.KindContested || contested.Count != 5 || !cmp.Equal(contested.Names, []string{"Hypnos", "Oracle", "Sandman"}) {
			t.Errorf("last event %+v, want 5 refusals of Hypnos, Oracle and Sandman", contested)
		}
	})
}

func TestSameDaemonRaceHasOneWinner(t *testing.T) {
	for seed := range uint64(50) {
		inWorld(t, openTask(), func(w *world) {
			o := sim.DaemonOptions{StoreOptions: sim.StoreOptions{Name: "a", Seed: seed, Latency: sim.Uniform(300 * time.Millisecond)}}
			d := w.start(o)
			var entrants []entrant
			for _, agent := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				entrants = append(entrants, entrant{daemon: d, agent: agent})
			}
			if n := len(w.race(entrants...)); n != 1 {
				t.Errorf("seed %d: %d agents were granted the task, want 1", seed, n)
			}
			if n := len(d.Store.Calls()); n != 3 {
				t.Errorf("seed %d: %d requests, want 3", seed, n)
			}
		})
	}
}

// waiting is a board on which all that a task depends on is still to be done.
type waiting struct{ claim.OpenBoard }

func (waiting) Blockers(_ context.Context, t task.Task) ([]task.ID, error) { return t.DependsOn, nil }

func TestDenials(t *testing.T) {
	tests := []struct {
		name     string
		change   func(*task.Task)
		policy   func(*claim.Policy)
		code     claim.Code
		holder   string
		expires  time.Duration // after the bubble's start, 0 for none
		says     string
		requests int
	}{
		{
			name:   "held by an agent of another daemon",
			change: func(t *task.Task) { hold(t, "Oracle", bubbleStart.Add(-10*time.Minute)) },
			code:   claim.CodeHeld, holder: "Oracle", expires: 21 * time.Minute, requests: 1,
		},
		{
			name:   "held under one's own name",
			change: func(t *task.Task) { hold(t, "Sandman", bubbleStart.Add(-10*time.Minute)) },
			code:   claim.CodeHeld, holder: "Sandman", expires: 21 * time.Minute, requests: 1,
		},
		{
			name:   "held with a lease of its own",
			change: func(t *task.Task) { hold(t, "Oracle", bubbleStart); t.Timeout = 2 * time.Hour },
			code:   claim.CodeHeld, holder: "Oracle", expires: 121 * time.Minute, requests: 1,
		},
		{
			name:   "reserved by a person",
			change: func(t *task.Task) { t.ClaimedBy = "Maria" },
			code:   claim.CodeReserved, holder: "Maria", says: "assigned to Maria", requests: 1,
		},
		{
			name:   "assigned to another agent, in progress",
			change: func(t *task.Task) { t.Status, t.ClaimedBy = task.InProgress, "Oracle" },
			code:   claim.CodeReserved, holder: "Oracle", requests: 1,
		},
		{
			name:   "assigned, and waiting for another task",
			change: func(t *task.Task) { t.ClaimedBy, t.DependsOn = "Sandman", []task.ID{otherPage} },
			code:   claim.CodeBlockedByDependency, says: "waits for another task", requests: 1,
		},
		{
			name:   "trashed",
			change: func(t *task.Task) { t.Trashed = true },
			code:   claim.CodeNotOpen, says: "trash", requests: 1,
		},
		{
			name:   "completed",
			change: func(t *task.Task) { t.Status = task.Completed },
			code:   claim.CodeNotOpen, says: "COMPLETED", requests: 1,
		},
		{
			name:   "waiting for another task",
			change: func(t *task.Task) { t.DependsOn = []task.ID{otherPage} },
			code:   claim.CodeBlockedByDependency, says: "waits for another task", requests: 1,
		},
		{
			name:   "stale, with overrides of open tasks only",
			change: func(t *task.Task) { *t = staleTask() },
			policy: func(p *claim.Policy) { p.OpenOnly = true },
			code:   claim.CodeNotOpen, holder: "Ghost", expires: -89 * time.Minute, says: "sweep", requests: 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first := openTask()
			tt.change(&first)
			inWorld(t, first, func(w *world) {
				o := sim.DaemonOptions{
					Policy: sim.Policy(),
					Board:  waiting{},
				}
				if tt.policy != nil {
					tt.policy(&o.Policy)
				}
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
				if n := len(d.Store.Calls()); n != tt.requests {
					t.Errorf("%d requests, want %d", n, tt.requests)
				}
				if diff := cmp.Diff(before, w.Page(page)); diff != "" {
					t.Errorf("the page changed:\n%s", diff)
				}
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
		_, err = d.Claim(w.ctx, claim.Request{Agent: "Oracle", Task: second})
		w.ok(err)
		// A request may come with a limit of its own.
		_, err = d.Claim(w.ctx, claim.Request{Agent: "Hypnos", Task: second, Limit: new(0)})
		if denied := w.denied(err); denied.Code != claim.CodeHeld {
			t.Errorf("denied %+v, want held", denied)
		}

		_, err = d.Finish(w.ctx, first.ID, claim.Finish{As: claim.EndReleased})
		w.ok(err)
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
