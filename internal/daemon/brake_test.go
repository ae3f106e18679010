package daemon_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"
)

// barred asks for the next task, and returns the denial, which must have that code.
func (n *node) barred(agent string, want claim.Code) *api.Problem {
	n.w.Helper()
	cl, err := n.claim(agent, "")
	p, refused := errors.AsType[*api.Problem](err)
	if !refused || p.Code != api.Code(want) {
		n.w.Fatalf("%s gets %+v, %v; want %s", agent, cl.Task, err, want)
	}
	return p
}

func (n *node) pause(r api.PauseRequest) api.Paused {
	n.w.Helper()
	done, err := n.Pause(n.w.Context(), r, "")
	mustDo(n.w, err)
	return done
}

func (n *node) resume(agent string) api.Paused {
	n.w.Helper()
	done, err := n.Resume(n.w.Context(), api.ResumeRequest{Agent: agent}, "")
	mustDo(n.w, err)
	return done
}

// fail ends a claim as failed.
func (n *node) fail(cl api.Claim) {
	n.w.Helper()
	_, err := n.Fail(n.w.Context(), string(cl.ID), api.FailRequest{Agent: cl.Agent, Reason: "it broke"}, "")
	mustDo(n.w, err)
}

// During a pause nothing is granted on any way, at the cost of no request; what is held goes on.
// A restart does not end it.
func TestPause(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		var tasks []string
		for i := range 4 {
			tasks = append(tasks, w.add(fmt.Sprint("Task ", i), nil))
		}
		o := w.options(nil)
		n := w.start(o)
		held, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", Task: tasks[0]}, "k")
		mustDo(w, err)
		_, err = n.Offer(w.Context(), task.ID(tasks[1]), api.OfferRequest{Agent: "Sandman", To: "Oracle"}, "")
		mustDo(w, err)
		time.Sleep(10 * time.Second)
		w.notion.ResetRequests()
		done := n.pause(api.PauseRequest{Reason: "the build is broken", By: "Anna", ForSeconds: 3600})
		if len(done.Pauses) != 1 || !done.Changed || done.Pauses[0].By != "user unknown" { // Anna is nobody that the kernel names
			w.Errorf("the pause is %+v", done)
		}
		for name, ask := range map[string]func() (api.Claim, error){
			"next":  func() (api.Claim, error) { return n.claim("Merlin", "") },
			"claim": func() (api.Claim, error) { return n.claim("Merlin", tasks[2]) },
			"accept": func() (api.Claim, error) {
				return n.Accept(w.Context(), task.ID(tasks[1]), api.AcceptRequest{Agent: "Oracle"}, "")
			},
			"held": func() (api.Claim, error) { return n.claim("Merlin", tasks[0]) },
		} {
			_, err := ask()
			p, _ := errors.AsType[*api.Problem](err)
			if code(err) != "paused" || p.Holder != "user unknown" || !strings.Contains(p.Detail, "the build is broken") || time.Until(p.ExpiresAt.Time).Round(time.Minute) != time.Hour {
				w.Errorf("%s: %+v, want it paused for an hour", name, err)
			}
		}
		if asked := w.requests(); len(asked) > 0 {
			w.Errorf("that cost %v", asked)
		}
		again, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", Task: tasks[0]}, "k")
		if err != nil || again.ID != held.ID {
			w.Errorf("the same request gets %v, %v; want what it got before", again.ID, err)
		}
		n.stop()
		n = w.start(o)
		n.barred("Merlin", claim.CodePaused)
		who, err := n.Agent(w.Context(), "Merlin")
		if err != nil || who.Paused == nil || who.Paused.Reason != "the build is broken" || len(n.status().Pauses) != 1 {
			w.Errorf("Merlin stands so: %+v, %v; the status has %+v", who.Paused, err, n.status().Pauses)
		}
		if _, err := n.Renew(w.Context(), string(held.ID), api.RenewRequest{}, ""); err != nil {
			w.Errorf("renewed: %v", err)
		}
		if _, err := n.Decline(w.Context(), task.ID(tasks[1]), api.DeclineRequest{Agent: "Oracle"}, ""); err != nil {
			w.Errorf("declined: %v", err)
		}
		mustDo(w, n.complete(held))
		if done := n.resume(""); !done.Changed || len(done.Pauses) > 0 {
			w.Errorf("resumed: %+v", done)
		}
		if done := n.resume(""); done.Changed {
			w.Errorf("resumed twice: %+v", done)
		}
		n.mustClaim("Merlin", "")
		log, err := n.Log(w.Context(), api.LogFilter{})
		mustDo(w, err)
		if said := fmt.Sprint(log); strings.Count(said, "paused") < 2 || !strings.Contains(said, "resumed") {
			w.Errorf("on record is %v", said)
		}
	})
}

