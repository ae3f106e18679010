package daemon_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/journal"
	"dibs/internal/journal/inbox"
	"dibs/internal/journal/journaltest"
	"dibs/internal/task"
	"dibs/internal/testkit"
	"dibs/internal/testkit/referee"

	"modernc.org/sqlite"
)

// reaper kills a daemon, like kill -9, at one of its steps: before a commit of its journal, and
// before, during and after writing an answer. What remains is the journal's files at that moment.
// Callers and Notion get nothing of what it does afterwards.
type reaper struct {
	w *world
	o daemon.Options
	n *node

	mu    sync.Mutex
	at    int // kills at that step after arm; 0 for never
	armed bool
	steps int
	dead  string // at which kind of step the daemon was killed; empty while it lives
	// passed, if set, is told of each step of a daemon that lives, and of its death.
	passed func(kind string, dead bool)
	only   string // the kind of steps that count; empty for all
	left   map[string][]byte
	conns  []net.Conn

	mutant mutant
	behind map[string][]byte // the files before the last commit, for a late mutant
}

// mutant is a daemon with a fault.
type mutant struct {
	// late commits after answering: the last commit before the kill is lost.
	late bool
	// does is SQL that its journal executes by itself, comes SQL at a start.
	does, comes string
}

// reapers are the reapers by the paths of their journals.
var reapers sync.Map

func init() {
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, dsn string) error {
		u, err := url.Parse(dsn)
		if err != nil {
			return err
		}
		if r, ok := reapers.Load(u.Path); ok {
			conn.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
				r.(*reaper).step(commit)
				return 0
			})
		}
		return nil
	})
}

// The kinds of steps.
const (
	commit   = "before a commit"
	answer   = "before an answer"
	half     = "in the middle of an answer"
	answered = "after an answer"
)

// reap starts a daemon that is killed at a step after arm is called.
func (w *world) reap(o daemon.Options, at int, m mutant) *reaper {
	w.Helper()
	r := w.newReaper(o, at, m)
	r.sql(m.does)
	r.n = w.start(r.o)
	return r
}

// newReaper is reap for a daemon that is yet to be started.
func (w *world) newReaper(o daemon.Options, at int, m mutant) *reaper {
	r := &reaper{w: w, o: o, at: at, mutant: m}
	r.o.Transport = mortalTransport{o.Transport, r}
	w.tap = func(l net.Listener) net.Listener { return mortalListener{l, r} }
	reapers.Store(r.path(), r)
	w.Cleanup(func() { reapers.Delete(r.path()) })
	return r
}

func (r *reaper) path() string { return filepath.Join(r.o.Config.StateDir, journal.FileName) }

// sql executes a statement on the journal while it is closed.
func (r *reaper) sql(statement string) {
	r.w.Helper()
	if statement == "" {
		return
	}
	mustDo(r.w, journaltest.Make(r.path()))
	db, err := sql.Open("sqlite", r.path())
	mustDo(r.w, err)
	_, err = db.ExecContext(r.w.Context(), statement)
	mustDo(r.w, errors.Join(err, db.Close()))
}

// arm starts counting steps.
func (r *reaper) arm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = true
}

// count returns the number of steps since.
func (r *reaper) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps
}

// step is called at each step, and reports whether the daemon is dead.
func (r *reaper) step(kind string) (dead bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.armed || r.dead != "" {
		return r.dead != ""
	}
	if r.only == "" || r.only == kind {
		r.steps++
	}
	dead = r.steps == r.at && (r.only == "" || r.only == kind)
	if r.passed != nil {
		defer r.passed(kind, dead)
	}
	if dead {
		r.dead = kind
		if r.left = r.files(); r.mutant.late && r.behind != nil {
			r.left = r.behind
		}
		for _, conn := range r.conns {
			conn.Close()
		}
		return true
	}
	if r.mutant.late && kind == commit {
		r.behind = r.files()
	}
	return false
}

// files reads the journal's files. The WAL comes first: if a checkpoint comes in between, both
// files have what it moves.
func (r *reaper) files() map[string][]byte {
	files := make(map[string][]byte)
	for _, suffix := range []string{"-wal", ""} {
		data, err := os.ReadFile(r.path() + suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.w.Error(err)
		}
		files[suffix] = data
	}
	return files
}

// died reports whether the daemon was killed and is not back.
func (r *reaper) died() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead != ""
}

// back starts a daemon on the files of the killed one. It is not killed again.
func (r *reaper) back() {
	r.w.Helper()
	r.n.stop() // only the goroutines are left of it
	r.leave(r.left)
	if err := os.Remove(r.path() + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.w.Fatal(err)
	}
	r.sql(r.mutant.comes)
	r.mu.Lock()
	r.at, r.dead, r.conns = 0, "", nil
	r.mu.Unlock()
	r.n = r.w.start(r.o)
}

