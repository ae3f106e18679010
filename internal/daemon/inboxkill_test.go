package daemon_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

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
		wrong = s.wrong
	})
	return steps, wrong
}

// oneOf is of how many steps everyStep kills at one.
const oneOf = 3

// everyStep plays a story once with a kill at each of its steps: all of them with -long, else every
// third.
func everyStep(t *testing.T, keyed bool, story func(*story)) {
	steps, wrong := runStory(t, 0, keyed, mutant{}, story)
	if len(wrong) > 0 || steps == 0 {
		t.Fatalf("without a death, in %d steps:\n%s", steps, strings.Join(wrong, "\n"))
	}
	t.Logf("%d steps", steps)
	every := oneOf
	switch {
	case *long:
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
	for name, keyed := range map[string]bool{"with keys": true, "without keys": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyStep(t, keyed, (*story).messages)
		})
	}
}

// Daemons that lose a trigger, or deliver it twice, are detected by a kill at one of the steps at
// which everyStep kills, if not without.
func TestKilledMutants(t *testing.T) {
	testkit.TakesSeconds(t)
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
// acknowledgement.
func TestKilledWithTriggers(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	everyStep(t, true, func(s *story) {
		name := func(who string) map[string]any { return map[string]any{"claimed_by": text("rich_text", who)} }
		taken, mine, done, handed := s.add("Alpha", nil), s.add("Beta", nil), s.add("Gamma", nil), s.add("Delta", nil)
		c := s.life.client()
		hold := func(agent, id string) (cl api.Claim) {
			cl, err := c.Claim(s.Context(), api.ClaimRequest{Agent: agent, Task: id}, "")
			mustDo(s.world, err)
			return cl
		}
		_, err := c.Sync(s.Context(), api.SyncRequest{}, "")
		mustDo(s.world, err)
		hold("Oracle", taken)
		hold("Oracle", mine)
		gamma := hold("Sandman", done)
		hold("Sandman", handed)
		_, err = c.Poll(s.Context(), "Oracle", api.PollRequest{Finished: true}, "") // subscribes from now on
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
			_, err := r.client().Poll(w.Context(), "Oracle", api.PollRequest{Limit: 1, PID: pid}, "")
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
