package daemon_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
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
	done, err := client.Do(n.w.Context(), n.Client, api.OpPause, api.Keyed("", new(r)))
	mustDo(n.w, err)
	return done
}

func (n *node) resume(agent string) api.Paused {
	n.w.Helper()
	done, err := client.Do(n.w.Context(), n.Client, api.OpResume, api.Keyed("", &api.ResumeRequest{Agent: agent}))
	mustDo(n.w, err)
	return done
}

// fail ends a claim as failed.
func (n *node) fail(cl api.Claim) {
	n.w.Helper()
	_, err := client.Do(n.w.Context(), n.Client, api.OpFail, api.On(string(cl.ID), "", api.FailRequest{Agent: cl.Agent, Reason: "it broke"}))
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
		held, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("k", api.ClaimRequest{Agent: "Sandman", Task: tasks[0]}))
		mustDo(w, err)
		_, err = client.Do(w.Context(), n.Client, api.OpOffer, api.OnTask(task.ID(tasks[1]), "", api.OfferRequest{Agent: "Sandman", To: "Oracle"}))
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
				return client.Do(w.Context(), n.Client, api.OpAccept, api.OnTask(task.ID(tasks[1]), "", api.AcceptRequest{Agent: "Oracle"}))
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
		again, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("k", api.ClaimRequest{Agent: "Sandman", Task: tasks[0]}))
		if err != nil || again.ID != held.ID {
			w.Errorf("the same request gets %v, %v; want what it got before", again.ID, err)
		}
		n.stop()
		n = w.start(o)
		n.barred("Merlin", claim.CodePaused)
		who, err := client.Do(w.Context(), n.Client, api.OpGetAgent, api.GetAgentInput{Name: "Merlin"})
		if err != nil || who.Paused == nil || who.Paused.Reason != "the build is broken" || len(n.status().Pauses) != 1 {
			w.Errorf("Merlin stands so: %+v, %v; the status has %+v", who.Paused, err, n.status().Pauses)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(held.ID), "", api.RenewRequest{})); err != nil {
			w.Errorf("renewed: %v", err)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpDecline, api.OnTask(task.ID(tasks[1]), "", api.DeclineRequest{Agent: "Oracle"})); err != nil {
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
		log, err := client.Do(w.Context(), n.Client, api.OpLog, api.LogInput{})
		mustDo(w, err)
		if lines := fmt.Sprint(log); strings.Count(lines, "paused") < 2 || !strings.Contains(lines, "resumed") {
			w.Errorf("on record is %v", lines)
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
		if _, err := client.Do(w.Context(), n.Client, api.OpPause, api.Keyed("", &api.PauseRequest{Agent: " "})); code(err) != "invalid_request" {
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
				_, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", WaitSeconds: 600}))
				got <- err
			}()
			go func() {
				_, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", WaitSeconds: 600, Filter: api.Filter{Text: "task"}}))
				got <- err
			}()
			go func() {
				polled, err := client.Do(w.Context(), n.Client, api.OpPoll, api.PollInput{Name: "Merlin", Body: &api.PollRequest{WaitSeconds: 600}})
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
		_, err := client.Do(w.Context(), n.Client, api.OpBlock, api.On(string(blocked.ID), "", api.BlockRequest{Agent: "Oracle", Reason: "no key"}))
		mustDo(w, err)
		p := n.barred("Sandman", claim.CodePaused)
		if p.Holder != claim.Sweeper || !strings.Contains(p.Detail, "3 tasks in a row") || time.Until(p.ExpiresAt.Time).Round(time.Minute) != 15*time.Minute {
			w.Errorf("the refusal is %+v", p)
		}
		time.Sleep(2 * time.Minute)
		if notices := out.came(); len(notices) != 1 || !strings.Contains(notices[0].body, "dibs paused everybody") {
			w.Errorf("people are told %+v", notices)
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
			_, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", WaitSeconds: 600}))
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

// berlin is the zone of the limits in tests.
const berlin = "Europe/Berlin"

func limited(c *config.Config) {
	c.Limits.Zone = berlin
	c.Agents = []config.Agent{{Name: "*"}, {Name: "Sandman", MaxPerDay: 2}, {Name: "bot-*", MaxPerDay: 3}}
}

// An agent gets no more than its limit in a day, nor do all that a pattern covers. Nothing forgets
// it but midnight, in the zone of the limits.
func TestLimitOfADay(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		last := ""
		for i := range 12 {
			last = w.add(fmt.Sprint("Task ", i), nil)
		}
		o := w.options(func(c *config.Config) {
			limited(c)
			quiet(c)
		})
		n := w.start(o)
		mustDo(w, n.complete(n.mustClaim("Sandman", "")))
		for range 2 { // the same request
			_, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("again", api.ClaimRequest{Agent: "Sandman"}))
			mustDo(w, err)
		}
		zone, _ := time.LoadLocation(berlin)
		y, m, d := time.Now().In(zone).Date()
		midnight := time.Date(y, m, d+1, 0, 0, 0, 0, zone)
		for range 2 {
			p := n.barred("Sandman", claim.CodeLimitReached)
			if p.ExpiresAt.Sub(midnight).Abs() > time.Second || !strings.Contains(p.Detail, "Sandman used up max_per_day: 2 of 2 grants of this day (Europe/Berlin)") {
				w.Errorf("refused until %v: %s; want until %v", p.ExpiresAt, p.Detail, midnight)
			}
			n.stop()
			n = w.start(o)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpOffer, api.OnTask(task.ID(last), "", api.OfferRequest{Agent: "Sandman", To: "Oracle"})); err != nil {
			w.Errorf("an offer is no grant: %v", err)
		}
		granted := make(chan bool, 6)
		for i := range cap(granted) { // at once
			go func() {
				_, err := n.claim(fmt.Sprint("bot-", i%2), "")
				granted <- err == nil
			}()
		}
		all := 0
		for range cap(granted) {
			if <-granted {
				all++
			}
		}
		if all != 3 {
			w.Errorf("bots got %d tasks, want 3", all)
		}
		n.mustClaim("Oracle", "")
		time.Sleep(time.Until(midnight) - time.Second)
		n.barred("Sandman", claim.CodeLimitReached)
		time.Sleep(time.Second)
		n.mustClaim("Sandman", "")
		o.Config.Agents = o.Config.Agents[:1]
		mustDo(w, n.daemon.Reload(o.Config))
		n.mustClaim("Sandman", "")
		n.mustClaim("Sandman", "")
	})
}

// Over restarts, repeated requests, requests at once and midnight nobody gets more in a day than
// allowed; nor do they when another member takes the lead.
func TestLimitsHoldOverMidnight(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	for seed := range uint64(4) {
		inWorld(t, 0, func(w *world) {
			time.Sleep(untilLate)
			o := w.options(limitedSoon)
			n := w.start(o)
			w.spendDays(seed, 80, n, func() *node {
				n.stop()
				n = w.start(o)
				return n
			})
		})
	}
}

func TestLimitsHoldOverTakeovers(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		time.Sleep(untilLate)
		all := w.members(s, "a b c", func(_ string, c *config.Config) { limitedSoon(c) })
		w.spendDays(1, 30, all[len(all)-1], func() *node { // asks whoever leads
			if len(all) > 1 {
				all[0].stop()
				all = all[1:]
				time.Sleep(time.Minute)
			}
			return all[len(all)-1]
		})
	})
}

