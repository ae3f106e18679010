package chaos_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/internal/emulator"
)

// withoutEpoch has the journal not assert whose term it is: whoever led once may save for good.
var withoutEpoch = change{"../../journal/term.go", "if t.blind {", "if true {"}

// TestTrialWithoutEpoch has two trials that are as dangerous as can be for a leader that was
// followed and does not know it: its machine is paused, clocks and all, while it waits to be told
// that claims are on their pages, and when it goes on, it has them to grant. One is of the
// daemons as they are, and has to pass. In the other one the journal does not assert its epoch,
// and the same looks that find nothing in TestTrial have to find that two agents had a task.
func TestTrialWithoutEpoch(t *testing.T) {
	if !*long {
		t.Skip("takes five minutes")
	}
	if !canBendClocks {
		t.Skip("clocks cannot be made to stand still here")
	}
	o := trialOptions{
		times: trialTimes, claims: 400, agents: 96, holding: 60, between: 10, limit: 15_000,
		beyond: 10 * time.Second, paused: true,
	}
	o.times.tasks, o.times.atWork = 80, 30*time.Second
	// The next leader takes off what it finds, after a grace that follows from these.
	o.times.timeout, o.times.window, o.times.interval = 3*time.Second, 2*time.Second, time.Second
	t.Run("asserted", func(t *testing.T) { newTrial(t, o).passes() })
	t.Run("not asserted", func(t *testing.T) {
		o.binary = mutant(t, withoutEpoch)
		var bad []string
		for range 3 { // the machine decides how a run goes
			tr := newTrial(t, o)
			tr.run()
			if bad = tr.bad; len(tr.doubles) > 0 {
				t.Logf("found %d times that two had a task, and %d other things, such as: %s", len(tr.doubles), len(bad), tr.doubles[0])
				return
			}
		}
		t.Errorf("nobody found that two had a task; what was found last:\n%s", strings.Join(bad, "\n"))
	})
}

// slowClaims has Notion take a second to answer the write of a claim, so that some are always
// under way.
func (tr *trial) slowClaims() {
	tr.notion.Inject(emulator.Fault{Kind: emulator.DelayAnswer, Delay: time.Second, Match: func(r *http.Request, body []byte) bool {
		return r.Method == http.MethodPatch && strings.Contains(string(body), `"IN_PROGRESS"`)
	}})
}

// pauses has the leader's machine paused until another one leads, again and again. After each
// there is time for the next one to take off its page what the last one had not granted when it
// stopped, and to grant the task to somebody else.
func (tr *trial) pauses(ctx context.Context) {
	tr.each(ctx, tr.stream(10), []trouble{{"pauses of the leader, longer than its lease", func(ctx context.Context, random *rand.Rand) {
		seconds := (tr.beyond + tr.some(random)).Truncate(time.Second) // what clocks can be set by
		tr.daemons[tr.leader(ctx)].stop(ctx, seconds, true)
		sleep(ctx, tr.beyond+tr.chaos.brief)
	}}})
}
