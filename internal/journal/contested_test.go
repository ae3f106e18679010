package journal_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/outbox"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestContestedCountsEveryDenial(t *testing.T) {
	j := newJournal(t)
	const agents, attempts = 8, 25
	var mu sync.Mutex
	want := map[claim.ID][]string{} // who was refused because of the claim
	race(agents, func(i int) {
		agent := fmt.Sprintf("agent-%d", i)
		for range attempts {
			c := attempt(agent, "a", t0)
			_, refusal, err := j.Reserve(t.Context(), c, t0, 0)
			if err != nil {
				t.Error(err)
				return
			}
			if refusal != nil {
				mu.Lock()
				want[refusal.Holder.ID] = append(want[refusal.Holder.ID], agent)
				mu.Unlock()
				continue
			}
			if err := j.Save(t.Context(), claim.Change{Holds: []claim.Hold{ended(c, claim.EndReleased, t0)}, Facts: []claim.Fact{event(c, claim.KindReleased, t0)}}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	got := map[claim.ID]claim.Fact{}
	for _, e := range events(t, j, journal.FactFilter{}) {
		if e.Kind == claim.KindContested {
			if _, twice := got[e.Claim]; twice {
				t.Errorf("claim %s was summed up twice", e.Claim)
			}
			got[e.Claim] = e
		}
	}
	if len(want) == 0 {
		t.Fatal("nobody was refused: nothing was tested")
	}
	if len(got) != len(want) {
		t.Errorf("%d claims were summed up, want %d", len(got), len(want))
	}
	for id, names := range want {
		slices.Sort(names)
		count := len(names)
		e := got[id]
		if e.Count != count || !slices.Equal(e.Names, slices.Compact(names)) || e.Task != "a" || !e.At.Equal(t0) {
			t.Errorf("contested event of %s = %+v, want %d denials of %v", id, e, count, names)
		}
	}
}

func TestContestedGoesToTheMeshLogOnce(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Oracle", "a", t0), t0)
	for _, agent := range []string{"Sandman", "Merlin", "Sandman"} {
		if _, refusal, err := j.Reserve(t.Context(), attempt(agent, "a", t0), t0, 0); err != nil || refusal == nil {
			t.Fatalf("Reserve = %v, %v, want a refusal", refusal, err)
		}
	}
	// A denial that Notion was asked about is an entry by itself.
	remote := event(attempt("Zed", "a", t0), claim.KindDenied, t0)
	remote.Remote, remote.Against = true, c.ID
	if err := j.Record(t.Context(), remote); err != nil {
		t.Fatal(err)
	}
	end := t0.Add(time.Minute)
	done := event(c, claim.KindCompleted, end)
	save(t, j, ended(c, claim.EndCompleted, end), done)

	contested := event(c, claim.KindContested, end)
	contested.Count, contested.Names = 3, []string{"Merlin", "Sandman"}
	want := []outbox.Intent{due(remote, outbox.MeshEntry), due(done, outbox.TaskEntry), due(contested, outbox.MeshEntry)}
	if diff := cmp.Diff(want, next(t, j, end, 0), cmpopts.IgnoreFields(claim.Fact{}, "ID"), cmpopts.IgnoreFields(outbox.Intent{}, "ID", "Seq")); diff != "" {
		t.Errorf("outbox (-want +got):\n%s", diff)
	}
}
