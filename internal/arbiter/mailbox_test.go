package arbiter_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/arbiter/mailbox"
	"dibs/internal/claim"
	"dibs/internal/inbox"
	"dibs/internal/inbox/inboxtest"
	"dibs/internal/journal"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// postbox is a member's way to the cluster's inbox.
type postbox struct {
	*mailbox.Inbox
	testing *testing.T
	journal *journal.Journal
	etcd    *arbiter.Etcd
	gone    atomic.Bool // its processes have ended
	trouble atomic.Bool // it is known that etcd is away
	owes    chan struct{}
	close   func() // kills the member
}

type postboxConfig struct {
	endpoint, board, folder string
	visibility              time.Duration
	orphaned                time.Duration
	journal                 func(*journal.Journal) mailbox.Journal
}

func newPostbox(t *testing.T, c postboxConfig) *postbox {
	t.Helper()
	if c.folder == "" {
		c.folder = t.TempDir()
	}
	if c.visibility == 0 {
		c.visibility = time.Hour
	}
	j, err := journal.Open(t.Context(), filepath.Join(c.folder, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	j.ShareInbox()
	etcd, err := arbiter.Open(t.Context(), arbiter.Cluster{Endpoints: []string{c.endpoint}, Prefix: "/dibs", Workspace: "board " + c.board, Name: "a member"}, j, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &postbox{testing: t, journal: j, etcd: etcd, owes: make(chan struct{}, 1)}
	kept := mailbox.Journal(j)
	if c.journal != nil {
		kept = c.journal(j)
	}
	p.Inbox = mailbox.New(mailbox.Config{
		Etcd: etcd, Journal: kept, Trouble: p.troubled, Keep: func() time.Duration { return time.Hour },
		Visibility: c.visibility, Orphaned: c.orphaned, Lives: func(string) bool { return !p.gone.Load() },
		News: func() {}, Offered: func() {}, Log: testLog(t),
		Owes: func() {
			select {
			case p.owes <- struct{}{}:
			default:
			}
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { p.Run(ctx) })
	p.close = sync.OnceFunc(func() {
		stop()
		following.Wait()
		if err := errors.Join(etcd.Close(), j.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.close)
	return p
}

func (p *postbox) troubled() error {
	if p.trouble.Load() {
		return arbiter.ErrAway
	}
	return nil
}

// push passes on what the member owes.
func (p *postbox) push() {
	p.testing.Helper()
	if err := p.Push(p.testing.Context()); err != nil {
		p.testing.Fatal(err)
	}
}

// take takes Oracle's triggers.
func (p *postbox) take(change func(*inbox.Take)) (said, ids []string, err error) {
	now := time.Now()
	take := inbox.Take{Agent: "Oracle", Taker: inbox.NewID(now), Now: now, At: now, Visibility: time.Hour}
	if change != nil {
		change(&take)
	}
	got, err := p.TakeTriggers(p.testing.Context(), take)
	for _, trigger := range got {
		said, ids = append(said, string(trigger.Type)+" "+trigger.Text), append(ids, trigger.ID)
	}
	return said, ids, err
}

func (p *postbox) want(change func(*inbox.Take), want ...string) []string {
	p.testing.Helper()
	said, ids, err := p.take(change)
	if diff := cmp.Diff(want, said); diff != "" || err != nil {
		p.testing.Fatalf("taken, %v (-want +got):\n%s", err, diff)
	}
	return ids
}

func (p *postbox) add(triggers ...inbox.Trigger) {
	p.testing.Helper()
	for i := range triggers {
		triggers[i].Agent, triggers[i].At = "Oracle", time.Now()
	}
	if _, err := p.AddTriggers(p.testing.Context(), triggers...); err != nil {
		p.testing.Fatal(err)
	}
}

func (p *postbox) ack(ids ...string) {
	p.testing.Helper()
	if unknown, err := p.AckTriggers(p.testing.Context(), "Oracle", ids); err != nil || len(unknown) > 0 {
		p.testing.Fatalf("ack: %q, %v", unknown, err)
	}
}

func note(text string) inbox.Trigger { return inbox.Trigger{Type: inbox.Message, Text: text} }

// The inbox of a cluster of four is as inboxes are.
func TestSharedInbox(t *testing.T) {
	etcd := arbitertest.Start(t)
	boards := 0
	inboxtest.Run(t, func(t *testing.T) *inboxtest.World {
		boards++
		w := &inboxtest.World{Visibility: time.Second, Now: time.Now}
		var all []*postbox
		for range 4 {
			p := newPostbox(t, postboxConfig{endpoint: etcd.URL(), board: fmt.Sprint(boards), visibility: time.Hour})
			all, w.Doors = append(all, p), append(w.Doors, p)
		}
		w.Pass = func() {
			for _, p := range all {
				p.push()
			}
		}
		w.Over = func() { // etcd tells
			taken := len(etcd.Keys(t, "/dibs/board "+fmt.Sprint(boards)+"/inbox/now/taken/"))
			wait(t, "what was taken is there again", func() bool {
				return taken == 0 || len(etcd.Keys(t, "/dibs/board "+fmt.Sprint(boards)+"/inbox/now/taken/")) == 0
			})
		}
		return w
	})
}

// failing is a journal that is killed before it notes what was put.
type failing struct {
	*journal.Journal
	fails bool
}

func (f *failing) Shared(ctx context.Context, at time.Time, ids ...string) error {
	if f.fails {
		return errors.New("killed")
	}
	return f.Journal.Shared(ctx, at, ids...)
}

// Wherever a member is killed on the way, what it stored is told once.
func TestMemberKilledWhilePassingOn(t *testing.T) {
	etcd := arbitertest.Start(t)
	folder := t.TempDir()
	other := newPostbox(t, postboxConfig{endpoint: etcd.URL()})
	other.want(nil)

	a := newPostbox(t, postboxConfig{endpoint: etcd.URL(), folder: folder})
	a.add(note("stored"))
	a.close() // before it could pass it on

	var broken *failing
	a = newPostbox(t, postboxConfig{endpoint: etcd.URL(), folder: folder, journal: func(j *journal.Journal) mailbox.Journal {
		broken = &failing{j, true}
		return broken
	}})
	if err := a.Push(t.Context()); err == nil {
		t.Fatal("it was not killed")
	}
	a.close() // behind that
	other.ack(other.want(nil, "message stored")...)

	a = newPostbox(t, postboxConfig{endpoint: etcd.URL(), folder: folder})
	a.push()
	a.push()
	other.want(nil)

	// The same for a group, which it addresses first.
	now := time.Now()
	everybody := claim.Event{ID: claim.NewEventID(now), At: now, Kind: claim.KindMessage, Agent: "Sandman", Holder: inbox.Everybody, Detail: "all"}
	for range 2 {
		if err := a.Send(t.Context(), everybody); err != nil {
			t.Fatal(err)
		}
		a.push()
	}
	other.want(nil, "message all")
}

// While etcd is away nothing is lost, nothing is told twice, and who asks is told so.
func TestInboxWithoutEtcd(t *testing.T) {
	etcd := arbitertest.Start(t)
	way := arbitertest.NewWay(t, etcd.URL())
	a, b := newPostbox(t, postboxConfig{endpoint: way.URL()}), newPostbox(t, postboxConfig{endpoint: etcd.URL()})
	a.want(nil)
	a.add(note("one"))
	a.push()
	ids := a.want(nil, "message one")
	a.add(note("two"))
	a.push()
	way.Cut()
	var away *claim.ArbiterError
	if _, _, err := a.take(nil); !errors.As(err, &away) || away.RetryAfter <= 0 {
		t.Errorf("a poll without etcd: %v", err)
	}
	a.trouble.Store(true) // which the ledger has found out, too
	if of, err := a.TriggerAgents(t.Context(), ids); err != nil || of[ids[0]] != "Oracle" {
		t.Errorf("what was handed out here: %v, %v", of, err)
	}
	a.ack(ids...)
	a.add(note("three"))
	if err := a.Push(t.Context()); !errors.As(err, &away) {
		t.Errorf("passing on without etcd: %v", err)
	}
	if n, err := a.Owed(t.Context()); n != 2 || err != nil {
		t.Errorf("owed %d, %v; want 2", n, err)
	}
	b.want(nil, "message two")
	way.Mend()
	a.trouble.Store(false)
	wait(t, "etcd is back", func() bool { return a.Push(t.Context()) == nil })
	if n, err := a.Owed(t.Context()); n != 0 || err != nil {
		t.Errorf("owed %d, %v; want 0", n, err)
	}
	b.want(nil, "message three")
	if n := len(etcd.Keys(t, "/dibs/board /inbox/now/live/")); n != 3 { // with the first poll's
		t.Errorf("%d are left, want 3", n)
	}
}

// An etcd that was emptied gets what is not known to be acknowledged again.
func TestInboxEmptied(t *testing.T) {
	etcd := arbitertest.Start(t)
	a, b := newPostbox(t, postboxConfig{endpoint: etcd.URL()}), newPostbox(t, postboxConfig{endpoint: etcd.URL()})
	b.want(nil)
	a.add(note("one"), note("two"))
	a.push()
	b.ack(b.want(func(r *inbox.Take) { r.Limit = 1 }, "message one")...)
	wait(t, "a knows", func() bool {
		in, err := a.journal.InShared(t.Context())
		return err == nil && len(in) == 1
	})
	etcd.Stop()
	etcd.Empty()
	etcd.Begin()
	for _, p := range []*postbox{a, b} {
		wait(t, "it is adopted", func() bool {
			return errors.Join(p.Emptied(t.Context()), p.etcd.Adopt(t.Context())) == nil
		})
		p.Restart()
		p.push()
	}
	b.want(nil, "message two")
}

// What was acknowledged since the copy was made that etcd is restored from is not told again.
func TestInboxRestored(t *testing.T) {
	etcd := arbitertest.Start(t)
	a, b := newPostbox(t, postboxConfig{endpoint: etcd.URL()}), newPostbox(t, postboxConfig{endpoint: etcd.URL()})
	b.want(nil)
	a.add(note("one"), note("two"))
	a.push()
	copied := etcd.Copy()
	wait(t, "etcd is back", func() bool { return a.etcd.Probe(t.Context()) == nil && b.etcd.Probe(t.Context()) == nil })
	b.ack(b.want(func(r *inbox.Take) { r.Limit = 1 }, "message one")...)
	wait(t, "a knows", func() bool {
		in, err := a.journal.InShared(t.Context())
		return err == nil && len(in) == 1
	})
	etcd.Restore(copied)
	for _, p := range []*postbox{b, a} {
		wait(t, "it is noticed", func() bool { return errors.Is(p.etcd.Probe(t.Context()), arbiter.ErrForeign) })
	}
	for _, p := range []*postbox{a, b} {
		wait(t, "it is adopted", func() bool {
			return errors.Join(p.Emptied(t.Context()), p.etcd.Adopt(t.Context())) == nil
		})
		p.Restart()
	}
	wait(t, "it is told what was acknowledged", func() bool {
		a.push()
		return !etcd.Holds("message one") && len(etcd.Keys(t, a.etcd.Key("inbox", "now", "live"))) == 2 // that of available tasks, too
	})
	b.want(nil, "message two")
}

// What could not be passed on is passed on when that can be, without anything else happening:
// an acknowledgement, and the end of an offer, of which it is not known before everything was
// read anew whether etcd has it.
func TestOwedIsPassedOnUnasked(t *testing.T) {
	a := newPostbox(t, postboxConfig{endpoint: arbitertest.Start(t).URL()})
	owes := func(what string) {
		t.Helper()
		select {
		case <-a.owes:
		case <-time.After(10 * time.Second):
			t.Errorf("nobody is told to pass on %s", what)
		}
	}
	owes("what there was at first")
	a.add(note("one"))
	a.push()
	ids := a.want(nil, "message one")
	a.trouble.Store(true)
	a.ack(ids...)
	owes("an acknowledgement")
	a.trouble.Store(false)
	a.Restart()
	owes("what ended meanwhile")
}

// What a process took comes back when it is gone, and when its member is.
func TestTakerIsGone(t *testing.T) {
	etcd := arbitertest.Start(t)
	a := newPostbox(t, postboxConfig{endpoint: etcd.URL(), orphaned: time.Second})
	b := newPostbox(t, postboxConfig{endpoint: etcd.URL(), orphaned: time.Second})
	a.want(nil)
	a.add(note("one"))
	a.push()
	process := func(r *inbox.Take) { r.Process = "p" }
	a.want(process, "message one")
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := a.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.want(nil) // the process lives, and its member says so
	a.gone.Store(true)
	if err := a.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.want(process, "message one")
	b.close() // which tends it no more
	a.gone.Store(false)
	wait(t, "its member is gone", func() bool {
		got, _, err := a.take(nil)
		return err == nil && len(got) == 1
	})
}

// A member that is killed with what it handed out finds it again when it is back: for the
// same request, and for others when the process is gone.
func TestMemberKilledWithWhatItTook(t *testing.T) {
	etcd := arbitertest.Start(t)
	folder := t.TempDir()
	a, b := newPostbox(t, postboxConfig{endpoint: etcd.URL(), folder: folder}), newPostbox(t, postboxConfig{endpoint: etcd.URL()})
	a.want(nil)
	a.add(note("one"))
	a.push()
	keyed := func(r *inbox.Take) { r.Taker, r.Process = "1000 key", "p" }
	a.want(keyed, "message one")
	a.close()
	a = newPostbox(t, postboxConfig{endpoint: etcd.URL(), folder: folder})
	a.want(keyed, "message one")
	b.want(nil)
	a.gone.Store(true)
	wait(t, "it is there again", func() bool {
		if err := a.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, _, err := b.take(nil)
		return err == nil && len(got) == 1
	})
}

// What a poll took whose answer from etcd was lost comes back: nobody has heard of it.
func TestAnswerToATakeIsLost(t *testing.T) {
	etcd := arbitertest.Start(t)
	way := arbitertest.NewWay(t, etcd.URL())
	a, b := newPostbox(t, postboxConfig{endpoint: way.URL()}), newPostbox(t, postboxConfig{endpoint: etcd.URL()})
	for _, again := range []bool{true, false} {
		a.want(nil)
		b.add(note("one"))
		b.push()
		live := etcd.Keys(t, "/dibs/board /inbox/now/live/Oracle/message/")
		id := live[0][strings.LastIndex(live[0], "/")+1:]
		way.MuteAt("taken/Oracle/" + id)
		poll := func(r *inbox.Take) { r.Taker = "poll " + id }
		var away *claim.ArbiterError
		if got, _, err := a.take(poll); !errors.As(err, &away) {
			t.Fatalf("a take without an answer: %q, %v", got, err)
		}
		b.want(nil) // it was taken
		way.Mend()
		if again { // the same poll tries again
			var said, ids []string
			wait(t, "etcd is back", func() (ok bool) {
				var err error
				said, ids, err = a.take(poll)
				return err == nil
			})
			if !slices.Equal(said, []string{"message one"}) {
				t.Errorf("taken: %q", said)
			}
			a.ack(ids...)
			continue
		}
		wait(t, "etcd is back", func() bool { return a.Tend(t.Context()) == nil })
		b.ack(b.want(nil, "message one")...)
	}
}

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