// leave has files be what is left of a daemon.
func (r *reaper) leave(files map[string][]byte) {
	r.w.Helper()
	mustDo(r.w, os.MkdirAll(filepath.Dir(r.path()), 0o700))
	for suffix, data := range files {
		mustDo(r.w, os.WriteFile(r.path()+suffix, data, 0o600))
	}
}

// within has the daemon be killed at the n-th step of a kind, empty for any, from now on.
func (r *reaper) within(n int, kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed, r.at, r.only = true, r.steps+n, kind
}

// remains returns at which kind of step the daemon was killed, and what is left of it.
func (r *reaper) remains() (dead string, left map[string][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead, r.left
}

// strike kills the daemon wherever it is.
func (r *reaper) strike() {
	r.within(1, "") // a step of another goroutine will do as well
	r.step("at rest")
}

// kill kills the daemon wherever it is, and restarts it.
func (r *reaper) kill() {
	r.strike()
	r.back()
}

type mortalListener struct {
	net.Listener
	r *reaper
}

func (l mortalListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if l.r.conns = append(l.r.conns, conn); l.r.dead != "" {
		conn.Close()
	}
	return mortalConn{conn, l.r}, nil
}

type mortalConn struct {
	net.Conn
	r *reaper
}

func (c mortalConn) Write(data []byte) (n int, err error) {
	if c.r.step(answer) {
		return 0, net.ErrClosed
	}
	if n, err = c.Conn.Write(data[:len(data)/2]); err != nil {
		return n, err
	}
	if c.r.step(half) {
		return n, net.ErrClosed
	}
	m, err := c.Conn.Write(data[n:])
	c.r.step(answered)
	return n + m, err
}

type mortalTransport struct {
	http.RoundTripper
	r *reaper
}

func (t mortalTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.r.died() {
		return nil, io.ErrUnexpectedEOF
	}
	return t.RoundTripper.RoundTrip(r)
}

// runStory plays a story and kills the daemon at one of its steps. It returns the number of steps,
// and what went wrong.
func runStory(t *testing.T, at int, keyed bool, m mutant, story func(*story)) (steps int, wrong []string) {
	inWorld(t, 0, func(w *world) {
		o := w.options(func(c *config.Config) {
			quiet(c)
			c.Claim.Timeout, c.Inbox.Offer = 8*time.Hour, 8*time.Hour
			c.Inbox.Visibility = 6 * time.Minute // the story waits for its end again and again
		})
		r := w.reap(o, at, m)
		s := newStory(w, r, o.Config.Inbox.Visibility, keyed)
		s.poll(0)
		story(s)
		steps = r.count()
		s.end()
		r.n.stop()
		wrong = s.Wrong()
	})
	return steps, wrong
}

// oneOf is of how many steps everyStep kills at one.
const oneOf = 3

// everyStep plays a story once with a kill at each of its steps: all of them with TEST_LONG=all, else every
// third.
func everyStep(t *testing.T, keyed bool, story func(*story)) {
	steps, wrong := runStory(t, 0, keyed, mutant{}, story)
	if len(wrong) > 0 || steps == 0 {
		t.Fatalf("without a death, in %d steps:\n%s", steps, strings.Join(wrong, "\n"))
	}
	t.Logf("%d steps", steps)
	every := oneOf
	switch {
	case testkit.InFull():
		every = 1
	case testing.Short():
		every = 13
	}
	for at := 1; at <= steps; at += every {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			if _, wrong := runStory(t, at, keyed, mutant{}, story); len(wrong) > 0 {
				t.Error(strings.Join(wrong, "\n"))
			}
		})
	}
}

// An accepted message is delivered until it is acknowledged, and not to two pollers at once,
// wherever in between the daemon is killed.
func TestKilledWithMessages(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	everyStep(t, false, (*story).messages)
}

// Daemons that lose a trigger, or deliver it twice, are detected by a kill at one of the steps at
// which everyStep kills, if not without.
func TestKilledMutants(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	when := func(state, then string) string {
		return "CREATE TRIGGER mutant AFTER UPDATE OF state ON triggers WHEN NEW.state = '" + state + "' " +
			"BEGIN UPDATE triggers SET state = '" + then + "' WHERE id = NEW.id; END"
	}
	for name, m := range map[string]mutant{
		"it answers before it commits":          {late: true},
		"a message is not stored":               {does: "CREATE TRIGGER mutant BEFORE INSERT ON triggers WHEN NEW.type = 'message' BEGIN SELECT RAISE(IGNORE); END"},
		"it is not noted what was taken":        {does: when("processing", "pending")},
		"what was taken does not come back":     {does: when("processing", "acknowledged")},
		"it is not noted what was acknowledged": {does: when("acknowledged", "processing")},
		"it knows no more what was taken":       {comes: "UPDATE triggers SET state = 'pending' WHERE state = 'processing'"},
		"it forgets what was taken":             {comes: "DELETE FROM triggers WHERE state = 'processing'"},
		"it knows no more what was acknowledged": {
			comes: "UPDATE triggers SET state = 'pending' WHERE state = 'acknowledged'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := 1
			for at := 1 - oneOf; at <= steps; at += oneOf { // the first time without a death
				n, wrong := runStory(t, at, false, m, (*story).messages)
				if len(wrong) > 0 {
					t.Logf("found out by a death at step %d: %s", max(at, 0), wrong[0])
					return
				}
				steps = max(steps, n)
			}
			t.Errorf("no death of %d finds it out", steps)
		})
	}
}