// Some are paused, and others are not.
func TestPauseOfSome(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		for i := range 4 {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		n := w.daemon(nil)
		n.pause(api.PauseRequest{Agent: "Sandman"})
		n.pause(api.PauseRequest{Agent: "bot-*", ForSeconds: 60})
		n.barred("Sandman", claim.CodePaused)
		n.barred("bot-7", claim.CodePaused)
		n.mustClaim("Oracle", "")
		if done := n.resume(""); done.Changed || len(done.Pauses) != 2 {
			w.Errorf("everybody resumed: %+v; want both pauses to go on", done)
		}
		time.Sleep(time.Minute)
		n.mustClaim("bot-7", "")
		n.resume("Sandman")
		n.mustClaim("Sandman", "")
		if _, err := n.Pause(w.Context(), api.PauseRequest{Agent: " "}, ""); code(err) != "invalid_request" {
			w.Errorf("nobody is paused: %v", err)
		}
	})
}

// Who waits goes on waiting through a pause, and is granted a task when it ends, in whatever way.
func TestWaitingThroughAPause(t *testing.T) {
	t.Parallel()
	for _, resumed := range []bool{true, false} {
		inWorld(t, 0, func(w *world) {
			for range 3 { // one for each, and one of which Merlin is told
				w.add("Task", nil)
			}
			n := w.daemon(nil)
			began := time.Now()
			n.pause(api.PauseRequest{ForSeconds: 100})
			ends := began.Add(100 * time.Second)
			if resumed {
				ends = began.Add(50 * time.Second)
				time.AfterFunc(50*time.Second, func() { n.resume("") })
			}
			got := make(chan error, 3)
			go func() {
				_, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", WaitSeconds: 600}, "")
				got <- err
			}()
			go func() {
				_, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Oracle", WaitSeconds: 600, Filter: api.Filter{Text: "task"}}, "")
				got <- err
			}()
			go func() {
				polled, err := n.Poll(w.Context(), "Merlin", api.PollRequest{WaitSeconds: 600}, "")
				if len(polled.Triggers) != 1 {
					err = fmt.Errorf("Merlin's triggers are %v, %w", polled.Triggers, err)
				}
				got <- err
			}()
			for range 3 {
				if err := <-got; err != nil {
					w.Errorf("resumed %v: %v", resumed, err)
				}
				if late := time.Since(ends); late < 0 || late > 8*time.Second {
					w.Errorf("resumed %v: granted %v after the pause", resumed, late)
				}
			}
		})
	}
}

func breaking(c *config.Config) {
	c.Claim.Breaker = config.Breaker{Failures: 3, Within: 10 * time.Minute, Pause: 15 * time.Minute}
}

