package journal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/task"
)

// board is a journal with tasks that agents are told of.
type board struct {
	testing.TB
	*journal.Journal
	seen int64 // the last event that was looked at
}

// newBoard returns a journal that tells what happens to tasks from now on.
func newBoard(t testing.TB, tasks ...task.Task) *board {
	t.Helper()
	b := &board{TB: t, Journal: newJournal(t)}
	b.put(tasks...)
	b.tell()
	do(t, b.BeginFeed(t.Context()))
	b.wants()
	return b
}

func (b *board) put(tasks ...task.Task) {
	b.Helper()
	do(b, b.PutTasks(b.Context(), tasks))
}

func (b *board) drop(ids ...task.ID) {
	b.Helper()
	do(b, b.DeleteTasks(b.Context(), ids))
}

// tell tells of everything there is to tell, until there is no more.
func (b *board) tell() {
	b.Helper()
	for more := true; more; {
		ids, err := b.Unpublished(b.Context(), "", 0)
		do(b, err)
		more, err = b.Journal.Publish(b.Context(), t0.Add(time.Minute), ids)
		do(b, err)
	}
}

// wants checks what was told since the last time.
func (b *board) wants(want ...string) {
	b.Helper()
	list, err := b.Feed(b.Context(), journal.FactFilter{Told: b.seen})
	do(b, err)
	var got []string
	for _, e := range list {
		got = append(got, fmt.Sprintf("%s %s %s", e.Kind, e.Task, e.Agent))
		b.seen = e.Told
	}
	same(b, "told", want, got)
}

func open1(id task.ID) task.Task { return mirrored(id, "Task "+string(id), task.Open) }

// shows is the task of c as the mirror has it once c is written.
func shows(c claim.Hold) task.Task {
	t := open1(c.Task.ID)
	t.Status, t.ClaimedBy, t.ClaimedAt, t.Token = task.InProgress, c.Agent, t0, string(c.ID)
	return t
}

// remote is an event about c for which Notion was asked.
func remote(c claim.Hold, kind claim.Kind) claim.Fact {
	e := event(c, kind, t0)
	e.Remote = true
	return e
}

func TestFeedBegins(t *testing.T) {
	b := newBoard(t, open1("a"), open1("b"))
	b.put(open1("c"))
	b.tell()
	b.wants("created c ", "ready c ")
	b.tell()
	b.wants()
	b.Journal = reopen(t, b.Journal)
	if begun, err := b.FeedBegun(t.Context()); err != nil || !begun {
		t.Errorf("Begun = %v, %v after opening again, want true", begun, err)
	}
	b.put(open1("d"))
	b.tell()
	b.wants("created d ", "ready d ")
}

// TestFeedBeginsInAClaim begins when a claim was written and not yet granted.
func TestFeedBeginsInAClaim(t *testing.T) {
	for _, granted := range []bool{true, false} {
		b := &board{TB: t, Journal: newJournal(t)}
		c := attempt("Sandman", "a", t0)
		reserve(t, b.Journal, c, t0)
		c.State = claim.Writing
		save(t, b.Journal, c)
		b.put(shows(c))
		b.tell()
		do(t, b.BeginFeed(t.Context()))
		if granted {
			save(t, b.Journal, held(c, t0), remote(c, claim.KindGranted))
			b.wants("claimed a Sandman")
			continue
		}
		b.put(open1("a"))
		save(t, b.Journal, ended(c, claim.EndNotGranted, t0), remote(c, claim.KindDenied))
		b.tell()
		b.wants()
	}
}

