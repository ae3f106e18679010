package arbiter_test

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/arbiter/mailbox"
	"dibs/internal/claim"
	"dibs/internal/inbox"
	"dibs/internal/task"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// boardOf is a board of these tasks.
func boardOf(tasks ...*task.Task) mailbox.Board {
	return mailbox.Board{
		Tasks: func() iter.Seq[task.Task] {
			return func(yield func(task.Task) bool) {
				for _, t := range tasks {
					if !yield(*t) {
						return
					}
				}
			}
		},
		Ready: func(t task.Task) bool { return t.Status == task.Open && t.ClaimedBy == "" }, Now: time.Now(),
	}
}

func (p *postbox) tell(b mailbox.Board) {
	p.testing.Helper()
	for range 3 { // who was behind reads anew
		busy, err := p.TellBoard(p.testing.Context(), b)
		if err != nil {
			p.testing.Fatal(err)
		}
		if !busy {
			return
		}
	}
	p.testing.Fatal("it is always busy")
}

// What people do on the board is told once, also where the member that tells changes in the
// middle, and has a copy of the board that is behind.
func TestBoardIsToldOnce(t *testing.T) {
	etcd := arbitertest.Start(t)
	a, b := newPostbox(t, postboxConfig{endpoint: etcd.URL()}), newPostbox(t, postboxConfig{endpoint: etcd.URL()})
	some := func(r *inbox.Take) { r.Available, r.Finished = 1, true }
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	one := &task.Task{ID: taskOne, Status: task.Open, ClaimedBy: "Oracle", Edited: noon}
	two := &task.Task{ID: taskTwo, Status: task.Blocked, Edited: noon}
	a.tell(boardOf(one, two)) // it was like that before
	a.want(some)              // what it sees itself, whether there are tasks, waits until that is told

	one.Edited, one.ClaimedBy = noon.Add(time.Minute), "Sandman"
	old := *one
	a.tell(boardOf(one, two))
	one.Edited, one.ClaimedBy = noon.Add(2*time.Minute), "Oracle"
	a.tell(boardOf(one, two))
	b.tell(boardOf(one, two))
	b.want(some, "task_assigned ")
	b.tell(boardOf(&old, two)) // which is behind
	a.TellNoMore()
	a.tell(boardOf(one, two))

	// Who tells is killed between the board's change and its telling; another one does.
	two.Edited, two.Status = noon.Add(3*time.Minute), task.Open
	one.Edited, one.Status = noon.Add(3*time.Minute), task.Completed
	b.tell(boardOf(one, two))
	a.tell(boardOf(one, two))
	got, ids, err := a.take(some)
	if err != nil || !slices.Equal(got, []string{"task_finished ", "tasks_available "}) {
		t.Errorf("told %q, %v", got, err)
	}
	a.ack(ids...)

	// A person opens it again, and finishes it once more.
	for _, p := range []*postbox{a, b} {
		one.Edited, one.Status = one.Edited.Add(time.Minute), task.Open
		p.tell(boardOf(one, two))
	}
	b.want(nil, "task_assigned ")
	one.Edited, one.Status = one.Edited.Add(time.Minute), task.Completed
	for _, p := range []*postbox{a, b, a} {
		p.TellNoMore()
		p.tell(boardOf(one, two))
	}
	b.want(some, "task_finished ")
	b.want(some)
}

// What was told of a task is forgotten in time once that is not on the board any more, and
// told no second time if it comes back before.
func TestWhatLeftTheBoardIsForgotten(t *testing.T) {
	etcd := arbitertest.Start(t)
	a := newPostbox(t, postboxConfig{endpoint: etcd.URL()})
	a.want(nil)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	one := &task.Task{ID: taskOne, Status: task.Open, ClaimedBy: "Oracle", Edited: noon}
	two := &task.Task{ID: taskTwo, Status: task.Blocked, Edited: noon}
	a.tell(boardOf(one, two))
	lasts := func(id task.ID) bool {
		t.Helper()
		resp, err := a.etcd.Commit(t.Context(), nil, []clientv3.Op{clientv3.OpGet(a.etcd.Key("inbox", "board", string(id)))}, nil)
		if err != nil || len(resp.Responses[0].GetResponseRange().Kvs) != 1 {
			t.Fatalf("what was told of %s is not there: %v", id, err)
		}
		return resp.Responses[0].GetResponseRange().Kvs[0].Lease == 0
	}
	a.tell(boardOf(two))
	if lasts(taskOne) || !lasts(taskTwo) {
		t.Errorf("for good: %v, and of the one that is still there %v", lasts(taskOne), lasts(taskTwo))
	}
	a.tell(boardOf(two, one))
	a.TellNoMore()
	a.tell(boardOf(two, one))
	if !lasts(taskOne) {
		t.Error("it is forgotten although it is back")
	}
	a.want(nil)
	one.Edited, one.ClaimedBy = noon.Add(time.Minute), "Sandman"
	a.tell(boardOf(two, one))
	one.Edited, one.ClaimedBy = noon.Add(2*time.Minute), "Oracle"
	a.tell(boardOf(two, one))
	a.want(nil, "task_assigned ")
}