// azores is a zone in which worlds begin an hour before midnight. After untilLate twelve minutes of it
// are left: a daemon costs what the time costs in which it runs.
const (
	azores    = "Atlantic/Azores"
	untilLate = 48 * time.Minute
)

func limitedSoon(c *config.Config) {
	quiet(c)
	limited(c)
	c.Limits.Zone = azores
}

// spendDays has agents do what comes to mind before and after a midnight, and counts what they were granted.
func (w *world) spendDays(seed uint64, steps int, n *node, again func() *node) {
	w.Helper()
	dice := rand.New(rand.NewPCG(seed, 0))
	zone, _ := time.LoadLocation(azores)
	for i := range 80 {
		w.add(fmt.Sprint("Task ", i), nil)
	}
	_, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{}))
	mustDo(w, err)
	agents := []string{"Sandman", "bot-1", "bot-2"}
	for i := range steps {
		agent := agents[dice.IntN(len(agents))]
		switch dice.IntN(6) {
		case 0:
			n = again()
		case 1:
			time.Sleep(time.Duration(5+dice.IntN(20)) * 12 * time.Second)
		default:
			key := fmt.Sprint("k", i/2) // many come again
			var asked sync.WaitGroup
			for j := range 1 + dice.IntN(3) {
				asked.Go(func() {
					cl, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed(fmt.Sprint(key, j, agent), api.ClaimRequest{Agent: agent}))
					if err == nil {
						_, err = client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Agent: agent}))
					}
					if c := code(err); err != nil && !slices.Contains([]string{"limit_reached", "nothing_ready", "claim_lost"}, c) {
						w.Errorf("%s: %v", agent, err)
					}
				})
			}
			asked.Wait()
		}
	}
	log, err := client.Do(w.Context(), n.Client, api.OpLog, api.LogInput{Limit: 1000})
	mustDo(w, err)
	got := make(map[string]int)
	for _, e := range log.Entries {
		if e.Kind == claim.KindGranted {
			who, _, _ := strings.Cut(e.Agent, "-")
			got[e.At.In(zone).Format(time.DateOnly)+" "+who]++
		}
	}
	full := 0
	for day, n := range got {
		most := map[bool]int{true: 2, false: 3}[strings.HasSuffix(day, "Sandman")]
		if n > most {
			w.Errorf("seed %d: %s was granted %d tasks, and may be %d", seed, day, n, most)
		}
		if n == most {
			full++
		}
	}
	if full < 2 {
		w.Errorf("seed %d: the limits were reached on %d days only: %v", seed, full, got)
	}
}

