package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/brake"
	"dibs/internal/task"
)

func (h *house) pause(who broker.Caller, agent, by string) error {
	_, err := h.Pause(h.Context(), who, &api.KeyedInput[*api.PauseRequest]{Body: &api.PauseRequest{Agent: agent, By: by}})
	return err
}

func (h *house) resume(who broker.Caller, agent string) (api.Paused, error) {
	return h.Resume(h.Context(), who, &api.KeyedInput[*api.ResumeRequest]{Body: &api.ResumeRequest{Agent: agent}})
}

// The daemon's user and root pause in anybody's name; of anybody else the kernel's word counts.
func TestInWhoseNameIsPaused(t *testing.T) {
	inHouse(t, nil, nil, func(h *house) {
		for _, own := range []bool{false, true} {
			if err := h.pause(broker.Caller{User: "user ada", Own: own}, "Sandman", "Maria"); err != nil {
				h.Fatal(err)
			}
			want := map[bool]string{false: "user ada", true: "Maria"}[own]
			if now, err := h.resume(broker.Caller{User: "root", Own: true}, "nobody"); err != nil || now.Pauses[0].By != want {
				h.Errorf("%+v, %v; want it by %s", now.Pauses, err, want)
			}
		}
	})
}

// What the daemon's user paused, only that user and root end, or replace by another pause.
func TestWhoEndsAPause(t *testing.T) {
	inHouse(t, nil, nil, func(h *house) {
		paused := func() (by string) {
			for _, p := range must(h, h.Resume, keyed(&api.ResumeRequest{Agent: "nobody"})).Pauses {
				by += p.By
			}
			return by
		}
		for _, agent := range []string{brake.Everybody, "Sandman", "agent-*"} {
			for n := range 8 {
				began, ends, again := n&1 != 0, n&2 != 0, n&4 != 0
				if err := h.pause(broker.Caller{User: "Anna", Own: began}, agent, ""); err != nil {
					h.Fatal(err)
				}
				bob, by, want := broker.Caller{User: "Bob", Own: ends}, "", "<nil>"
				var err error
				if again {
					by, err = "Bob", h.pause(bob, agent, "")
				} else {
					_, err = h.resume(bob, agent)
				}
				if began && !ends {
					by, want = "Anna", "forbidden_agent"
				}
				if is := paused(); is != by || h.code(err) != want {
					h.Errorf("%q, own %v, ended by own %v, replaced %v: %v, and then it is paused by %q; want %s, by %q", agent, began, ends, again, err, is, want, by)
				}
				if _, err := h.resume(broker.Caller{User: "root", Own: true}, agent); err != nil || paused() != "" {
					h.Errorf("root resumes: %v", err)
				}
			}
		}
	})
}

// A user cannot make pauses without end. (Package brake shows which are possible all the same.)
func TestPausesAreBounded(t *testing.T) {
	inHouse(t, nil, nil, func(h *house) {
		full := func(s *brake.State) (claim.Fact, bool) {
			for i := range brake.MostPauses {
				s.Pause(fmt.Sprint("made up ", i), brake.Pause{By: "user bob", At: time.Now()}, "")
			}
			return claim.Fact{ID: claim.NewFactID(time.Now()), At: time.Now(), Kind: claim.KindPaused}, true
		}
		if _, _, err := h.journal.ChangeBrake(h.Context(), full); err != nil {
			h.Fatal(err)
		}
		for agent, want := range map[string]string{"one more": "limit_reached", "made up 7": "<nil>", strings.Repeat("x", 200) + "*": "invalid_request"} {
			if code := h.code(h.pause(broker.Caller{User: "user bob"}, agent, "")); code != want {
				h.Errorf("pausing %q: %s, want %s", agent, code, want)
			}
		}
	})
}

// fails has an agent claim the next task and fail at it.
func (h *house) fails(agent string) {
	h.Helper()
	h.mustFinish(agent, string(h.mustClaim(agent, "").ID), claim.EndFailed, "it broke")
}

// barred asks for the next task, and returns the refusal, which must have that code.
func (h *house) barred(agent string, want claim.Code) *api.Problem {
	h.Helper()
	cl, err := h.claim(agent, "")
	if h.code(err) != string(want) {
		h.Fatalf("%s gets %+v, %v; want %s", agent, cl.Task, err, want)
	}
	return h.Problem(err)
}

