package claimtest

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// deed is an act of a leader. Another daemon may take over at any point of it.
type deed struct {
	first  func(*task.Task)                 // what the page is like
	before func(*takeover, context.Context) // what led up to it
	act    func(*takeover, context.Context)
}

// Deeds are the deeds that the explorer of takeovers tries.
var Deeds = map[string]deed{
	"claim":                {act: (*takeover).claims},
	"override":             {first: stale, act: (*takeover).claims},
	"completion":           {before: (*takeover).hold, act: finishes(claim.EndCompleted)},
	"release":              {before: (*takeover).hold, act: finishes(claim.EndReleased)},
	"release past the end": {before: (*takeover).outlast, act: finishes(claim.EndReleased)},
	"renewal":              {before: (*takeover).holdOn, act: (*takeover).renews},
	"sweep":                {first: stale, act: (*takeover).sweeps},
	"withdrawal":           {before: (*takeover).leave, act: (*takeover).runs},
	"repair":               {before: (*takeover).cover, act: (*takeover).guards},
	"gesture":              {before: (*takeover).handOut, act: (*takeover).guards},
	"undo":                 {before: (*takeover).undo, act: (*takeover).tidies},
	"reopening":            {first: blocked, act: (*takeover).reopens},
	"reopening of a name":  {first: named, act: (*takeover).reopens},
}

func stale(t *task.Task) {
	t.Status, t.ClaimedBy, t.ClaimedAt = task.InProgress, "Ghost", time.Now().Add(-2*time.Hour)
	t.Token = string(claim.NewID(t.ClaimedAt))
}

func blocked(t *task.Task) { t.Status = task.Blocked }

func named(t *task.Task) {
	stale(t)
	t.Status = task.Blocked
}

func (x *takeover) claims(ctx context.Context) {
	x.sandman.ask(claim.Request{}, func() (claim.Hold, error) {
		return x.leader.Claim(ctx, claim.Request{Agent: x.sandman.name, Task: task.Task{ID: x.pages[0]}})
	})
}

func (x *takeover) hold(ctx context.Context) { x.claims(ctx) }

// holdOn holds the task until its lease may be renewed.
func (x *takeover) holdOn(ctx context.Context) {
	x.hold(ctx)
	time.Sleep(70 * time.Second)
}

// outlast holds the task until its lease is over but not yet stale.
func (x *takeover) outlast(ctx context.Context) {
	x.hold(ctx)
	time.Sleep(time.Until(x.Policy.LeaseEnd(x.register.Page(x.pages[0])).Add(time.Second)))
}

// held returns the claim that the agent holds or is finishing.
func (x *takeover) held() claim.Hold {
	live, _, _ := x.ledger.Live(context.Background())
	return live[0]
}

func finishes(as claim.Ending) func(*takeover, context.Context) {
	return func(x *takeover, ctx context.Context) { x.sandman.finish(ctx, x.held(), claim.Finish{As: as}) }
}

func (x *takeover) renews(ctx context.Context) { _, _ = x.leader.Renew(ctx, x.held().ID) }

func (x *takeover) sweeps(ctx context.Context) { _, _, _ = x.leader.Sweep(ctx, x.pages[0]) }

func (x *takeover) guards(ctx context.Context) { _ = x.leader.Guard(ctx, x.held().ID, nil) }

func (x *takeover) reopens(ctx context.Context) {
	_, _, _ = x.leader.Reopen(ctx, claim.Reopening{Task: task.Task{ID: x.pages[0]}, Agent: "Nyx"})
}

// leave makes the leader find a claim that an earlier daemon wrote just before it ended.
func (x *takeover) leave(ctx context.Context) {
	now := time.Now()
	c := claim.Hold{
		ID: claim.NewID(now), Agent: "Ghost", Task: x.register.Page(x.pages[0]), State: claim.Writing, Reserved: now,
		Lease: claim.Lease{ClaimedAt: now, Timeout: x.Policy.Timeout},
	}
	_, _, _ = x.ledger.Reserve(ctx, c, now, 0)
	x.edit(x.pages[0], func(t *task.Task) bool {
		t.Status, t.ClaimedBy, t.ClaimedAt, t.Token = task.InProgress, c.Agent, now, string(c.ID)
		return false
	})
	_ = x.leader.Restart(ctx)
}

// runs takes the due steps for a minute.
func (x *takeover) runs(ctx context.Context) {
	for range 60 {
		_, _ = x.leader.RunDue(ctx)
		time.Sleep(time.Second)
	}
}

// cover writes a claim that is being withdrawn over the held one.
func (x *takeover) cover(ctx context.Context) {
	x.hold(ctx)
	x.edit(x.pages[0], func(t *task.Task) bool {
		t.Token = "void " + string(claim.NewID(time.Now()))
		return false
	})
}

// handOut has a person reopen the held task.
func (x *takeover) handOut(ctx context.Context) {
	x.hold(ctx)
	x.edit(x.pages[0], func(t *task.Task) bool { t.Status = task.Open; return true })
}

// undo has a person restore a claim that is over.
func (x *takeover) undo(ctx context.Context) {
	x.hold(ctx)
	was := x.register.Page(x.pages[0])
	x.sandman.finish(ctx, x.held(), claim.Finish{As: claim.EndReleased})
	x.edit(x.pages[0], func(t *task.Task) bool { *t = was; return true })
}

func (x *takeover) tidies(ctx context.Context) {
	_, _ = x.leader.Tidy(ctx, x.register.Page(x.pages[0]))
	x.runs(ctx)
}
