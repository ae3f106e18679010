package journal_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"

	"github.com/google/go-cmp/cmp"
)

func TestEvents(t *testing.T) {
	j := newJournal(t)
	a, b := attempt("Sandman", "a", t0), attempt("Oracle", "b", t0)
	list := []claim.Fact{
		event(a, claim.KindGranted, t0.Add(time.Hour)),
		event(b, claim.KindGranted, t0), // Notion's time was corrected: ids are not in order
		event(a, claim.KindRenewed, t0.Add(time.Minute)),
		event(a, claim.KindReleased, t0.Add(2*time.Minute)),
		event(b, claim.KindOverridden, t0.Add(3*time.Minute)),
	}
	list[4].Holder = a.Agent
	record(t, j, list[0])
	save(t, j, b, list[1], list[2])
	record(t, j, list[3:]...)

	tests := map[string]struct {
		filter journal.FactFilter
		want   []int // indexes into list
	}{
		"all":                   {journal.FactFilter{}, []int{0, 1, 2, 3, 4}},
		"limited":               {journal.FactFilter{Limit: 2}, []int{0, 1}},
		"newest first":          {journal.FactFilter{Newest: true}, []int{4, 3, 2, 1, 0}},
		"newest, limited":       {journal.FactFilter{Newest: true, Limit: 2}, []int{4, 3}},
		"after the first":       {journal.FactFilter{After: list[0].ID}, []int{1, 2, 3, 4}},
		"after one, limited":    {journal.FactFilter{After: list[1].ID, Limit: 1}, []int{2}},
		"after, lower case":     {journal.FactFilter{After: strings.ToLower(list[3].ID)}, []int{4}},
		"after the last":        {journal.FactFilter{After: list[4].ID}, nil},
		"of a task":             {journal.FactFilter{Task: "a"}, []int{0, 2, 3}},
		"of an agent":           {journal.FactFilter{Agent: "Oracle"}, []int{1, 4}},
		"of a claim":            {journal.FactFilter{Claim: b.ID}, []int{1, 4}},
		"of everything at once": {journal.FactFilter{After: list[0].ID, Task: "a", Agent: "Sandman", Claim: a.ID, Limit: 1, Newest: true}, []int{3}},
		"of nothing":            {journal.FactFilter{Task: "a", Agent: "Oracle"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var want []claim.Fact
			for _, i := range test.want {
				want = append(want, list[i])
			}
			if diff := cmp.Diff(want, events(t, j, test.filter)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := j.Facts(t.Context(), journal.FactFilter{After: "yesterday"}); err == nil {
		t.Error("Events after something that is no id succeeded")
	}
}

func TestEventsNeedIDs(t *testing.T) {
	j := newJournal(t)
	e := event(attempt("Sandman", "a", t0), claim.KindGranted, t0)
	record(t, j, e)
	do(t, j.Record(t.Context(), e)) // is on record
	if err := j.Record(t.Context(), claim.Fact{At: t0, Kind: claim.KindGranted}); err == nil {
		t.Error("an event without an id was recorded")
	}
	if diff := cmp.Diff([]claim.Fact{e}, events(t, j, journal.FactFilter{})); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