// A task that a member has completed is told of by that member, and by the one that tells of
// the board: once, whoever comes first.
func TestFinishIsToldOnce(t *testing.T) {
	etcd := arbitertest.Start(t)
	a, b := newPostbox(t, postboxConfig{endpoint: etcd.URL()}), newPostbox(t, postboxConfig{endpoint: etcd.URL()})
	lead := func(r *inbox.Take) { r.Finished = true }
	a.want(lead)
	for i, first := range []*postbox{a, b} {
		now := time.Now().UTC()
		id := claim.NewID(now)
		done := &task.Task{ID: task.ID(fmt.Sprint("task ", i)), Status: task.InProgress, ClaimedBy: "Sandman", ClaimedAt: now, Edited: now}
		b.tell(boardOf(done))
		done.Status, done.Token = task.Completed, "done "+string(id)+" Sandman"
		event := claim.Event{ID: claim.NewEventID(now), At: now, Kind: claim.KindCompleted, Task: done.ID, Agent: "Sandman", Claim: id, Remote: true}
		record := func() {
			if err := a.journal.Record(t.Context(), event); err != nil {
				t.Fatal(err)
			}
			a.push()
		}
		if first == a {
			record()
			b.tell(boardOf(done))
		} else {
			b.tell(boardOf(done))
			record()
		}
		b.want(nil, "task_finished ")
		a.want(nil)
	}
}

// A loss is told once where pages have no tokens, too, although the member that has lost the claim
// and the one that took the task over both tell of it.
func TestLossIsToldOnce(t *testing.T) {
	etcd := arbitertest.Start(t)
	a, b := newPostbox(t, postboxConfig{endpoint: etcd.URL()}), newPostbox(t, postboxConfig{endpoint: etcd.URL()})
	a.want(nil)
	record := func(p *postbox, e claim.Event) {
		t.Helper()
		e.At = time.Now().UTC()
		e.ID, e.Task, e.Remote = claim.NewEventID(e.At), taskOne, true
		if err := p.journal.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		p.push()
	}
	for n := range 2 {
		leased := time.Date(2026, 11, 20, 12, n, 0, 0, time.UTC)
		record(b, claim.Event{Kind: claim.KindOverridden, Agent: "Sandman", Holder: "Oracle", Claim: "theirs", Leased: leased})
		record(a, claim.Event{Kind: claim.KindLost, Agent: "Oracle", Holder: "Sandman", Claim: "ours", Detail: "lost", Leased: leased})
		if _, ids, err := b.take(nil); err != nil || len(ids) != 1 {
			t.Errorf("loss %d is told %d times, %v", n, len(ids), err)
		}
		a.want(nil)
	}
}

// An offer is known at all members until it ends, and nobody hears of one that has.
func TestOfferIsKnownEverywhere(t *testing.T) {
	etcd := arbitertest.Start(t)
	a, b := newPostbox(t, postboxConfig{endpoint: etcd.URL()}), newPostbox(t, postboxConfig{endpoint: etcd.URL()})
	b.want(nil)
	offers := func(p *postbox, n int) func() bool {
		return func() bool {
			all, err := p.Offers(t.Context())
			return err == nil && len(all) == n
		}
	}
	offer := func() {
		now := time.Now().UTC()
		e := claim.Event{ID: claim.NewEventID(now), At: now, Kind: claim.KindReleased, Task: taskOne, Agent: "Sandman", Holder: "Oracle", Expires: now.Add(time.Minute), Remote: true, Summary: "yours"}
		if err := a.journal.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		a.push()
	}
	offer()
	wait(t, "b knows", offers(b, 1))
	wait(t, "a knows", offers(a, 1))
	// The board, which shows a name now, tells nothing.
	shown := &task.Task{ID: taskOne, Status: task.Open, Edited: time.Now()}
	b.tell(boardOf(shown))
	shown.ClaimedBy = "Oracle"
	b.tell(boardOf(shown))
	b.want(nil, "task_offered yours")
	if all, err := b.Offers(t.Context()); err != nil || b.Ours(all[0]) || !a.Ours(all[0]) {
		t.Errorf("whose offers they are: %+v, %v", all, err)
	}
	if err := b.EndOffer(t.Context(), taskOne); err != nil {
		t.Fatal(err)
	}
	wait(t, "b knows", offers(b, 0))
	if err := a.EndOffer(t.Context(), taskOne); err != nil {
		t.Fatal(err)
	}
	offer()
	wait(t, "a knows", offers(b, 1))
	if err := a.journal.EndOffer(t.Context(), taskOne); err != nil { // as its board says
		t.Fatal(err)
	}
	wait(t, "it ends", func() bool { a.push(); return offers(b, 0)() })
	b.want(nil)
}
