package journal_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/brake"
	"dibs/internal/journal"
	"dibs/internal/journal/journaltest"
	"dibs/internal/task"

	"pgregory.net/rapid"
)

// Whatever happens, in whatever order, no more is granted in a local day than its limits allow, and
// nothing is refused while there is room: attempts are granted late or not at all, claims end, the
// journal is opened again, and days begin, also those on which the clocks change.
func TestLimitsOfADayHold(t *testing.T) {
	limits := []brake.DayLimit{{Name: "Sandman", Grants: 2}, {Name: "bot-*", Grants: 3}, {Name: "*", Grants: 6}}
	agents := []string{"Sandman", "bot-1", "bot-2", "Oracle"}
	rapid.Check(t, func(rt *rapid.T) {
		change := rapid.SampledFrom([]struct{ zone, at string }{
			{"UTC", "2026-11-26T20:00:00Z"},
			{"Europe/Berlin", "2026-10-24T20:00:00Z"},
			{"Europe/Berlin", "2026-03-28T20:00:00Z"},
			{"America/Havana", "2026-10-31T22:00:00Z"}, // back to midnight
			{"Asia/Beirut", "2026-03-28T15:00:00Z"},    // forward over midnight
		}).Draw(rt, "zone")
		zone, err := time.LoadLocation(change.zone)
		do(rt, err)
		now, _ := time.Parse(time.RFC3339, change.at)
		path := filepath.Join(t.TempDir(), "journal.db")
		var j *journal.Journal
		begin := func() {
			if j, err = journaltest.Open(t.Context(), path); err != nil {
				rt.Fatal(err)
			}
			do(rt, j.SetBounds(t.Context(), brake.Bounds{Zone: zone, Days: limits}))
		}
		begin()
		defer func() {
			do(rt, j.Close())
			retire(rt, path)
		}()
		var trying, held []claim.Hold
		granted := make(map[brake.DayLimit]map[string]int)
		for _, l := range limits {
			granted[l] = make(map[string]int)
		}
		day := func(at time.Time) string { return at.In(zone).Format(time.DateOnly) }
		take := func(from *[]claim.Hold) (claim.Hold, bool) {
			if len(*from) == 0 {
				return claim.Hold{}, false
			}
			i := rapid.IntRange(0, len(*from)-1).Draw(rt, "which")
			c := (*from)[i]
			*from = append((*from)[:i:i], (*from)[i+1:]...)
			return c, true
		}
		save := func(c claim.Hold) { do(rt, j.Save(t.Context(), claim.Change{Holds: []claim.Hold{c}})) }
		n := 0
		rt.Repeat(map[string]func(*rapid.T){
			"wait": func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 200).Draw(rt, "minutes")) * time.Minute)
			},
			"reserve": func(rt *rapid.T) {
				n++
				c := attempt(rapid.SampledFrom(agents).Draw(rt, "agent"), task.ID(fmt.Sprint("t", n)), now)
				c.Brief = rapid.IntRange(0, 5).Draw(rt, "brief") == 0
				_, refusal, err := j.Reserve(t.Context(), c, now, 0)
				do(rt, err)
				full := false
				for _, l := range limits {
					used := granted[l][day(now)]
					for _, other := range trying {
						if !other.Brief && l.Covers(other.Agent) {
							used++
						}
					}
					full = full || l.Covers(c.Agent) && used >= l.Grants
				}
				if barred := refusal != nil; barred != (full && !c.Brief) {
					rt.Fatalf("%s at %v: refused %v, with the limit used up %v", c.Agent, now.In(zone), barred, full)
				}
				if refusal == nil {
					trying = append(trying, c)
				} else if until := refusal.Barred.Until; !until.After(now) || day(until.Add(-time.Second)) != day(now) || day(until) == day(now) {
					rt.Fatalf("refused at %v until %v", now.In(zone), until.In(zone))
				}
			},
			"grant": func(rt *rapid.T) {
				if c, ok := take(&trying); ok {
					c.State, c.Started = claim.Held, now
					save(c)
					held = append(held, c)
					for _, l := range limits {
						if !c.Brief && l.Covers(c.Agent) {
							granted[l][day(now)]++
						}
						if got := granted[l][day(now)]; got > l.Grants {
							rt.Fatalf("%s was granted %d tasks on %s", l.Name, got, day(now))
						}
					}
				}
			},
			"deny": func(rt *rapid.T) {
				if c, ok := take(&trying); ok {
					c.State, c.Ending, c.Ended = claim.Ended, claim.EndNotGranted, now
					save(c)
				}
			},
			"finish": func(rt *rapid.T) {
				if c, ok := take(&held); ok {
					c.State, c.Ending, c.Ended = claim.Ended, claim.EndCompleted, now
					save(c)
				}
			},
			"restart": func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "seldom") > 0 {
					return
				}
				do(rt, j.Close())
				begin()
				trying = nil // they had written nothing
			},
		})
	})
}
