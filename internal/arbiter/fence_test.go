package arbiter_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/task"
)

// overtaken plays what happens to a claim that another member has overridden, when the first
// member comes back to it although the page seems to be its own: it reports whether the page
// shows the later claim then, as it should, and how many hold the task.
func overtaken(t *testing.T, c cluster, rival string, noToken bool, restored bool, back func(context.Context, *claimsim.Daemon, claim.Claim)) (shown bool, holders int) {
	synctest.Test(t, func(t *testing.T) {
		register := claimsim.NewRegister()
		register.NoToken = noToken
		register.Add(task.Task{ID: taskOne, Title: "Mend the roof", Status: task.Open})
		member := func(name string) *claimsim.Daemon {
			o := claimsim.DaemonOptions{Policy: policy(), StoreOptions: claimsim.StoreOptions{Name: name}}
			c.join(register, &o)
			return register.Daemon(o)
		}
		one, two := member("one"), member("two")
		defer one.Close()
		defer two.Close()
		mine, err := one.Claim(t.Context(), claim.Request{Agent: agentA, Task: task.Task{ID: taskOne}})
		if err != nil {
			t.Fatal(err)
		}
		first := register.Page(taskOne)
		time.Sleep(time.Until(mine.StaleAt.Add(2 * time.Second)))
		if _, err := two.Claim(t.Context(), claim.Request{Agent: rival, Task: task.Task{ID: taskOne}}); err != nil {
			t.Fatal(err)
		}
		if restored {
			register.Edit(taskOne, func(now *task.Task) { *now = first })
		}
		before := register.Page(taskOne)
		back(t.Context(), one, mine)
		shown = register.Page(taskOne).Status == before.Status && register.Page(taskOne).ClaimedAt.Equal(before.ClaimedAt)
		for _, d := range []*claimsim.Daemon{one, two} {
			for _, c := range d.Claims("") {
				if c.State == claim.Held && c.ExpiresAt().After(time.Now()) {
					holders++
				}
			}
		}
	})
	return shown, holders
}

// Where the page shows what looks like a claim's own, its fence alone keeps it from what another
// claim has by now: on a board without claim_token, where an agent of the same name has claimed
// the task anew at another member, and on a page that a person restored to what it was.
func TestFenceDecides(t *testing.T) {
	for name, tt := range map[string]struct {
		rival    string
		noToken  bool
		restored bool
		back     func(context.Context, *claimsim.Daemon, claim.Claim)
	}{
		"the same name, no token, released": {rival: agentA, noToken: true, back: func(ctx context.Context, d *claimsim.Daemon, c claim.Claim) {
			_, _ = d.Finish(ctx, c.ID, claim.Finish{As: claim.EndReleased})
		}},
		"the same name, no token, renewed": {rival: agentA, noToken: true, back: func(ctx context.Context, d *claimsim.Daemon, c claim.Claim) {
			time.Sleep(time.Minute)
			_, _ = d.Renew(ctx, c.ID)
		}},
		"restored by a person, renewed": {rival: agentB, restored: true, back: func(ctx context.Context, d *claimsim.Daemon, c claim.Claim) { _, _ = d.Renew(ctx, c.ID) }},
		"restored by a person, completed": {rival: agentB, restored: true, back: func(ctx context.Context, d *claimsim.Daemon, c claim.Claim) {
			_, _ = d.Finish(ctx, c.ID, claim.Finish{As: claim.EndCompleted})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if shown, n := overtaken(t, cluster{}, tt.rival, tt.noToken, tt.restored, tt.back); !shown || n != 1 {
				t.Errorf("the page stays as it was: %v; %d have the task, want 1", shown, n)
			}
			careless := tables(func(t arbiter.Table) arbiter.Table { return dropping{keeping{t}} })
			if shown, n := overtaken(t, careless, tt.rival, tt.noToken, tt.restored, tt.back); shown && n == 1 {
				t.Error("fences are not compared, and nothing shows it")
			}
		})
	}
}

// lapsing is a table with a row that is over when it is to be put anew for the time in that many.
type lapsing struct {
	arbiter.Table
	in   *int
	last *int64 // the fence that was given last
}

func (l lapsing) Keep(ctx context.Context, row arbiter.Row, fence int64, lasting time.Duration) (bool, *arbiter.Held, error) {
	if *l.in--; *l.in == 0 {
		_ = l.Table.Drop(ctx, row, fence)
	}
	return l.Table.Keep(ctx, row, fence, lasting)
}

func (l lapsing) Take(ctx context.Context, row arbiter.Row, lasting time.Duration, limit int) (arbiter.Grant, error) {
	grant, err := l.Table.Take(ctx, row, lasting, limit)
	if grant.Fence != 0 {
		*l.last = grant.Fence
	}
	return grant, err
}

// A claim whose task was taken anew while it was renewed says the fence that it has now.
func TestFenceAfterALateRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, last := 0, int64(0)
		c := tables(func(t arbiter.Table) arbiter.Table { return lapsing{t, &in, &last} })
		register := claimsim.NewRegister()
		register.Add(task.Task{ID: taskOne, Title: "Mend the roof", Status: task.Open})
		o := claimsim.DaemonOptions{Policy: policy(), StoreOptions: claimsim.StoreOptions{Name: "one"}}
		c.join(register, &o)
		one := register.Daemon(o)
		defer one.Close()
		mine, err := one.Claim(t.Context(), claim.Request{Agent: agentA, Task: task.Task{ID: taskOne}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(tooLate(mine)))
		in = 2 // when it is asked whether the renewal came in time
		renewed, err := one.Renew(t.Context(), mine.ID)
		if err != nil || renewed.Fence != last || last <= mine.Fence {
			t.Errorf("fence %d, after %d, and the row has %d: %v", renewed.Fence, mine.Fence, last, err)
		}
	})
}