// TestFeedBeginsAmongClaims begins while agents have been at work for a while: what they
// did is news, whether or not their tasks were taken note of by then.
func TestFeedBeginsAmongClaims(t *testing.T) {
	b := &board{TB: t, Journal: newJournal(t)}
	b.put(open1("a"), open1("b"), open1("c"), open1("d"))
	do(t, errOf(b.Journal.Publish(t.Context(), t0, []task.ID{"a", "b"})))
	hold := func(id task.ID) claim.Hold {
		c := attempt("Sandman", id, t0)
		reserve(t, b.Journal, c, t0)
		b.put(shows(c))
		c = held(c, t0)
		save(t, b.Journal, c, remote(c, claim.KindGranted))
		return c
	}
	hold("a")
	b.wants("claimed a Sandman") // it was taken note of
	c := hold("c")
	b.wants("claimed c Sandman") // it was not
	done := shows(c)
	done.Status, done.Token = task.Completed, "done "+string(c.ID)
	b.put(done)
	save(t, b.Journal, ended(c, claim.EndCompleted, t0), remote(c, claim.KindCompleted))
	b.wants("completed c Sandman")

	renamed := open1("b")
	renamed.Title = "Another title"
	b.put(renamed) // by a person
	b.tell()
	b.wants()
	do(t, b.BeginFeed(t.Context()))
	b.tell()
	b.wants("edited b ")
	b.tell()
	b.wants()
}

func TestFeedOfAClaim(t *testing.T) {
	b := newBoard(t, open1("a"))
	c := attempt("Sandman", "a", t0)
	reserve(t, b.Journal, c, t0)
	c.State = claim.Writing
	save(t, b.Journal, c)
	b.put(shows(c)) // the write is there, and not verified
	b.tell()
	b.wants()
	c = held(c, t0)
	save(t, b.Journal, c, remote(c, claim.KindGranted))
	b.wants("claimed a Sandman") // without waiting for anybody
	b.tell()
	b.wants()

	// What lies over the claim is told with the claim's end.
	cancelled := shows(c)
	cancelled.Status = task.Cancelled
	b.put(cancelled)
	b.tell()
	b.wants()
	c.Ended = t0
	save(t, b.Journal, ended(c, claim.EndLost, t0), remote(c, claim.KindLost))
	b.wants("lost a Sandman", "cancelled a Sandman")
	b.tell()
	b.wants()
}

func TestFeedOfAnAbandonedAttempt(t *testing.T) {
	b := newBoard(t, open1("a"))
	c := attempt("Sandman", "a", t0)
	reserve(t, b.Journal, c, t0)
	b.put(shows(c))
	m := abandoned(c)
	do(t, b.Save(t.Context(), claim.Change{
		Holds: []claim.Hold{ended(c, claim.EndNotGranted, t0)}, Marks: []claim.Mark{m}, Facts: []claim.Fact{remote(c, claim.KindDenied)},
	}))
	b.tell()
	m.State = claim.Voided
	do(t, b.Save(t.Context(), claim.Change{Marks: []claim.Mark{m}}))
	b.tell()
	b.put(open1("a"))
	m.State, m.Ended = claim.Gone, t0
	do(t, b.Save(t.Context(), claim.Change{Marks: []claim.Mark{m}, Facts: []claim.Fact{remote(c, claim.KindWithdrawn)}}))
	b.tell()
	b.wants()
}

func TestFeedWithoutThePage(t *testing.T) {
	b := newBoard(t, open1("a"))
	c := grant(t, b.Journal, attempt("Sandman", "a", t0), t0)
	b.put(shows(c))
	b.tell()
	b.wants("claimed a Sandman")
	over := shows(c)
	over.ClaimedBy, over.Token = "Oracle", string(claim.NewID(t0))
	b.put(over)
	warning := event(c, claim.KindExpiring, t0)
	warning.Expires = t0.Add(time.Minute)
	save(t, b.Journal, c, warning)
	b.wants("expiring a Sandman")
	list, err := b.Feed(t.Context(), journal.FactFilter{Task: "a"})
	do(t, err)
	want := claim.Fact{
		ID: warning.ID, Told: 2, At: t0, Kind: claim.KindExpiring, Task: "a", Title: "Task a", URL: c.Task.URL, Status: task.InProgress, Priority: task.Medium,
		Agent: "Sandman", Claim: c.ID, Expires: t0.Add(time.Minute),
	}
	same(t, "the warning", want, list[len(list)-1])
	do(t, b.Record(t.Context(), event(c, claim.KindDenied, t0), remote(attempt("Maria", "b", t0), claim.KindSwept)))
	b.wants("swept b Maria")
}

