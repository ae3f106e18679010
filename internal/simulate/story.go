package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/task"
)

// Story is what befell one task: two agents of different daemons raced for it, and the loser took
// it over later, when the winner had fallen silent and its lease was over.
type Story struct {
	Seed               uint64  `json:"seed"`
	Latency            string  `json:"latency"`
	WriteWindowSeconds float64 `json:"write_window_seconds"`
	SettleSeconds      float64 `json:"settle_seconds"`
	Events             []Event `json:"events"`

	told *tale
}

// Event is something that happened in a story. A request is told at the moment of its effect.
type Event struct {
	AtSeconds float64 `json:"at_seconds"`
	Who       string  `json:"who"`
	What      string  `json:"what"`
}

// storytellers are the agents of a story.
var storytellers = [2]string{"Sandman", "Oracle"}

// tale is a story while it happens, inside its bubble.
type tale struct {
	Options
	began    time.Time
	register *claimsim.Register
	daemons  [2]*claimsim.Daemon
	delays   [2][]claimsim.Delay // of each daemon's requests, in order

	mu   sync.Mutex
	asks []ask

	winner       int
	slept, awoke time.Time // the winner's machine
	twice        bool      // both had the task
}

// ask is one command of an agent, and what it was told.
type ask struct {
	by           int
	command      string
	began, ended time.Time
	granted      bool
	answer       string
	hold         claim.Hold
	err          error
}

// request is one request of an agent to the page.
type request struct {
	by                     int
	sent, landed, answered time.Time
	writes                 bool
	page                   task.Task // what it saw, or left behind
}

// storiesTried is how many races Tell looks at for one in which both agents wrote.
const storiesTried = 1000

// ErrTwice is the error of a story in which both agents had the task at the same time. That would
// be a bug, which the seed reproduces.
var ErrTwice = errors.New("dibs let two agents have one task, which must not happen: please report it with the command line, --seed included")

// Tell runs races of two agents until both wrote their claim in one, and goes on with that. The
// settle wait is the first of the options that is longer than the write window. It returns an error
// if no race is like that, and ErrTwice if the protocol failed.
func Tell(o Options) (Story, error) {
	i := slices.IndexFunc(o.Settles, func(settle time.Duration) bool { return settle > o.WriteWindow })
	if i < 0 {
		return Story{}, fmt.Errorf("settle waits %v: want one longer than the write window %v, or the daemon refuses it", o.Settles, o.WriteWindow)
	}
	o.Settles = o.Settles[i : i+1]
	for n := range storiesTried {
		var t *tale
		var worthTelling bool
		inVirtualTime(func() {
			draw := rand.New(rand.NewPCG(o.Seed, uint64(n+1)))
			t = newTale(o, draw.Uint64())
			worthTelling = t.happens(context.Background(), draw)
		})
		switch {
		case t.twice:
			return Story{}, ErrTwice
		case worthTelling:
			return Story{
				Seed: o.Seed, Latency: o.Latency.String(),
				WriteWindowSeconds: o.WriteWindow.Seconds(), SettleSeconds: o.Settles[0].Seconds(),
				Events: t.events(), told: t,
			}, nil
		}
	}
	return Story{}, fmt.Errorf("no race of %d had two agents that wrote: let them start closer together (--spread is %v)", storiesTried, o.Spread)
}

func newTale(o Options, seed uint64) *tale {
	t := &tale{
		Options: o, began: time.Now(),
		register: claimsim.NewRegister(task.Task{ID: page, Title: "Mend the roof", Status: task.Open}),
	}
	for i, agent := range storytellers {
		t.daemons[i] = t.register.Daemon(claimsim.DaemonOptions{
			StoreOptions: claimsim.StoreOptions{Name: agent, Seed: seed, Latency: func(draw *rand.Rand) claimsim.Delay {
				d := o.Latency.delay(draw)
				t.delays[i] = append(t.delays[i], d)
				return d
			}},
			Policy: o.policy(o.Settles[0]),
		})
	}
	return t
}

// happens lets the story happen. It stops and returns false where that is not worth telling.
func (t *tale) happens(ctx context.Context, draw *rand.Rand) bool {
	defer func() {
		for _, d := range t.daemons {
			d.Close()
		}
	}()
	if !t.race(ctx, draw) {
		return false
	}
	winner, loser := t.daemons[t.winner], 1-t.winner
	held := t.asks[slices.IndexFunc(t.asks, func(a ask) bool { return a.granted })].hold
	stale := winner.Policy().StaleAt(held.ClaimedAt, held.Timeout)

	// The machine sleeps until the task is somebody else's: the lid of a laptop is closed.
	t.slept = time.Now().Add(time.Second)
	t.awoke = stale.Add(2 * time.Minute)
	time.Sleep(time.Until(t.slept))
	winner.Store.Halt(claimsim.Suspended, time.Until(t.awoke))

	time.Sleep(10 * time.Minute)
	if a := t.claim(ctx, loser); a.code() != claim.CodeHeld {
		t.twice = a.granted
		return false
	}
	time.Sleep(time.Until(stale) + time.Second)
	if a := t.claim(ctx, loser); !a.granted {
		return false
	}
	time.Sleep(time.Until(t.awoke) + 10*time.Second)
	t.twice = t.complete(ctx, t.winner, held.ID).granted
	return !t.twice
}

