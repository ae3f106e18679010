package daemon_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/inbox"
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
