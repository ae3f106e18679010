package daemon_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/inbox"
	"dibs/internal/task"
)

// mortal is what is asked while it is killed: one daemon, or the members of a cluster.
type mortal interface {
	// door is a way in.
	door() *client.Client
	// died reports whether somebody was killed and is not back, and back has another one take
	// over, which is not killed by itself.
	died() bool
	back()
	// kill kills whoever is there, now, and has another one take over.
	kill()
}

// story is told of an inbox: who was told what, and what has gone wrong.
type story struct {
	*world
	life       mortal
	visibility time.Duration
	// keyed has requests made under keys, and made again when they were cut off.
	keyed bool

	owed  map[string]bool     // what has to be told, see named
	shown map[string]*showing // what was, by ids
	polls int
	wrong []string
}

// showing is what is known of a trigger that a poll was answered with.
type showing struct {
	line  string
	taker string
	at    time.Time
	done  done
}

// done is how far the acknowledgement of a trigger came.
type done int

const (
	unacked done = iota
	asked        // it may be acknowledged, or not
	acked        // that was answered
)

func newStory(w *world, life mortal, keyed bool) *story {
	return &story{
		world: w, life: life, visibility: config.Default().Inbox.Visibility, keyed: keyed,
		owed: make(map[string]bool), shown: make(map[string]*showing),
	}
}

func (s *story) fault(format string, args ...any) {
	s.wrong = append(s.wrong, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// named tells one trigger from the others of a story.
func named(t api.Trigger) string {
	if t.Type == inbox.Message || t.Type == inbox.Comment {
		return about(t) + ": " + t.Text
	}
	return about(t)
}

// ask makes a request, and makes it again if it was cut off and has a key. It reports whether
// it was answered as it should.
func (s *story) ask(what string, do func(c *client.Client, key string) error) bool {
	key := ""
	if s.keyed {
		key = what
	}
	err := do(s.life.door(), key)
	killed := s.life.died()
	if killed {
		s.life.back()
		if err != nil && s.keyed {
			err = do(s.life.door(), key)
		}
	}
	if err != nil && (!killed || s.keyed) {
		s.fault("%s: %v", what, err)
	}
	return err == nil
}

// send says something to Oracle. If that was answered it has to be told.
func (s *story) send(text string) {
	if s.ask("send "+text, func(c *client.Client, key string) error {
		_, err := c.Send(s.Context(), api.MessageRequest{From: "Sandman", To: "Oracle", Text: text}, key)
		return err
	}) {
		s.owed[string(inbox.Message)+": "+text] = true
	}
}

// poll takes up to limit of Oracle's triggers, 0 for all, and returns their ids. What it
// gets is not to be had by another one while it is not visible, and never once it was
// acknowledged.
func (s *story) poll(limit int) (ids []string) {
	s.polls++
	taker := fmt.Sprint("poll ", s.polls)
	s.ask(taker, func(c *client.Client, key string) error {
		got, err := c.Poll(s.Context(), "Oracle", api.PollRequest{Limit: limit}, key)
		if err != nil {
			return err
		}
		for _, t := range got.Triggers {
			ids = append(ids, t.ID)
			s.show(taker, t)
		}
		return nil
	})
	return ids
}

func (s *story) show(taker string, t api.Trigger) {
	now := time.Now()
	before, known := s.shown[t.ID]
	switch {
	case !known:
		before = &showing{line: named(t)}
		s.shown[t.ID] = before
		for id, other := range s.shown {
			if id != t.ID && other.line == before.line && t.Type != inbox.TasksAvailable {
				s.fault("%q is told as %s and as %s", other.line, id, t.ID)
			}
		}
	case before.done == acked:
		s.fault("%q comes back after it was acknowledged", before.line)
	case before.taker != taker && now.Sub(before.at) < s.visibility-time.Second:
		s.fault("%q is handed to another poll %v after the last one", before.line, now.Sub(before.at))
	}
	before.taker, before.at = taker, now
}

// ack acknowledges triggers.
func (s *story) ack(ids []string) {
	if len(ids) == 0 {
		return
	}
	mark := func(to done) {
		for _, id := range ids {
			s.shown[id].done = max(s.shown[id].done, to)
		}
	}
	mark(asked)
	if s.ask("ack "+strings.Join(ids, " "), func(c *client.Client, key string) error {
		got, err := c.Ack(s.Context(), "Oracle", api.AckRequest{IDs: ids}, key)
		if err == nil && len(got.Unknown) > 0 {
			s.fault("unknown to ack: %q", got.Unknown)
		}
		return err
	}) {
		mark(acked)
	}
}

// lose is a poll whose caller is killed with its answer: nobody was told what it took.
func (s *story) lose() {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	_, _ = s.life.door().Poll(ctx, "Oracle", api.PollRequest{Limit: 1}, "")
	if s.life.died() {
		s.life.back()
	}
}

// end waits for what was taken to come back, twice, which all does that is owed and not
// acknowledged. Then all is acknowledged, and nothing comes back, also not from whoever
// comes after one more death.
func (s *story) end() {
	const step = 10 * time.Minute
	for range 2*s.visibility/step + 1 {
		s.poll(0)
		time.Sleep(step)
	}
	told := make(map[string]bool)
	var open []string
	for id, t := range s.shown {
		told[t.line] = true
		if time.Since(t.at) <= s.visibility+step {
			open = append(open, id)
		} else if t.done == unacked {
			s.fault("%q did not come back: it was told %v ago, and not acknowledged", t.line, time.Since(t.at))
		}
	}
	for line := range s.owed {
		if !told[line] {
			s.fault("%q was never told", line)
		}
	}
	s.ack(open)
	s.life.kill()
	for range 2 {
		if ids := s.poll(0); len(ids) > 0 {
			s.fault("%d triggers are there after all were acknowledged", len(ids))
		}
		time.Sleep(s.visibility + time.Minute)
	}
}

// messages sends some, and has them taken and acknowledged by several polls.
func (s *story) messages() {
	s.life.(*reaper).arm()
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

// tell kills a daemon at a step of a story, and returns how many steps there were and what
// has gone wrong.
func tell(t *testing.T, at int, keyed bool, m mutant, story func(*story)) (steps int, wrong []string) {
	inWorld(t, 0, func(w *world) {
		o := w.options(func(c *config.Config) {
			quiet(c)
			c.Claim.Timeout, c.Inbox.Offer = 8*time.Hour, 8*time.Hour
		})
		r := w.reap(o, at, m)
		s := newStory(w, r, keyed)
		s.poll(0)
		story(s)
		steps = r.count()
		s.end()
		r.n.stop()
		wrong = s.wrong
	})
	return steps, wrong
}

// everyStep tells a story with a death at each of its steps: with -long at all, else at every
// third.
func everyStep(t *testing.T, keyed bool, story func(*story)) {
	steps, wrong := tell(t, 0, keyed, mutant{}, story)
	if len(wrong) > 0 || steps == 0 {
		t.Fatalf("without a death, in %d steps:\n%s", steps, strings.Join(wrong, "\n"))
	}
	t.Logf("%d steps", steps)
	every := 3
	switch {
	case *long:
		every = 1
	case testing.Short():
		every = 13
	}
	for at := 1; at <= steps; at += every {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			if _, wrong := tell(t, at, keyed, mutant{}, story); len(wrong) > 0 {
				t.Error(strings.Join(wrong, "\n"))
			}
		})
	}
}

// What was answered is told until it is acknowledged, and not to two at once, wherever
// between the two the daemon is killed.
func TestKilledWithMessages(t *testing.T) {
	t.Parallel()
	for name, keyed := range map[string]bool{"with keys": true, "without keys": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyStep(t, keyed, (*story).messages)
		})
	}
}