// many are that many open tasks.
func many(n int) (all []task.Task) {
	for i := range n {
		all = append(all, openTask(i, fmt.Sprint("Task ", i)))
	}
	return all
}

// During a pause nothing is granted on any way, and nothing is asked of Notion; what is held goes on.
// A restart does not end it.
func TestPause(t *testing.T) {
	tasks := many(4)
	inHouse(t, nil, tasks, func(h *house) {
		held := h.mustClaim("Sandman", tasks[0].ID)
		h.offer(tasks[1].ID)
		pause := api.PauseRequest{Reason: "the build is\nbroken", ForSeconds: 3600}
		if done, err := h.Pause(h.Context(), broker.Caller{User: "user ada"}, keyed(&pause)); err != nil || len(done.Pauses) != 1 || !done.Changed {
			h.Errorf("the pause is %+v, %v", done, err)
		}
		r, w := h.costs(func() {
			for name, ask := range map[string]func() (api.Claim, error){
				"next":  func() (api.Claim, error) { return h.claim("Merlin", "") },
				"claim": func() (api.Claim, error) { return h.claim("Merlin", tasks[2].ID) },
				"held":  func() (api.Claim, error) { return h.claim("Merlin", tasks[0].ID) },
				"accept": func() (api.Claim, error) {
					return h.Accept(h.Context(), nobody, new(api.OnTask(tasks[1].ID, "", api.AcceptRequest{Agent: "Oracle"})))
				},
			} {
				_, err := ask()
				if p := h.Problem(err); h.code(err) != "paused" || p.Holder != "user ada" || !strings.Contains(p.Detail, "the build is broken") || time.Until(p.ExpiresAt.Time).Round(time.Minute) != time.Hour {
					h.Errorf("%s: %+v, want it paused for an hour", name, err)
				}
			}
		})
		if r+w > 0 {
			h.Errorf("that cost %d requests", r+w)
		}
		h.restart()
		h.barred("Merlin", claim.CodePaused)
		if who := h.agent("Merlin"); who.Paused == nil || who.Paused.Reason != "the build is broken" || who.Inbox != 0 {
			h.Errorf("Merlin stands so: %+v", who)
		}
		h.wantTold("Merlin") // of no task
		if err := h.renew("Sandman", ""); err != nil || h.decline("Oracle", tasks[1].ID) != "<nil>" {
			h.Errorf("renewed: %v", err)
		}
		h.mustFinish("Sandman", string(held.ID), claim.EndCompleted, "")
		for _, changed := range []bool{true, false} {
			if done, err := h.resume(nobody, ""); err != nil || done.Changed != changed || len(done.Pauses) > 0 {
				h.Errorf("resumed: %+v, %v", done, err)
			}
		}
		h.mustClaim("Merlin", "")
		if got := h.records(claim.KindPaused, claim.KindResumed); len(got) != 2 {
			h.Errorf("on record is %q", got)
		}
	})
}

// Some are paused, and others are not.
func TestPauseOfSome(t *testing.T) {
	inHouse(t, nil, many(4), func(h *house) {
		must(h, h.Pause, keyed(&api.PauseRequest{Agent: "Sandman"}))
		must(h, h.Pause, keyed(&api.PauseRequest{Agent: "bot-*", ForSeconds: 60}))
		h.barred("Sandman", claim.CodePaused)
		h.barred("bot-7", claim.CodePaused)
		h.mustClaim("Oracle", "")
		if done := must(h, h.Resume, keyed(&api.ResumeRequest{})); done.Changed || len(done.Pauses) != 2 {
			h.Errorf("everybody resumed: %+v; want both pauses to go on", done)
		}
		time.Sleep(time.Minute)
		h.mustClaim("bot-7", "")
		must(h, h.Resume, keyed(&api.ResumeRequest{Agent: "Sandman"}))
		h.mustClaim("Sandman", "")
		if _, code := did(h, h.Pause, keyed(&api.PauseRequest{Agent: " "})); code != "invalid_request" {
			h.Errorf("nobody is paused: %s", code)
		}
	})
}