// Failures in a row, whoever fails, pause the board; then one task is let through, and decides.
func TestBreaker(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		for i := range 20 {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		o, out := w.telling(config.Receiver{URL: ntfyURL, On: []config.Notice{config.NoticePaused}})
		breaking(&o.Config)
		n := w.start(o)
		n.fail(n.mustClaim("Sandman", ""))
		n.fail(n.mustClaim("Oracle", ""))
		mustDo(w, n.complete(n.mustClaim("Oracle", ""))) // not in a row
		n.fail(n.mustClaim("Sandman", ""))
		n.fail(n.mustClaim("Sandman", ""))
		time.Sleep(11 * time.Minute) // not within
		held := n.mustClaim("Merlin", "")
		n.fail(n.mustClaim("Sandman", ""))
		n.fail(n.mustClaim("Sandman", ""))
		blocked := n.mustClaim("Oracle", "")
		_, err := n.Block(w.Context(), string(blocked.ID), api.BlockRequest{Agent: "Oracle", Reason: "no key"}, "")
		mustDo(w, err)
		p := n.barred("Sandman", claim.CodePaused)
		if p.Holder != claim.Sweeper || !strings.Contains(p.Detail, "3 tasks in a row") || time.Until(p.ExpiresAt.Time).Round(time.Minute) != 15*time.Minute {
			w.Errorf("the refusal is %+v", p)
		}
		time.Sleep(2 * time.Minute)
		if said := out.came(); len(said) != 1 || !strings.Contains(said[0].body, "dibs paused everybody") {
			w.Errorf("people are told %+v", said)
		}
		mustDo(w, n.complete(held)) // from before: it says nothing
		n.barred("Sandman", claim.CodePaused)
		n.stop()
		n = w.start(o)
		n.barred("Sandman", claim.CodePaused)
		time.Sleep(13 * time.Minute)
		probe := n.mustClaim("Sandman", "")
		if p := n.barred("Oracle", claim.CodePaused); !strings.Contains(p.Detail, "one task was let through") || !p.ExpiresAt.IsZero() {
			w.Errorf("beside the probe: %+v", p)
		}
		n.fail(probe)
		n.barred("Oracle", claim.CodePaused)
		time.Sleep(15 * time.Minute)
		probe = n.mustClaim("Oracle", "")
		n.stop()
		n = w.start(o)
		waits := make(chan error)
		go func() {
			_, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", WaitSeconds: 600}, "")
			waits <- err
		}()
		time.Sleep(time.Minute)
		began := time.Now()
		mustDo(w, n.complete(probe))
		if err := <-waits; err != nil || time.Since(began) > 8*time.Second {
			w.Errorf("after the probe: %v, %v later", err, time.Since(began))
		}
		if s := n.status(); len(s.Pauses) > 0 {
			w.Errorf("the board is paused: %+v", s.Pauses)
		}
		n.mustClaim("Oracle", "")
	})
}

// Claims that go stale count as failures.
func TestBreakerOfStaleClaims(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		for i := range 3 {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		n := w.daemon(breaking)
		for i := range 3 {
			n.mustClaim(fmt.Sprint("Agent", i), "")
		}
		time.Sleep(40 * time.Minute)
		n.barred("Sandman", claim.CodePaused)
		if done := n.resume(""); !done.Changed || len(done.Pauses) > 0 {
			w.Errorf("resumed: %+v", done)
		}
		n.mustClaim("Sandman", "")
	})
}

// A member that takes the lead knows of the pause, the grants of the day and the failures.
func TestBrakeAtATakeover(t *testing.T) {
	testkit.RacedElsewhere(t)
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		for i := range 12 {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		all := w.members(s, "a b", func(_ string, c *config.Config) { limited(c); breaking(c) })
		a, b := all[0], all[1]
		n := b
		n.fail(n.mustClaim("Sandman", ""))
		n.fail(n.mustClaim("Sandman", ""))
		n.pause(api.PauseRequest{Agent: "Merlin"})
		a.stop()
		b.led("b")
		n.barred("Merlin", claim.CodePaused)
		n.barred("Sandman", claim.CodeLimitReached)
		n.fail(n.mustClaim("Oracle", ""))
		n.barred("Oracle", claim.CodePaused)
	})
}
