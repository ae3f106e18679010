package trial_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// withoutEpoch removes the epoch's check from the journal: a former leader can save.
var withoutEpoch = change{"../../journal/leader.go", "if t.blind {", "if true {"}

// TestTrialWithoutEpoch runs two trials that are as dangerous as possible for a deposed leader: its
// machine is paused, including its clocks, while it waits for claims to be written, and when it
// continues, it has them to grant. The first trial has the real daemons and must pass. In the
// second the journal does not check the epoch, and the same checks as in TestTrial must find two
// agents with one task.
func TestTrialWithoutEpoch(t *testing.T) {
	if !testkit.InFull() {
		t.Skip("takes five minutes")
	}
	if !canBendClocks {
		t.Skip("clocks cannot be made to stand still here")
	}
	o := shortTrial
	o.paused, o.claims, o.agents, o.tasks, o.holding, o.between, o.atWork = true, 400, 96, 80, 60, 10, 30*time.Second
	// The next leader clears what it finds after a grace that depends on these.
	o.timeout, o.window, o.interval = 3*time.Second, 2*time.Second, time.Second
	t.Run("asserted", func(t *testing.T) { newTrial(t, o).passes() })
	t.Run("not asserted", func(t *testing.T) {
		o.binary = mutant(t, withoutEpoch)
		var bad []string
		for range 3 { // runs vary with the machine
			tr := newTrial(t, o)
			tr.run()
			if bad = tr.Wrong(); len(tr.doubles) > 0 {
				t.Logf("found %d times that two had a task, and %d other things, such as: %s", len(tr.doubles), len(bad), tr.doubles[0])
				return
			}
		}
		t.Errorf("nobody found that two had a task; what was found last:\n%s", strings.Join(bad, "\n"))
	})
}

// TestTrialMutants runs trials with members that lack what a failover, a crash of the database, or a
// pooler needs. The checks of TestTrial must find each.
func TestTrialMutants(t *testing.T) {
	if !testkit.InFull() {
		t.Skip("takes a quarter of an hour")
	}
	for name, changes := range map[string][]change{
		"commits are as the role has them":  {{"../../journal/leader.go", "ELSE 'on' END, true)", "ELSE current_setting('synchronous_commit') END, true)"}},
		"nobody knows that it was set back": {{"../../journal/database.go", `before.ID == "" ||`, "true ||"}},
		"a stranger is not reckoned with":   {{"../../claim/claimer.go", "if c.beside() {", "if false {"}},
		"what is cut fails": {
			{"../../journal/postgres.go", "return how.IdleDuration > time.Second && !stale(how.Conn)", "return false"},
			{"../../journal/connection.go", "return &cut{err}", "return err"},
			{"../../journal/writer.go", "if !lost(err) {", "if true {"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := shortTrial
			o.claims, o.binary = 200, mutant(t, changes...)
			for range 3 { // runs vary with the machine
				tr := newTrial(t, o)
				tr.run()
				if bad := slices.Concat(tr.doubles, tr.Wrong()); len(bad) > 0 {
					t.Logf("found %d things, such as: %s", len(bad), bad[0])
					return
				}
			}
			t.Error("nobody found it")
		})
	}
}

// slowClaims lets Notion take a second for each claim write, so that some are always under way.
func (tr *trial) slowClaims() {
	tr.notion.Inject(emulator.Fault{Kind: emulator.DelayAnswer, Delay: time.Second, Match: func(r *http.Request, body []byte) bool {
		return r.Method == http.MethodPatch && strings.Contains(string(body), `"IN_PROGRESS"`)
	}})
}

// pauses pauses the leader's machine again and again until another daemon leads. Each time the new
// leader gets time to clear the ungranted claims from their pages and to grant the tasks to others.
func (tr *trial) pauses(ctx context.Context) {
	tr.each(ctx, tr.stream(10), []trouble{{"pauses of the leader, longer than its lease", func(ctx context.Context, random *rand.Rand) {
		seconds := (tr.beyond + tr.some(random)).Truncate(time.Second) // clocks are set in whole seconds
		tr.daemons[tr.leader(ctx)].stop(ctx, seconds, true)
		sleep(ctx, tr.beyond+tr.brief)
	}}})
}
