package daemon_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/journal/inbox"
)

// mortal is what may be killed during a story: one daemon, or the members of a cluster.
type mortal interface {
	// client returns a client of the daemon, or of a member.
	client() *client.Client
	// died reports whether a daemon was killed and is not back. back starts another one, which is
	// not killed by itself.
	died() bool
	back()
	// kill kills the daemon in charge, and starts or promotes another one.
	kill()
}

// story records what an inbox delivered to whom, and what went wrong.
type story struct {
	*world
	life       mortal
	visibility time.Duration
	// keyed sends requests under keys, and repeats those that were cut off.
	keyed bool

	owed  map[string]bool     // what must be delivered, see named
	shown map[string]*showing // what was delivered, by id
	polls int
	wrong []string
}

// showing is a trigger that a poll returned.
type showing struct {
	line  string
	taker string
	at    time.Time
	done  done
}

// done is the state of a trigger's acknowledgement.
type done int

const (
	unacked done = iota
	asked        // the outcome is unknown
	acked        // acknowledged and answered
)

func newStory(w *world, life mortal, visibility time.Duration, keyed bool) *story {
	return &story{
		world: w, life: life, visibility: visibility, keyed: keyed,
		owed: make(map[string]bool), shown: make(map[string]*showing),
	}
}

func (s *story) fault(format string, args ...any) {
	s.wrong = append(s.wrong, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
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
	err := do(s.life.client(), key)
	killed := s.life.died()
	if killed {
		s.life.back()
		if err != nil && s.keyed {
			err = do(s.life.client(), key)
		}
	}
	if err != nil && (!killed || s.keyed) {
		s.fault("%s: %v", what, err)
	}
	return err == nil
}

// send sends Oracle a message. If the request is answered, the message must be delivered.
func (s *story) send(text string) {
	if s.ask("send "+text, func(c *client.Client, key string) error {
		_, err := c.Send(s.Context(), api.MessageRequest{From: "Sandman", To: "Oracle", Text: text}, key)
		return err
	}) {
		s.owed[string(inbox.Message)+": "+text] = true
	}
}

// poll takes up to limit of Oracle's triggers, 0 for all, and returns their ids. A taken trigger
// must not be delivered again during its visibility, and never after it was acknowledged.
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

// lose polls and drops the answer, like a caller that is killed: nobody got what it took.
func (s *story) lose() {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	_, _ = s.life.client().Poll(ctx, "Oracle", api.PollRequest{Limit: 1}, "")
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

// messages sends some messages, and takes and acknowledges them in several polls.
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
