package arbiter_test

import (
	"context"
	"testing"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitersim"
	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/detector"
)

// altered is what decides for a member, with parts taken out.
type altered struct {
	claimsim.Arbitration
	hold func(context.Context, *claim.Claim) (bool, error)
}

func (a altered) Hold(ctx context.Context, c *claim.Claim) error {
	if done, err := a.hold(ctx, c); done {
		return err
	}
	return a.Arbitration.Hold(ctx, c)
}

// unasked is a cluster whose members do not ask who has the task of some claims before they
// write to its page.
func unasked(of func(*claim.Claim) bool) cluster {
	return cluster{member: func(a claimsim.Arbitration) claimsim.Arbitration {
		return altered{a, func(_ context.Context, c *claim.Claim) (bool, error) { return of(c), nil }}
	}}
}

// sure is what decides for a member that is never in doubt about its clocks.
type sure struct{ claimsim.Arbitration }

func (sure) Doubt(claim.ID) {}

// lasting is a table whose rows last for another time than they are to.
type lasting struct {
	arbiter.Table
	instead func(time.Duration) time.Duration
}

func (l lasting) Take(ctx context.Context, r arbiter.Row, d time.Duration, limit int) (arbiter.Grant, error) {
	return l.Table.Take(ctx, r, l.instead(d), limit)
}

func (l lasting) Keep(ctx context.Context, r arbiter.Row, fence int64, d time.Duration) (bool, *arbiter.Held, error) {
	return l.Table.Keep(ctx, r, fence, l.instead(d))
}

// greedy is a table that gives a task to whoever asks.
type greedy struct{ arbiter.Table }

func (g greedy) Take(ctx context.Context, r arbiter.Row, lasting time.Duration, limit int) (arbiter.Grant, error) {
	grant, err := g.Table.Take(ctx, r, lasting, limit)
	if grant.Holder != nil {
		_ = g.Table.Drop(ctx, grant.Holder.Row, grant.Holder.Fence)
		return g.Table.Take(ctx, r, lasting, limit)
	}
	return grant, err
}

// retaking is a table that gives a task to a claim that has had it before, whoever has it now.
type retaking struct {
	arbiter.Table
	had map[claim.ID]bool
}

func (r retaking) Take(ctx context.Context, row arbiter.Row, lasting time.Duration, limit int) (arbiter.Grant, error) {
	if r.had[row.Claim.ID] {
		return greedy{r.Table}.Take(ctx, row, lasting, limit)
	}
	grant, err := r.Table.Take(ctx, row, lasting, limit)
	r.had[row.Claim.ID] = grant.Fence != 0
	return grant, err
}

// keeping is a table that puts a row anew whatever its fence: in the place of any other, or of
// none.
type keeping struct{ arbiter.Table }

func (k keeping) Keep(ctx context.Context, r arbiter.Row, fence int64, lasting time.Duration) (bool, *arbiter.Held, error) {
	kept, now, err := k.Table.Keep(ctx, r, fence, lasting)
	switch {
	case kept || err != nil:
		return kept, now, err
	case now != nil:
		return k.Table.Keep(ctx, r, now.Fence, lasting)
	}
	r.Claim.Key = ""
	_, err = k.Table.Take(ctx, r, lasting, 0)
	return err == nil, nil, err
}

// dropping is a table that takes the row off a task whatever its fence.
type dropping struct{ arbiter.Table }

func (d dropping) Drop(ctx context.Context, r arbiter.Row, _ int64) error {
	rows, err := d.Table.Rows(ctx)
	for _, h := range rows {
		if h.Claim.Task.ID == r.Claim.Task.ID {
			err = d.Table.Drop(ctx, h.Row, h.Fence)
		}
	}
	return err
}

// tables is a cluster with another table.
func tables(of func(arbiter.Table) arbiter.Table) cluster {
	return cluster{table: func(_ *claimsim.DaemonOptions, t *arbitersim.Table) arbiter.Table { return of(t) }}
}

func rowsLasting(instead func(time.Duration) time.Duration) cluster {
	return tables(func(t arbiter.Table) arbiter.Table { return lasting{t, instead} })
}

// Each part of it is needed: without one, two agents have a task at the same time, or
// something is left undone. What decides is found out in the middle of the act that is named,
// at once or, since the order of what is done at one moment is the machine's, soon.
func TestMutants(t *testing.T) {
	if testing.Short() || detector.On {
		t.Skip("some take more ways of standing still than are tried now")
	}
	for name, m := range map[string]struct {
		cluster cluster
		acts    []string
	}{
		"a table each":                         {cluster{table: func(*claimsim.DaemonOptions, *arbitersim.Table) arbiter.Table { return arbitersim.NewTable() }}, []string{"claims"}},
		"rows that are over too soon":          {rowsLasting(func(time.Duration) time.Duration { return time.Millisecond }), []string{"claims"}},
		"rows that last longer than the claim": {rowsLasting(func(d time.Duration) time.Duration { return d + d/4 }), []string{"renews"}},
		"rows that are bound to no lease":      {rowsLasting(func(time.Duration) time.Duration { return 1000 * time.Hour }), []string{"renews"}},
		"tasks for whoever asks":               {tables(func(t arbiter.Table) arbiter.Table { return greedy{t} }), []string{"claims"}},
		"tasks for whoever had them":           {tables(func(t arbiter.Table) arbiter.Table { return retaking{t, make(map[claim.ID]bool)} }), []string{"renews too late"}},
		"fences are not compared":              {tables(func(t arbiter.Table) arbiter.Table { return dropping{keeping{t}} }), []string{"releases"}},
		"rows are put anew whoever has them":   {tables(func(t arbiter.Table) arbiter.Table { return keeping{t} }), []string{"renews"}},
		"rows are taken off whoever has them":  {tables(func(t arbiter.Table) arbiter.Table { return dropping{t} }), []string{"releases"}},
		"attempts that do not ask":             {unasked(func(c *claim.Claim) bool { return c.State == claim.Reserved }), []string{"claims"}},
		"renewals that do not ask":             {unasked(func(c *claim.Claim) bool { return c.State == claim.Held }), []string{"renews"}},
		"finishes that do not ask":             {unasked(func(c *claim.Claim) bool { return c.State == claim.Finishing }), []string{"releases", "releases late", "releases too late"}},
		"sweeps that do not ask":               {unasked(func(c *claim.Claim) bool { return c.Sweep != nil }), []string{"sweeps"}},
		"sweeps that do not ask a second time": {unasked(func(c *claim.Claim) bool { return c.Sweep != nil && c.State == claim.Abandoned }), []string{"sweeps"}},
		"clocks that are never in doubt":       {cluster{member: func(a claimsim.Arbitration) claimsim.Arbitration { return sure{a} }}, []string{"claims"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for round := range 5 * len(m.acts) {
				act := m.acts[round%len(m.acts)]
				caught := ""
				everyStill(t, act, m.cluster, func(s still, out stood) bool {
					if len(out.wrong) > 0 {
						caught = s.String() + ": " + out.wrong[0]
					}
					return caught == ""
				})
				if caught != "" {
					t.Logf("caught: %s", caught)
					return
				}
			}
			t.Error("survived")
		})
	}
}