// A daemon that lost something, or handed it out twice, would be found out.
func TestKilledMutants(t *testing.T) {
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
			for at := 0; at <= steps; at++ {
				n, wrong := tell(t, at, false, m, (*story).messages)
				if len(wrong) > 0 {
					t.Logf("found out by a death at step %d: %s", at, wrong[0])
					return
				}
				steps = max(steps, n)
			}
			t.Errorf("no death of %d finds it out", steps)
		})
	}
}

// So it is with each type of trigger, wherever between what happened and the acknowledgement
// that is.
func TestKilledWithTriggers(t *testing.T) {
	t.Parallel()
	everyStep(t, true, func(s *story) {
		name := func(who string) map[string]any { return map[string]any{"claimed_by": text("rich_text", who)} }
		taken, mine, done, handed := s.add("Alpha", nil), s.add("Beta", nil), s.add("Gamma", nil), s.add("Delta", nil)
		c := s.life.door()
		claim := func(agent, id string) (cl api.Claim) {
			cl, err := c.Claim(s.Context(), api.ClaimRequest{Agent: agent, Task: id}, "")
			mustDo(s.world, err)
			return cl
		}
		_, err := c.Sync(s.Context(), api.SyncRequest{}, "")
		mustDo(s.world, err)
		claim("Oracle", taken)
		claim("Oracle", mine)
		gamma := claim("Sandman", done)
		claim("Sandman", handed)
		_, err = c.Poll(s.Context(), "Oracle", api.PollRequest{Finished: true}, "") // as from now on
		mustDo(s.world, err)
		time.Sleep(2 * time.Minute)
		s.life.(*reaper).arm()

		owe := func(kind inbox.Type, rest string) { s.owed[string(kind)+rest] = true }
		s.edit(taken, name("Maria"))
		s.say(mine, "Maria", "look at page 2")
		s.add("Epsilon", name("Oracle"))
		s.add("Zeta", nil)
		owe(inbox.ClaimLost, " Alpha")
		owe(inbox.Comment, " Beta: look at page 2")
		owe(inbox.TaskAssigned, " Epsilon")
		owe(inbox.TasksAvailable, "")
		s.ask("sync", func(c *client.Client, key string) error {
			_, err := c.Sync(s.Context(), api.SyncRequest{}, key)
			return err
		})
		if s.ask("complete", func(c *client.Client, key string) error {
			_, err := c.Complete(s.Context(), string(gamma.ID), api.CompleteRequest{Agent: "Sandman"}, key)
			return err
		}) {
			owe(inbox.TaskFinished, " Gamma")
		}
		if s.ask("offer", func(c *client.Client, key string) error {
			_, err := c.Offer(s.Context(), task.ID(handed), api.OfferRequest{Agent: "Sandman", To: "Oracle"}, key)
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
		s.poll(0) // which listens to comments
		s.ack(first)
	})
}

// What a process took that is gone comes back at once, also by a daemon that was killed
// meanwhile; what one took that lives does when it is visible again.
func TestKilledWithTakers(t *testing.T) {
	t.Parallel()
	gone := exec.Command("sleep", "1000")
	if err := gone.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gone.Process.Kill() })
	inWorld(t, 0, func(w *world) {
		r := w.reap(w.options(quiet), 0, mutant{})
		s := newStory(w, r, false)
		s.send("one")
		s.send("two")
		for _, pid := range []int{gone.Process.Pid, os.Getpid()} {
			_, err := r.door().Poll(w.Context(), "Oracle", api.PollRequest{Limit: 1, PID: pid}, "")
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
