package daemon_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// Waiters for Notion continue soon after it is back, however long it was away: it is probed every
// three seconds, and no more often.
func TestNotionIsBack(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	faults := []emulator.Fault{{Kind: emulator.DropRequest}, {Kind: emulator.Error503}, {Kind: emulator.HTML502}}
	for j, fault := range faults {
		for i, outage := range []time.Duration{5, 8, 13, 20, 30, 38, 44, 50, 75, 120, 300, 600} {
			if !inTurn(i, j, len(faults)) {
				continue
			}
			outage *= time.Second
			t.Run(fmt.Sprintf("%s for %v", fault.Kind, outage), func(t *testing.T) {
				t.Parallel()
				inWorld(t, 0, func(w *world) {
					open, held := w.add("open", nil), w.add("held", nil)
					n := w.daemon(func(c *config.Config) { c.Schedule.Sweep = "@every 1000h" })
					cl := n.mustClaim("Sandman", held)
					time.Sleep(67 * time.Second)
					remove := w.notion.Inject(fault)
					w.notion.ResetRequests()
					granted := make(chan time.Time)
					go func() {
						time.Sleep(time.Second)
						if _, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Oracle", Task: open, WaitSeconds: 3600}, ""); err != nil {
							w.Error(err)
						}
						granted <- time.Now()
					}()
					time.AfterFunc(2*time.Second, func() {
						if err := n.complete(cl); err != nil {
							w.Error(err)
						}
					})
					time.Sleep(outage)
					during := len(w.notion.Requests())
					remove()
					back := time.Now()
					first := (<-granted).Sub(back)
					time.Sleep(15 * time.Second)
					claimed, told, entry := -time.Second, -time.Second, -time.Second
					for _, r := range w.notion.Requests() {
						took := r.Time.Sub(back)
						switch {
						case took < 0 || r.Status != 200:
						case claimed < 0 && r.Method == "PATCH" && strings.HasSuffix(r.Path, open):
							claimed = took
						case told < 0 && r.Method == "PATCH" && strings.HasSuffix(r.Path, held):
							told = took
						case entry < 0 && r.Method == "POST" && r.Path == "/v1/pages":
							entry = took
						}
					}
					w.Logf("claim written %v, granted %v, finish %v, log entry %v after Notion was back; %d requests during the outage", claimed, first, told, entry, during)
					const most = 5 * time.Second
					if claimed > most || told > most || entry > most || claimed < 0 || told < 0 || entry < 0 || first > most+config.Default().Claim.Settle {
						w.Error("later than 5 s after Notion was back, and the settle wait")
					}
					if most := 24 + int(outage/(3*time.Second)); during > most {
						w.Errorf("%d requests during the outage, want at most %d", during, most)
					}
				})
			})
		}
	}
}