// This holds for every type of trigger, with a kill anywhere between the cause and the
// acknowledgement, where requests that were cut off are repeated under their keys.
func TestKilledWithTriggers(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	everyStep(t, true, func(s *story) {
		name := func(who string) map[string]any { return map[string]any{"claimed_by": text("rich_text", who)} }
		taken, mine, done, handed := s.add("Alpha", nil), s.add("Beta", nil), s.add("Gamma", nil), s.add("Delta", nil)
		c := s.life.n.Client
		hold := func(agent, id string) (cl api.Claim) {
			cl, err := client.Do(s.Context(), c, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: agent, Task: id}))
			mustDo(s.world, err)
			return cl
		}
		_, err := client.Do(s.Context(), c, api.OpSync, api.Keyed("", &api.SyncRequest{}))
		mustDo(s.world, err)
		hold("Oracle", taken)
		hold("Oracle", mine)
		gamma := hold("Sandman", done)
		hold("Sandman", handed)
		_, err = client.Do(s.Context(), c, api.OpPoll, api.PollInput{Name: "Oracle", Body: &api.PollRequest{Finished: true}}) // subscribes from now on
		mustDo(s.world, err)
		time.Sleep(2 * time.Minute)
		s.life.arm()

		owe := func(kind inbox.Type, rest string) { s.inbox.Owe("Oracle", string(kind)+rest) }
		s.edit(taken, name("Maria"))
		s.say(mine, "Maria", "look at page 2")
		s.add("Epsilon", name("Oracle"))
		s.add("Zeta", nil)
		owe(inbox.ClaimLost, " Alpha")
		owe(inbox.Comment, " Beta: look at page 2")
		owe(inbox.TaskAssigned, " Epsilon")
		owe(inbox.TasksAvailable, "")
		s.ask("sync", func(c *client.Client, key string) error {
			_, err := client.Do(s.Context(), c, api.OpSync, api.Keyed(key, &api.SyncRequest{}))
			return err
		})
		if s.ask("complete", func(c *client.Client, key string) error {
			_, err := client.Do(s.Context(), c, api.OpComplete, api.On(string(gamma.ID), key, api.CompleteRequest{Agent: "Sandman"}))
			return err
		}) {
			owe(inbox.TaskFinished, " Gamma")
		}
		if s.ask("offer", func(c *client.Client, key string) error {
			_, err := client.Do(s.Context(), c, api.OpOffer, api.OnTask(task.ID(handed), key, api.OfferRequest{Agent: "Sandman", To: "Oracle"}))
			if code(err) == denied(claim.CodeReserved) {
				return nil // Oracle has it: done before the kill
			}
			return err
		}) {
			owe(inbox.TaskOffered, " Delta")
		}
		s.send("one")
		time.Sleep(time.Second)
		first := s.poll(3)
		s.poll(3)
		s.lose()
		s.poll(0)
		s.poll(0) // a poll reads comments
		s.ack(first)
	})
}

// Triggers taken by a process that ended come back at once, even if the daemon was killed
// meanwhile; those of a living process come back after their visibility.
func TestKilledWithTakers(t *testing.T) {
	t.Parallel()
	gone := exec.Command("sleep", "1000")
	if err := gone.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gone.Process.Kill() })
	inWorld(t, 0, func(w *world) {
		r := w.reap(w.options(quiet), 0, mutant{})
		s := newStory(w, r, r.o.Config.Inbox.Visibility, false)
		s.send("one")
		s.send("two")
		for _, pid := range []int{gone.Process.Pid, os.Getpid()} {
			_, err := client.Do(w.Context(), r.n.Client, api.OpPoll, api.PollInput{Name: "Oracle", Body: &api.PollRequest{Limit: 1, PID: pid}})
			mustDo(w, err)
		}
		mustDo(w, gone.Process.Kill())
		_ = gone.Wait()
		r.kill()
		r.n.wantInbox("Oracle", 0, "message from Sandman: one")
		r.kill()
		r.n.wantInbox("Oracle", 0)
		time.Sleep(s.visibility)
		r.n.wantInbox("Oracle", 0, "message from Sandman: two")
		r.n.stop()
	})
}

