package arbiter_test

import (
	"testing"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitersim"
	"dibs/internal/arbiter/arbitertest"
)

// A row is put anew and taken off by who has its fence, and by nobody else: not by an earlier
// claim on the task, nor by the same agent, nor by the same member. What the mutants of the
// simulated table show to be needed, etcd does, too.
func TestFences(t *testing.T) {
	for name, table := range map[string]func() arbiter.Table{
		"simulated": func() arbiter.Table { return arbitersim.NewTable() },
		"etcd":      func() arbiter.Table { return join(t, arbitertest.Start(t).URL(), t.TempDir()).etcd },
	} {
		t.Run(name, func(t *testing.T) {
			table := table()
			row := func() arbiter.Row { return arbiter.Row{Member: "m", Claim: attempt(agentA, taskOne)} }
			take := func(r arbiter.Row) int64 {
				t.Helper()
				grant, err := table.Take(t.Context(), r, time.Minute, 0)
				if err != nil || grant.Fence == 0 {
					t.Fatalf("%+v, %v", grant, err)
				}
				return grant.Fence
			}
			has := func(want arbiter.Row, fence int64) {
				t.Helper()
				rows, err := table.Rows(t.Context())
				if err != nil || len(rows) != 1 || rows[0].Claim.ID != want.Claim.ID || rows[0].Fence != fence {
					t.Errorf("rows %+v, %v; want that of %s with fence %d", rows, err, want.Claim.ID, fence)
				}
			}
			old, now := row(), row()
			before := take(old)
			if err := table.Drop(t.Context(), old, before); err != nil {
				t.Fatal(err)
			}
			if kept, held, err := table.Keep(t.Context(), old, before, time.Minute); kept || held != nil || err != nil {
				t.Errorf("a row that is gone was put anew: %v, %+v, %v", kept, held, err)
			}
			fence := take(now)
			if fence <= before {
				t.Errorf("fence %d after %d", fence, before)
			}
			if kept, held, err := table.Keep(t.Context(), old, before, time.Minute); kept || held == nil || held.Claim.ID != now.Claim.ID || err != nil {
				t.Errorf("put in the place of another one: %v, %+v, %v", kept, held, err)
			}
			has(now, fence)
			if err := table.Drop(t.Context(), old, before); err != nil {
				t.Fatal(err)
			}
			has(now, fence)
			if grant, err := table.Take(t.Context(), old, time.Minute, 0); err != nil || grant.Fence != 0 || grant.Holder == nil || grant.Holder.Claim.ID != now.Claim.ID {
				t.Errorf("taken again from who has it: %+v, %v", grant, err)
			}
			has(now, fence)
			if kept, _, err := table.Keep(t.Context(), now, fence, time.Minute); !kept || err != nil {
				t.Errorf("by its own fence: %v, %v", kept, err)
			}
			has(now, fence)
		})
	}
}