// Who waits goes on waiting through a pause, at no cost, and is granted a task when it ends, in whatever way.
func TestWaitingThroughAPause(t *testing.T) {
	for _, resumed := range []bool{true, false} {
		inHouse(t, nil, many(3), func(h *house) { // one for each, and one of which Merlin is told
			ends := time.Now().Add(100 * time.Second)
			must(h, h.Pause, keyed(&api.PauseRequest{ForSeconds: 100}))
			got := make(chan error, 3)
			for agent, f := range map[string]api.Filter{"Sandman": {}, "Oracle": {Text: "task"}} {
				go func() {
					_, err := h.ask(api.ClaimRequest{Agent: agent, WaitSeconds: 600, Filter: f})
					got <- err
				}()
			}
			go func() {
				told, err := h.poll(h.Context(), "Merlin", "", 600)
				if len(told) != 1 {
					err = fmt.Errorf("Merlin's triggers are %v, %w", told, err)
				}
				got <- err
			}()
			if resumed {
				ends = time.Now().Add(50 * time.Second)
				time.Sleep(50 * time.Second)
				if n := len(h.store.Calls()); n > 0 {
					h.Errorf("waiting took %d requests", n)
				}
				must(h, h.Resume, keyed(&api.ResumeRequest{}))
			}
			for range 3 {
				if err := <-got; err != nil || time.Since(ends).Abs() > 5*time.Second || time.Now().Before(ends) {
					h.Errorf("resumed %v: %v, %v after the pause", resumed, err, time.Since(ends))
				}
			}
		})
	}
}

// The breaker's pause and its probe outlast restarts, and who waits goes on once the probe has ended
// well. (Package brake shows what trips it.)
func TestBreaker(t *testing.T) {
	inHouse(t, func(h *house) {
		h.bounds.Breaker = brake.Breaker{Failures: 3, Within: time.Hour, Pause: 15 * time.Minute}
	}, many(9), func(h *house) {
		held := h.mustClaim("Merlin", "")
		for _, agent := range []string{"Sandman", "Oracle", "Sandman"} {
			h.fails(agent)
		}
		if p := h.barred("Sandman", claim.CodePaused); p.Holder != claim.Sweeper || !strings.Contains(p.Detail, "3 tasks in a row") || time.Until(p.ExpiresAt.Time).Round(time.Minute) != 15*time.Minute {
			h.Errorf("the refusal is %+v", p)
		}
		h.mustFinish("", string(held.ID), claim.EndCompleted, "")
		h.restart()
		h.barred("Sandman", claim.CodePaused)
		time.Sleep(15 * time.Minute)
		probe := h.mustClaim("Oracle", "")
		h.restart()
		waits := make(chan error)
		go func() {
			_, err := h.ask(api.ClaimRequest{Agent: "Sandman", WaitSeconds: 600})
			waits <- err
		}()
		time.Sleep(time.Minute)
		if p := h.barred("Merlin", claim.CodePaused); !strings.Contains(p.Detail, "one task was let through") || !p.ExpiresAt.IsZero() {
			h.Errorf("beside the probe: %+v", p)
		}
		began := time.Now()
		h.mustFinish("", string(probe.ID), claim.EndCompleted, "")
		if err := <-waits; err != nil || time.Since(began) > 8*time.Second {
			h.Errorf("after the probe: %v, %v later", err, time.Since(began))
		}
		if got := h.records(claim.KindPaused, claim.KindResumed); len(got) != 2 {
			h.Errorf("on record is %q", got)
		}
	})
}

// berlin is the zone of the limits.
var berlin, _ = time.LoadLocation("Europe/Berlin")

// nextMidnight is when the day ends there.
func nextMidnight() time.Time {
	y, m, d := time.Now().In(berlin).Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, berlin)
}

