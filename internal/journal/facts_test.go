package journal_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/task"

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
		"since a time":          {journal.FactFilter{Since: t0.Add(2 * time.Minute)}, []int{0, 3, 4}},
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
	same(t, "events", []claim.Fact{e}, events(t, j, journal.FactFilter{}))
}

// What was only seen on the board can be read for as long as the record, which is longer than the
// feed.
func TestSeen(t *testing.T) {
	b := newBoard(t, open1("a"))
	b.tell()
	seen := func() (kinds []claim.Kind) {
		t.Helper()
		facts, err := b.Facts(t.Context(), journal.FactFilter{Task: "a", Seen: true, Since: t0.Add(-time.Hour)})
		do(t, err)
		for _, f := range facts {
			if !f.Seen {
				t.Errorf("%s is on record", f.Kind)
			}
			kinds = append(kinds, f.Kind)
		}
		return kinds
	}
	edited := open1("a")
	edited.Title = "Paint"
	b.put(edited)
	b.tell()
	want := seen()
	if len(want) == 0 || want[len(want)-1] != claim.KindEdited {
		t.Fatalf("seen: %v, want an edit", want)
	}
	do(t, b.Record(t.Context(), remote(attempt("Oracle", "b", t0.Add(time.Hour)), claim.KindSwept))) // the last one stays
	do(t, errOf(b.PruneFeed(t.Context(), t0.Add(1000*time.Hour))))
	if news, err := b.Feed(t.Context(), journal.FactFilter{Task: "a"}); err != nil || len(news) > 0 {
		t.Errorf("the feed still has %v, %v", news, err)
	}
	same(t, "after the feed was pruned", want, seen())
	if facts, err := b.Facts(t.Context(), journal.FactFilter{Task: "a"}); err != nil || len(facts) > 0 {
		t.Errorf("on record: %v, %v", facts, err)
	}
	do(t, errOf(b.Prune(t.Context(), t0.Add(1000*time.Hour))))
	if got := seen(); len(got) > 0 {
		t.Errorf("after the record was pruned: %v", got)
	}
}

func TestEnded(t *testing.T) {
	j := newJournal(t)
	for i, agent := range []string{"Sandman", "Oracle", "Ghost"} {
		id := string(rune('a' + i))
		save(t, j, ended(grant(t, j, attempt(agent, task.ID(id), t0), t0), claim.EndReleased, t0.Add(time.Duration(i)*time.Hour)))
	}
	grant(t, j, attempt("Sandman", "held", t0), t0)
	got, err := j.Ended(t.Context(), t0.Add(time.Hour), t0.Add(2*time.Hour))
	if err != nil || len(got) != 1 || got[0].Agent != "Oracle" {
		t.Errorf("Ended = %+v, %v, want Oracle's", got, err)
	}
}

// What a task was tried is forgotten once it is told that a person has opened it again, and
// not when it only went back to OPEN; and after a while.
func TestTriesAreForgotten(t *testing.T) {
	ctx := t.Context()
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	check := func(what string, want int) {
		t.Helper()
		if got, err := j.Tries(ctx, "a"); err != nil || len(got) != want {
			t.Errorf("%s: tries %+v, %v; want %d", what, got, err, want)
		}
	}
	becomes := func(s task.Status) {
		t.Helper()
		do(t, j.PutTasks(ctx, []task.Task{{ID: "a", Title: "T", Status: s}}))
		do(t, errOf(j.Publish(ctx, t0, []task.ID{"a"})))
	}
	tried := func(at time.Time) {
		t.Helper()
		e := claim.Fact{ID: claim.NewFactID(at), At: at, Kind: claim.KindFailed, Task: "a", Agent: "Oracle", Tried: claim.TriedAgain}
		do(t, j.Record(ctx, e))
	}
	do(t, j.BeginFeed(ctx))
	becomes(task.InProgress)
	tried(t0)
	becomes(task.Open)
	check("put back to OPEN", 1)
	for _, s := range []task.Status{task.Blocked, task.Review, task.Failed, task.Cancelled, task.Completed} {
		becomes(s)
		check(string(s), 1)
		becomes(task.Open)
		check(string(s)+", and opened again", 0)
		tried(t0)
	}
	deliverAll(t, j) // nothing is forgotten that is owed to a log
	do(t, errOf(j.Prune(ctx, t0.Add(time.Minute))))
	check("after a while", 0)
}
