package notion_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
)

// A reading is of the moment that its answer's Date says. If that is missing, or nobody
// else has said so, the reading is of now, as far as is known, and unsure.
func TestAnswersSayOfWhenTheyAre(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{})
		read := func() (claim.Reading, error) { return tasks.Get(w.Context(), id) }
		write := func() (claim.Reading, error) { return tasks.Write(w.Context(), id, claimed("Sandman", dawn)) }
		for name, ask := range map[string]func() (claim.Reading, error){"read": read, "write": write} {
			for _, fault := range []emulator.Fault{
				{Kind: emulator.WrongDate, Off: time.Hour}, {Kind: emulator.WrongDate, Off: -time.Hour},
				{Kind: emulator.WrongDate, Off: 10 * 365 * 24 * time.Hour}, {Kind: emulator.NoDate},
			} {
				fault.Times = 1
				for i, unsure := range []bool{true, false} {
					if i == 0 {
						defer w.emulator.Inject(fault)()
					}
					now := time.Now()
					r, err := ask()
					if err != nil {
						w.Fatal(err)
					}
					if off := r.At.Sub(now); r.Unsure != unsure || off.Abs() > time.Second {
						w.Errorf("%s under %s of %v, answer %d: of now + %v, unsure %v; want unsure %v", name, fault.Kind, fault.Off, i, off, r.Unsure, unsure)
					}
					if off := time.Until(tasks.Now()); off.Abs() > time.Second {
						w.Errorf("%s under %s of %v, answer %d: the clock is off by %v", name, fault.Kind, fault.Off, i, off)
					}
				}
			}
		}
	})
}