func TestFeedOfWhatWaits(t *testing.T) {
	waits := open1("b")
	waits.DependsOn = []task.ID{"a", "elsewhere"}
	b := newBoard(t, open1("a"), waits)
	done := open1("a")
	done.Status = task.Completed
	b.put(done)
	b.tell()
	b.wants("completed a ")
	// One that nobody knew of is found to be finished.
	b.put(mirrored("elsewhere", "long ago", task.Completed))
	b.tell()
	b.wants("ready b ")
	// It waits again, which is no news of b, and no longer.
	b.put(open1("a"))
	b.tell()
	b.wants("reopened a ", "ready a ")
	b.drop("a")
	b.tell()
	b.wants("trashed a ")
	b.put(done)
	b.tell()
	b.wants("restored a ", "completed a ", "ready b ")
	// What does not depend on it any more is not told of.
	waits.DependsOn = []task.ID{"c"}
	b.put(waits)
	b.tell()
	b.wants("edited b ")
	b.put(open1("a"))
	b.tell()
	b.wants("reopened a ", "ready a ")
	b.put(done)
	if more, err := b.Journal.Publish(t.Context(), t0, []task.ID{"a"}); err != nil || more {
		t.Errorf("Tell = %v, %v, want nothing more to tell", more, err)
	}
	b.wants("completed a ")
}

func TestFeedOfParts(t *testing.T) {
	whole := open1("w")
	whole.SubItems = []task.ID{"a", "b", "c"}
	b := newBoard(t, open1("a"), open1("b"), open1("c"), whole)
	is := func(id task.ID, s task.Status) task.Task {
		one := open1(id)
		one.Status = s
		return one
	}
	b.put(is("a", task.Completed), is("b", task.Cancelled))
	b.tell()
	b.wants("completed a ", "cancelled b ")
	b.drop("c")
	b.tell()
	b.wants("trashed c ")
	gone := open1("c")
	gone.Trashed = true
	b.put(gone)
	b.tell()
	b.wants("ready w ")
}

func TestFeedOfWhatIsGone(t *testing.T) {
	done := mirrored("b", "done", task.Completed)
	b := newBoard(t, open1("a"), done)
	b.drop("a", "b") // b was put away
	b.tell()
	b.wants("trashed a ")
	b.put(open1("a"), done)
	b.tell()
	b.wants("restored a ", "ready a ")
	// Gone and back before anybody looked.
	b.drop("a")
	b.put(open1("a"))
	b.tell()
	b.wants()
	// Never told of.
	b.put(open1("c"))
	b.drop("c")
	b.tell()
	b.wants()
}

func TestFeedFilter(t *testing.T) {
	b := newBoard(t)
	c, d := attempt("Sandman", "a", t0), attempt("Oracle", "b", t0)
	lost := remote(c, claim.KindLost)
	lost.Holder = "Oracle"
	do(t, b.Record(t.Context(), lost, remote(d, claim.KindConflict), remote(c, claim.KindSwept)))
	for name, tt := range map[string]struct {
		f    journal.FactFilter
		want []int64
	}{
		"all":             {journal.FactFilter{}, []int64{1, 2, 3}},
		"after":           {journal.FactFilter{Told: 1}, []int64{2, 3}},
		"limit":           {journal.FactFilter{Limit: 2}, []int64{1, 2}},
		"the other party": {journal.FactFilter{Agent: "Oracle"}, []int64{1, 2}},
		"agent":           {journal.FactFilter{Agent: "Sandman"}, []int64{1, 3}},
		"nobody":          {journal.FactFilter{Agent: "Maria"}, nil},
		"task":            {journal.FactFilter{Task: "b"}, []int64{2}},
	} {
		list, err := b.Feed(t.Context(), tt.f)
		do(t, err)
		var got []int64
		for _, e := range list {
			got = append(got, e.Told)
		}
		same(t, name, tt.want, got)
	}
}

