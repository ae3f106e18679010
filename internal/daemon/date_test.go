package daemon_test

import (
	"fmt"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// One answer from Notion with a wrong Date, or none, ends no live claim and is written nowhere; the
// next claim works as before.
func TestOneAnswerWithAWrongDate(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	for _, fault := range []emulator.Fault{
		{Kind: emulator.WrongDate, Off: time.Hour}, {Kind: emulator.WrongDate, Off: -time.Hour},
		{Kind: emulator.WrongDate, Off: 10 * 365 * 24 * time.Hour}, {Kind: emulator.NoDate},
	} {
		t.Run(fmt.Sprintf("%s %v", fault.Kind, fault.Off), func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				quiet := func(c *config.Config) { c.Schedule.Sweep = "@every 1000h" }
				holder, rival := w.daemon(quiet), w.daemon(quiet)
				for skip := range 4 { // the answer that is wrong
					held, open := w.add(fmt.Sprint("held ", skip), nil), w.add(fmt.Sprint("open ", skip), nil)
					cl := holder.mustClaim("Sandman", held)
					time.Sleep(time.Minute)
					fault.Skip, fault.Times = skip, 1
					strike := func() (remove func()) {
						time.Sleep(time.Minute) // a right answer in between: two that agree would be believed
						return w.notion.Inject(fault)
					}
					remove := strike()
					if _, err := rival.claim("Oracle", held); code(err) != denied(claim.CodeHeld) {
						w.Errorf("answer %d: a live claim: %v, want held", skip, err)
					}
					remove()
					remove = strike()
					if swept, err := rival.Sweep(w.Context(), ""); err != nil || len(swept.Swept) > 0 {
						w.Errorf("answer %d: swept %+v, %v; want nothing", skip, swept.Swept, err)
					}
					remove()
					remove = strike()
					rival.mustClaim("Oracle", open)
					remove()
					if since := time.Since(w.claimedAt(open)); since < 0 || since > time.Minute+10*time.Second {
						w.Errorf("answer %d: claimed_at lies %v back", skip, since)
					}
					remove = strike()
					if err := holder.complete(cl); err != nil {
						w.Errorf("answer %d: %v", skip, err)
					}
					remove()
				}
			})
		})
	}
}