// Agents get no more tasks once they, or all that a pattern covers, have spent what they may in a day:
// also after a restart, and until midnight. What they hold goes on. (Package journal shows the same of
// grants.)
func TestMoneyOfADay(t *testing.T) {
	inHouse(t, func(h *house) {
		h.bounds.Zone, h.policy.MaxLifetime = berlin, 0
		h.bounds.Days = []brake.DayLimit{{Name: "worker-1", Micros: 1e6}, {Name: "worker-*", Micros: 3.5e6}}
	}, many(8), func(h *house) {
		spend := func(cl api.Claim, usd float64) {
			h.Helper()
			if err := h.Spend(h.Context(), cl.ID, claim.Usage{Micros: int64(usd * 1e6)}); err != nil {
				h.Fatal(err)
			}
		}
		out := func(agent, says string) {
			h.Helper()
			if p := h.barred(agent, claim.CodeLimitReached); p.ExpiresAt.Sub(nextMidnight()).Abs() > time.Second || !strings.Contains(p.Detail, says) {
				h.Errorf("%s is refused until %v: %s; want until %v, and %s", agent, p.ExpiresAt, p.Detail, nextMidnight(), says)
			}
		}
		first, held := h.mustClaim("worker-1", ""), h.mustClaim("worker-1", "")
		spend(first, 0.99)
		spend(first, 0.5) // a total that is behind
		h.mustClaim("worker-1", "")
		spend(held, 0.01)
		for range 2 {
			out("worker-1", "worker-1 used up max_usd_per_day: 1.00 of 1.00 USD")
			h.restart()
		}
		spend(held, 1.5) // what is held goes on
		spend(h.mustClaim("worker-2", ""), 1.02)
		out("worker-3", "the agents worker-* together used up max_usd_per_day: 3.51 of 3.50 USD")
		h.mustClaim("Sandman", "") // whom no limit covers
		if got := h.records(claim.KindDenied); len(got) != 2 {
			h.Errorf("on record is %q", got)
		}
		time.Sleep(time.Until(nextMidnight()) + time.Second)
		h.mustClaim("worker-3", "")
		h.mustClaim("worker-1", "")
	})
}

// inSrc is where a file or a folder of a repository is.
func inSrc(path string) []api.Spot { return []api.Spot{{In: "/repo/.git", Path: "/" + path}} }

// reserve reserves a pattern of a repository until the end of a claim.
func (h *house) reserve(agent, pattern string, of api.Claim) (api.Reserved, error) {
	return h.Reserve(h.Context(), nobody, &api.KeyedInput[api.ReserveRequest]{Body: api.ReserveRequest{
		Agent: agent, Targets: []api.ReserveTarget{{Pattern: pattern, At: inSrc(pattern)}}, Claim: string(of.ID),
	}})
}

// What is reserved for a claim ends with it, however it ends, and across restarts.
func TestReservationsOfAClaim(t *testing.T) {
	ends := func(as claim.Ending) func(*house, api.Claim) {
		return func(h *house, cl api.Claim) {
			h.mustFinish("Sandman", string(cl.ID), as, "")
		}
	}
	for name, end := range map[string]func(*house, api.Claim){
		"completed": ends(claim.EndCompleted), "released": ends(claim.EndReleased), "lost": (*house).take, "not renewed": nil,
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, nil, pair(), func(h *house) {
				free := func(want bool) {
					h.Helper()
					_, err := h.Check(h.Context(), nobody, &api.CheckInput{Body: api.CheckRequest{Agent: "Oracle", Targets: []api.CheckTarget{{Path: "src/a", At: inSrc("src/a")}}}})
					if (err == nil) != want || err != nil && (h.code(err) != string(claim.CodeReserved) || h.Problem(err).Holder != "Sandman") {
						h.Errorf("src/a: %v, want it free: %v", err, want)
					}
				}
				cl := h.mustClaim("Sandman", "")
				got, err := h.reserve("Sandman", "src/**", cl)
				if made := got.Reservation; err != nil || made.ClaimID != cl.ID || made.ExpiresAt.Before(cl.ExpiresAt.Time) || made.ExpiresAt.After(cl.ExpiresAt.Add(2*time.Minute)) {
					h.Fatalf("reserved %+v, %v for a claim until %v", made, err, cl.ExpiresAt)
				}
				if _, err := h.reserve("Oracle", "doc/**", cl); h.code(err) != string(api.CodeClaimLost) {
					h.Errorf("Oracle reserved something for Sandman's claim: %v", err)
				}
				h.restart()
				free(false)
				if end == nil {
					time.Sleep(time.Until(got.Reservation.ExpiresAt.Add(2 * time.Second)))
				} else {
					end(h, cl)
					time.Sleep(2 * time.Second)
				}
				free(true)
				if n := h.logged(claim.KindUnreserved); n != 1 {
					h.Errorf("%d ends on record, want 1", n)
				}
			})
		})
	}
}