func TestPruneFeed(t *testing.T) {
	b := newBoard(t, open1("a"), open1("b"))
	bounds := func(wantLast, wantPruned int64) {
		t.Helper()
		if last, pruned, err := b.FeedBounds(t.Context()); err != nil || last != wantLast || pruned != wantPruned {
			t.Errorf("bounds = %d, %d, %v, want %d, %d", last, pruned, err, wantLast, wantPruned)
		}
	}
	pruneFeed := func(before time.Time, want int) {
		t.Helper()
		if got, err := b.PruneFeed(t.Context(), before); err != nil || got != want {
			t.Errorf("PruneFeed = %d, %v, want %d", got, err, want)
		}
	}
	bounds(0, 0)
	old, young := remote(attempt("Sandman", "a", t0), claim.KindSwept), remote(attempt("Oracle", "b", t0), claim.KindSwept)
	young.At = t0.Add(time.Hour)
	late := old // told late, of something long past
	late.ID = claim.NewFactID(t0)
	do(t, b.Record(t.Context(), old, young))
	do(t, b.Record(t.Context(), late))
	bounds(3, 0)
	pruneFeed(young.At, 1) // no holes
	bounds(3, 1)
	pruneFeed(young.At.Add(time.Second), 1)
	bounds(3, 2) // the last one is kept
	b.Journal = reopen(t, b.Journal)
	old.ID = claim.NewFactID(t0)
	do(t, b.Record(t.Context(), old))
	bounds(4, 2) // no id is used twice

	// What left the board is forgotten in the end, and then new.
	b.drop("a")
	b.tell()
	pruneFeed(t0, 0)
	b.put(open1("a"))
	b.tell()
	b.wants("swept a Sandman", "swept a Sandman", "trashed a ", "restored a ", "ready a ")
	b.drop("a")
	b.tell()
	pruneFeed(t0.Add(2*time.Minute), 5)
	b.put(open1("a"))
	b.tell()
	b.wants("trashed a ", "created a ", "ready a ")
	// It is not forgotten before that is told.
	b.drop("a")
	pruneFeed(t0.Add(2*time.Minute), 2)
	b.tell()
	b.wants("trashed a ")
}

// A fact that is on record and told stays for each for as long as that is kept, and a task's
// tries are counted from the record alone.
func TestPruneOneView(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second func(*journal.Journal, context.Context, time.Time) (int, error)
		logged, told  int // after the first
	}{
		"the feed first":   {(*journal.Journal).PruneFeed, (*journal.Journal).Prune, 1, 0},
		"the record first": {(*journal.Journal).Prune, (*journal.Journal).PruneFeed, 0, 1},
	} {
		j := newJournal(t)
		swept := attempt("Sandman", "a", t0)
		old, last := event(swept, claim.KindSwept, t0), event(attempt("Oracle", "b", t0), claim.KindExpiring, t0.Add(time.Hour))
		old.Tried = claim.TriedAgain
		do(t, j.Record(t.Context(), old, last))
		deliverAll(t, j)
		wants := func(logged, told int) {
			t.Helper()
			facts, err := j.Facts(t.Context(), journal.FactFilter{Task: "a"})
			do(t, err)
			news, err := j.Feed(t.Context(), journal.FactFilter{Task: "a"})
			do(t, err)
			tries, err := j.Tries(t.Context(), "a")
			do(t, err)
			if len(facts) != logged || len(news) != told || len(tries) != logged {
				t.Errorf("%s: %d on record, %d told, %d tries, want %d, %d, %[5]d", name, len(facts), len(news), len(tries), logged, told)
			}
		}
		for i, prune := range []func(*journal.Journal, context.Context, time.Time) (int, error){tt.first, tt.second} {
			if n, err := prune(j, t.Context(), t0.Add(time.Minute)); err != nil || n != 1 {
				t.Errorf("%s: pruned %d, %v, want 1", name, n, err)
			}
			if i == 0 {
				wants(tt.logged, tt.told)
			}
		}
		wants(0, 0)
	}
}
