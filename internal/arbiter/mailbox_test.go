package arbiter_test

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/google/go-cmp/cmp"
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