// automation keeps a card as it wants it: a few seconds after the card looks different, it writes
// that again. It stops at the end of the test.
func (w *world) automation(id string, wants shown, properties func() map[string]any) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-time.After(5 * time.Second):
				if got := show(w.page(id)); got.Status != wants.Status || got.ClaimedBy != wants.ClaimedBy {
					w.edit(id, properties())
				}
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// writes returns how many writes of the daemons to a page were answered since the last reset.
func (w *world) writes(id string) (n int) {
	for _, r := range w.notion.Requests() {
		if r.Method == "PATCH" && strings.HasSuffix(r.Path, id) {
			n++
		}
	}
	return n
}

// An automation that undoes what dibs does to a card meets it three times, and then dibs leaves the
// card alone for an hour and says so. What an agent does with its claim is written all the same.
func TestAutomationThatUndoesWhatDibsDoes(t *testing.T) {
	t.Parallel()
	for name, tt := range fewOf(1, map[string]struct {
		began func() time.Time // of the lease that the automation restores
		token bool             // it restores the token, too
	}{
		"a claim that is over": {time.Now, true},
		"a stale claim":        {func() time.Time { return time.Now().Add(-time.Hour) }, false},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("Alpha", nil)
				n := w.daemon(nil)
				cl := n.mustClaim("Sandman", id)
				mustDo(w, func() error {
					_, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{}))
					return err
				}())
				token := ""
				if tt.token {
					token = string(cl.ID)
				}
				w.notion.ResetRequests()
				stop := w.automation(id, shown{Status: "IN_PROGRESS", ClaimedBy: "Sandman"}, func() map[string]any {
					return map[string]any{
						"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"),
						"claimed_at": date(tt.began()), "claim_token": text("rich_text", token),
					}
				})
				time.Sleep(time.Hour)
				// An answer is a mark, and the write that takes it off.
				if got := w.writes(id); got != 6 {
					w.Errorf("%d writes in an hour, want 6", got)
				}
				says := func() bool { return strings.Contains(strings.Join(n.status().Warnings, "\n"), "left alone") }
				if got := n.task(id); !says() || !strings.Contains(got.Reason, "left alone") {
					w.Errorf("the status warns of %q, and of the task: %s", n.status().Warnings, got.Reason)
				}
				stop()
				w.edit(id, map[string]any{
					"status": option("status", "OPEN"), "claimed_by": text("rich_text", ""), "claim_token": text("rich_text", ""), "claimed_at": map[string]any{"date": nil},
				})
				n.sync()
				mustDo(w, n.complete(n.mustClaim("Oracle", id)))
				if got := w.page(id).Select("status"); got != "COMPLETED" {
					w.Errorf("once it is done, the card is %s", got)
				}
				time.Sleep(10 * time.Minute)
				if says() {
					w.Errorf("after the hour: %q", n.status().Warnings)
				}
			})
		})
	}
}

// An automation that takes every claim of a waiting agent off its card: the claims end, and the
// card goes round no faster than leases do.
func TestAutomationAgainstEveryClaim(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		n := w.daemon(nil)
		stop := w.automation(id, shown{Status: "OPEN", ClaimedBy: ""}, func() map[string]any {
			return map[string]any{"status": option("status", string(task.Open))}
		})
		defer stop()
		granted := 0
		for end := time.Now().Add(time.Hour); time.Now().Before(end); {
			if _, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", WaitSeconds: 600})); err == nil {
				granted++
			}
			time.Sleep(30 * time.Second)
		}
		if got := w.writes(id); granted < 4 || granted > 8 || got > 2*granted+4 {
			w.Errorf("%d grants and %d writes in an hour", granted, got)
		}
		if held, err := client.Do(w.Context(), n.Client, api.OpListClaims, api.AgentFilter{}); err != nil || len(held.Claims) > 0 {
			w.Errorf("held all the same: %+v, %v", held, err)
		}
	})
}
