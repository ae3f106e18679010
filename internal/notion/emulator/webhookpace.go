package emulator

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// Pace is how long things take between a change and its events.
type Pace struct {
	// Created is how late page.created is, Properties the first page.properties_updated of a page,
	// Single events that are never combined: those of comments and locks.
	Created, Properties, Single time.Duration
	// Window begins with a page's first page.properties_updated: what follows in it is one event at
	// its end.
	Window time.Duration
	// Rest is how late other events are: what happens until then, of the same type to the same
	// object, is one event.
	Rest time.Duration
	// Spread is by how much of itself each delay and retry is longer at most.
	Spread float64
	// Retries are the waits before the second attempt and those after it. Answer is how long an
	// attempt waits for its answer.
	Retries []time.Duration
	Answer  time.Duration
	// Verify is the wait before the token of the subscription is posted again.
	Verify time.Duration
}

// NotionPace returns the pace of Notion, as far as it is known: eight attempts in about a day.
func NotionPace() Pace {
	return Pace{
		Created: 3 * time.Second, Properties: time.Second, Single: 2 * time.Second,
		Window: time.Minute, Rest: 30 * time.Second, Spread: 0.5,
		Retries: []time.Duration{
			time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 2 * time.Hour, 5 * time.Hour, 11 * time.Hour,
		},
		Answer: 10 * time.Second, Verify: 5 * time.Second,
	}
}

// publish sends an event when it is time, with what joins it until then. The caller has the
// emulator's lock.
func (s *sender) publish(ev *event) {
	ev.Timestamp = time.Now().UTC().Format(stampLayout)
	key := ev.Type + " " + ev.Entity.ID
	if open, isOpen := s.open[key]; isOpen {
		open.join(ev)
		return
	}
	s.seq++
	ev.random = rand.New(rand.NewPCG(s.Seed, s.seq))
	ev.ID, ev.SubscriptionID = newID(), s.subscription.ID
	ev.WorkspaceID, ev.WorkspaceName, ev.IntegrationID = workspaceID, workspaceName, integrationID
	ev.APIVersion = version2026 // of the subscription, not of requests
	switch {
	case ev.Type == "page.created":
		s.sendAfter(s.Pace.Created, ev)
	case ev.Type == "page.properties_updated":
		next := *ev // empty until something joins it
		next.ID, next.Authors, next.Data.Properties = newID(), nil, nil
		next.random = rand.New(rand.NewPCG(s.Seed, ^s.seq))
		s.sendAfter(s.Pace.Properties, ev)
		s.gather(key, s.Pace.Window, &next)
	case strings.HasPrefix(ev.Type, "comment."), ev.Type == "page.locked", ev.Type == "page.unlocked":
		s.sendAfter(s.Pace.Single, ev)
	default:
		s.gather(key, ev.spread(s.Pace.Rest, s.Pace), ev)
	}
}

func (s *sender) sendAfter(d time.Duration, ev *event) {
	d = ev.spread(d, s.Pace)
	s.wg.Go(func() {
		if s.wait(d) {
			s.send(ev)
		}
	})
}

// gather lets later events join one for that long, and then sends it, unless it has nobody's change
// to tell of.
func (s *sender) gather(key string, d time.Duration, ev *event) {
	s.open[key] = ev
	s.wg.Go(func() {
		in := s.wait(d)
		s.e.mu.Lock()
		delete(s.open, key)
		s.e.mu.Unlock()
		if in && len(ev.Authors) > 0 {
			s.send(ev)
		}
	})
}

// spread makes a delay longer by a random part of itself.
func (ev *event) spread(d time.Duration, p *Pace) time.Duration {
	return d + time.Duration(ev.random.Float64()*p.Spread*float64(d))
}

// errDropped is an attempt that a fault let fail.
var errDropped = errors.New("dropped by a fault")

// send sends an event until an attempt succeeds, or there have been enough.
func (s *sender) send(ev *event) {
	for again := range len(s.Pace.Retries) + 1 {
		if again > 0 && !s.wait(ev.spread(s.Pace.Retries[again-1], s.Pace)) {
			return
		}
		ev.Attempt = again + 1
		err := s.attempt(ev)
		if err == nil || s.ctx.Err() != nil {
			return
		}
		s.e.log.Warn("the webhook has not taken an event", "type", ev.Type, "entity", ev.Entity.ID, "attempt", ev.Attempt, "err", err)
	}
}

// attempt sends an event once, as a fault has it. After an error the event is to be tried again.
func (s *sender) attempt(ev *event) error {
	body := compact(ev)
	header := http.Header{"X-Notion-Signature": {sign(s.subscription.Token, body)}}
	r, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.URL, nil)
	if err != nil {
		return err
	}
	f := s.e.strike(r, body, &route{pattern: ev.Type, effect: events})
	if f == nil {
		return s.post(body, header)
	}
	switch f.Kind {
	case LoseEvent:
		return nil
	case DropRequest:
		return errDropped
	case DropAnswer:
		return cmp.Or(s.post(body, header), errDropped)
	case RepeatEvent:
		err = s.post(body, header)
	case Delay:
		s.wait(f.Delay)
	case Stop:
		s.e.stall(f, r)
	}
	return cmp.Or(err, s.post(body, header))
}
