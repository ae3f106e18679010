package daemon_test

import (
	"errors"
	"fmt"
	"strings"
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

func breaking(c *config.Config) {
	c.Claim.Breaker = config.Breaker{Failures: 3, Within: 10 * time.Minute, Pause: 15 * time.Minute}
}

// A pause costs no request and outlasts a restart. The breaker's is told to people, and its probe decides.
func TestPause(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		for i := range 9 {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		o, out := w.telling(config.Receiver{URL: ntfyURL, On: []config.Notice{config.NoticePaused}})
		breaking(&o.Config)
		n := w.start(o)
		held := n.mustClaim("Oracle", "")
		time.Sleep(10 * time.Second)
		w.notion.ResetRequests()
		if done := n.pause(api.PauseRequest{Reason: "the build is broken", By: "Anna", ForSeconds: 3600}); len(done.Pauses) != 1 || done.Pauses[0].By != "user unknown" { // Anna is nobody that the kernel names
			w.Errorf("the pause is %+v", done)
		}
		n.barred("Merlin", claim.CodePaused)
		if asked := w.requests(); len(asked) > 0 {
			w.Errorf("that cost %v", asked)
		}
		n.stop()
		n = w.start(o)
		if n.barred("Merlin", claim.CodePaused); len(n.status().Pauses) != 1 {
			w.Errorf("the status has %+v", n.status().Pauses)
		}
		mustDo(w, n.complete(held))
		n.resume("")
		for _, agent := range []string{"Sandman", "Oracle", "Sandman"} {
			n.fail(n.mustClaim(agent, ""))
		}
		n.barred("Oracle", claim.CodePaused)
		time.Sleep(2 * time.Minute)
		if told := fmt.Sprint(out.came()); !strings.Contains(told, "the build is broken") || !strings.Contains(told, "dibs paused everybody") {
			w.Errorf("people are told %s", told)
		}
		time.Sleep(13 * time.Minute)
		probe := n.mustClaim("Sandman", "")
		n.barred("Oracle", claim.CodePaused)
		mustDo(w, n.complete(probe))
		n.mustClaim("Oracle", "")
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

func limited(c *config.Config) {
	c.Limits.Zone = "Europe/Berlin"
	c.Agents = []config.Agent{{Name: "*"}, {Name: "Sandman", MaxPerDay: 2}, {Name: "bot-*", MaxPerDay: 3}}
}

// The limits of a day are those of the configuration, in its zone, and change with it.
func TestLimitOfADay(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		for i := range 5 {
			w.add(fmt.Sprint("Task ", i), nil)
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
		if p := n.barred("Sandman", claim.CodeLimitReached); !strings.Contains(p.Detail, "2 of 2 grants of this day (Europe/Berlin)") {
			w.Errorf("refused: %s", p.Detail)
		}
		o.Config.Agents = o.Config.Agents[:1]
		mustDo(w, n.daemon.Reload(o.Config))
		n.mustClaim("Sandman", "")
	})
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
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		n := w.daemon(nil)
		cl := n.mustClaim("Sandman", id)
		_, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{}))
		mustDo(w, err)
		w.notion.ResetRequests()
		stop := w.automation(id, shown{Status: "IN_PROGRESS", ClaimedBy: "Sandman"}, func() map[string]any {
			return map[string]any{
				"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"),
				"claimed_at": date(time.Now()), "claim_token": text("rich_text", string(cl.ID)),
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
}

// An automation that takes every claim of a waiting agent off its card: the claims end, and the
// card goes round no faster than leases do.
func TestAutomationAgainstEveryClaim(t *testing.T) {
	testkit.RacedElsewhere(t)
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