// race has both agents ask for the open task, and reports whether both wrote and one was granted
// it, each with no more than the three requests of an attempt.
func (t *tale) race(ctx context.Context, draw *rand.Rand) bool {
	var claims sync.WaitGroup
	for i := range t.daemons {
		start := claimsim.UpTo(draw, t.Spread)
		claims.Go(func() {
			time.Sleep(start)
			t.claim(ctx, i)
		})
	}
	claims.Wait()
	granted, lost := 0, 0
	for _, a := range t.asks {
		switch {
		case a.granted:
			t.winner = a.by
			granted++
		case a.code() == claim.CodeLostRace:
			lost++
		}
	}
	// The asks are in the order of their ends. The first claim may be over when the second is made.
	first := t.asks[0].hold
	t.twice = granted == 2 && t.asks[1].ended.Before(first.ClaimedAt.Add(first.Timeout))
	return granted == 1 && lost == 1 && len(t.delays[0]) == 3 && len(t.delays[1]) == 3
}

// claim has the ith agent ask for the task.
func (t *tale) claim(ctx context.Context, i int) ask {
	return t.ask(i, "dibs claim", func() (claim.Hold, error) {
		return t.daemons[i].Claim(ctx, claim.Request{Agent: storytellers[i], Task: task.Task{ID: page}})
	})
}

// complete has the ith agent report its work done.
func (t *tale) complete(ctx context.Context, i int, id claim.ID) ask {
	return t.ask(i, "dibs complete", func() (claim.Hold, error) {
		return t.daemons[i].Finish(ctx, id, claim.Finish{As: claim.EndCompleted, Summary: "The roof is dry."})
	})
}

func (t *tale) ask(i int, command string, do func() (claim.Hold, error)) ask {
	a := ask{by: i, command: command, began: time.Now()}
	a.hold, a.err = do()
	a.ended, a.granted = time.Now(), a.err == nil
	a.answer = a.told()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asks = append(t.asks, a)
	return a
}

// code is why a claim was denied; empty if it was not.
func (a ask) code() claim.Code {
	if denied, ok := errors.AsType[*claim.Denied](a.err); ok {
		return denied.Code
	}
	return ""
}

// told words what the agent was told.
func (a ask) told() string {
	if lost, ok := errors.AsType[*claim.Lost](a.err); ok {
		return "claim_lost: it is " + lost.Holder + "'s now"
	}
	if denied, ok := errors.AsType[*claim.Denied](a.err); ok {
		return string(denied.Code) + ": " + denied.Holder + " has it"
	}
	if a.err != nil {
		return a.err.Error()
	}
	return "granted"
}

// requests returns what was sent to the page, in the order of the effects.
func (t *tale) requests() []request {
	history := t.register.History(page)
	var all []request
	for i, d := range t.daemons {
		for n, call := range d.Store.Calls() {
			delay := t.delays[i][n]
			r := request{by: i, sent: call.Sent, landed: call.Sent.Add(delay.Before), writes: call.Write != nil}
			r.answered = r.landed.Add(delay.Dated + delay.After)
			for _, v := range history {
				if !v.From.After(r.landed) {
					r.page = v.Task
				}
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b request) int { return cmp.Or(a.landed.Compare(b.landed), a.by-b.by) })
	return all
}

// events puts all that happened in order.
func (t *tale) events() []Event {
	var all []Event
	add := func(at time.Time, who int, format string, args ...any) {
		all = append(all, Event{at.Sub(t.began).Round(time.Millisecond).Seconds(), storytellers[who], fmt.Sprintf(format, args...)})
	}
	for _, a := range t.asks {
		add(a.began, a.by, "asks: %s", a.command)
		add(a.ended, a.by, "is told: %s", a.answer)
	}
	for _, r := range t.requests() {
		if r.writes {
			add(r.landed, r.by, "writes its name and its token")
		} else {
			add(r.landed, r.by, "reads: %s", shown(r.page))
		}
	}
	add(t.slept, t.winner, "sleeps, and renews nothing")
	add(t.awoke, t.winner, "wakes up")
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.AtSeconds, b.AtSeconds) })
	return all
}

// shown words whose a task is, as its page shows it.
func shown(t task.Task) string { return cmp.Or(t.ClaimedBy, string(t.Status)) }
