package daemon_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"
)

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
			_, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman"}, "again")
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
		if _, err := n.Offer(w.Context(), task.ID(last), api.OfferRequest{Agent: "Sandman", To: "Oracle"}, ""); err != nil {
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
	_, err := n.Sync(w.Context(), api.SyncRequest{}, "")
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
					cl, err := n.Claim(w.Context(), api.ClaimRequest{Agent: agent}, fmt.Sprint(key, j, agent))
					if err == nil {
						_, err = n.Complete(w.Context(), string(cl.ID), api.CompleteRequest{Agent: agent}, "")
					}
					if c := code(err); err != nil && !slices.Contains([]string{"limit_reached", "nothing_ready", "claim_lost"}, c) {
						w.Errorf("%s: %v", agent, err)
					}
				})
			}
			asked.Wait()
		}
	}
	log, err := n.Log(w.Context(), api.LogFilter{Limit: 1000})
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