// story records what an inbox delivered to whom, and what went wrong.
type story struct {
	*world
	life       *reaper
	visibility time.Duration
	// keyed sends requests under keys, and repeats those that were cut off.
	keyed bool

	*referee.Book
	inbox *referee.Inbox // of Oracle
	polls int
}

func newStory(w *world, life *reaper, visibility time.Duration, keyed bool) *story {
	b := referee.NewBook()
	return &story{world: w, life: life, visibility: visibility, keyed: keyed, Book: b, inbox: referee.NewInbox(b, visibility)}
}

// named returns a trigger's identity within a story.
func named(t api.Trigger) string {
	if t.Type == inbox.Message || t.Type == inbox.Comment {
		return about(t) + ": " + t.Text
	}
	return about(t)
}

// ask sends a request, and repeats it if it was cut off and has a key. It reports whether the
// answer was as expected.
func (s *story) ask(what string, do func(c *client.Client, key string) error) bool {
	key := ""
	if s.keyed {
		key = what
	}
	err := do(s.life.n.Client, key)
	killed := s.life.died()
	if killed {
		s.life.back()
		if err != nil && s.keyed {
			err = do(s.life.n.Client, key)
		}
	}
	if err != nil && (!killed || s.keyed) {
		s.Complain("%s: %v", what, err)
	}
	return err == nil
}

// send sends Oracle a message. If the request is answered, the message must be delivered.
func (s *story) send(text string) {
	if s.ask("send "+text, func(c *client.Client, key string) error {
		_, err := client.Do(s.Context(), c, api.OpSend, api.Keyed(key, api.MessageRequest{From: "Sandman", To: "Oracle", Text: text}))
		return err
	}) {
		s.inbox.Owe("Oracle", string(inbox.Message)+": "+text)
	}
}

// poll takes up to limit of Oracle's triggers, 0 for all, and returns their ids. A taken trigger
// must not be delivered again during its visibility, and never after it was acknowledged.
func (s *story) poll(limit int) (ids []string) {
	s.polls++
	taker := fmt.Sprint("poll ", s.polls)
	s.ask(taker, func(c *client.Client, key string) error {
		got, err := client.Do(s.Context(), c, api.OpPoll, api.PollInput{Name: "Oracle", Key: key, Body: &api.PollRequest{Limit: limit}})
		if err != nil {
			return err
		}
		for _, t := range got.Triggers {
			ids = append(ids, t.ID)
			s.inbox.Show("Oracle", taker, t.ID, named(t), t.Type != inbox.TasksAvailable)
		}
		return nil
	})
	return ids
}

// ack acknowledges triggers.
func (s *story) ack(ids []string) {
	if len(ids) == 0 {
		return
	}
	s.inbox.Ack(ids, referee.Asked)
	if s.ask("ack "+strings.Join(ids, " "), func(c *client.Client, key string) error {
		got, err := c.Ack(s.Context(), "Oracle", api.AckRequest{IDs: ids}, key)
		if err == nil && len(got.Unknown) > 0 {
			s.Complain("unknown to ack: %q", got.Unknown)
		}
		return err
	}) {
		s.inbox.Ack(ids, referee.Acked)
	}
}

// lose polls and drops the answer, like a caller that is killed: nobody got what it took.
func (s *story) lose() {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	_, _ = client.Do(ctx, s.life.n.Client, api.OpPoll, api.PollInput{Name: "Oracle", Body: &api.PollRequest{Limit: 1}})
	if s.life.died() {
		s.life.back()
	}
}

// end waits, twice, for taken triggers to come back: all that were not acknowledged must. Then it
// acknowledges everything, and nothing may come back, even after one more kill.
func (s *story) end() {
	const visits = 3 // within the visibility
	step := s.visibility / visits
	for range 2*visits + 1 {
		s.poll(0)
		time.Sleep(step)
	}
	s.inbox.CheckTold()
	s.ack(s.inbox.Open(s.visibility + step))
	s.life.kill()
	for range 2 {
		if ids := s.poll(0); len(ids) > 0 {
			s.Complain("%d triggers are there after all were acknowledged", len(ids))
		}
		time.Sleep(s.visibility + time.Minute)
	}
}

// messages sends some messages, and takes and acknowledges them in several polls.
func (s *story) messages() {
	s.life.arm()
	s.send("one")
	s.send("two")
	s.send("three")
	first := s.poll(2)
	s.poll(0)
	s.ack(first[:min(1, len(first))])
	s.send("four")
	s.lose()
	s.send("five")
	s.ack(s.poll(0))
}
