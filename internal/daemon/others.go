package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/worklog"
)

// Daemons on one board must have the same settings, and tell them with every grant.
const (
	// othersDelay is how long after a claim of another daemon was met its entry is
	// looked for: it has to be delivered, and queries lag.
	othersDelay = 3 * time.Minute
	// othersEvery is how long until the mesh log is looked at again.
	othersEvery = time.Hour
	// othersSince is how old the entries are that are looked at: after a change of
	// settings, what is said of the old ones is to go soon.
	othersSince = 2 * time.Hour
)

// grants is a mesh log that can be asked for grants.
type grants interface {
	// OtherGrants returns the newest grants since then that tell of settings other than
	// these.
	OtherGrants(ctx context.Context, since time.Time, than claim.Settings) ([]worklog.Grant, error)
}

// others is which agents' daemons claim under other settings. It is safe for concurrent
// use.
type others struct {
	mu   sync.Mutex
	said []string
}

func (o *others) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.said)
}

// othersLoop looks at the settings of other daemons on the board. Where there are none it
// asks for nothing.
func (d *Daemon) othersLoop(ctx context.Context) {
	if d.mesh == nil {
		return
	}
	for met := d.meets(ctx, slices.Collect(d.mirror.Tasks())); ; met = false {
		if !met && len(d.others.lines()) == 0 { // what is said is looked at again in any case
			select {
			case <-d.strangers:
			case <-ctx.Done():
				return
			}
		}
		if !pause(ctx, othersDelay) {
			return
		}
		if err := d.lookAtOthers(ctx); err != nil && ctx.Err() == nil {
			d.log.Info("the settings of other daemons could not be looked at", "error", err)
		}
		if !pause(ctx, othersEvery-othersDelay) {
			return
		}
	}
}

// pause waits, and reports whether ctx is still going.
func pause(ctx context.Context, wait time.Duration) bool { return await(ctx, nil, wait) }

// meets reports whether one of the tasks shows a claim, not long made, of another daemon.
func (d *Daemon) meets(ctx context.Context, tasks []task.Task) bool {
	since := claim.NewID(d.notion.Now().Add(-othersSince)) // ids are in the order of their times
	for _, t := range tasks {
		token := claim.ParseToken(t.Token)
		if token.Void || token.ID < since {
			continue
		}
		if _, err := d.claimer.Find(ctx, token.ID); errors.Is(err, claim.ErrUnknownClaim) {
			return true
		}
	}
	return false
}

// lookAtOthers asks the mesh log for grants under other settings.
func (d *Daemon) lookAtOthers(ctx context.Context) error {
	here := d.claimer.Settings()
	found, err := d.mesh.OtherGrants(ctx, d.notion.Now().Add(-othersSince), here)
	if err != nil {
		return err
	}
	agents := make(map[claim.Settings][]string)
	for _, g := range found {
		ours, err := d.journal.Recorded(ctx, g.EntryID)
		if err != nil {
			return err
		}
		// This daemon's own are of a time before its settings were changed.
		if !ours && g.Settings.Against(here) != "" && !slices.Contains(agents[g.Settings], g.Agent) {
			agents[g.Settings] = append(agents[g.Settings], g.Agent)
		}
	}
	var lines []string
	for s, names := range agents {
		slices.Sort(names)
		lines = append(lines, fmt.Sprintf("%s claims under %s", whose(names), s.Against(here)))
	}
	slices.Sort(lines)
	d.others.mu.Lock()
	defer d.others.mu.Unlock()
	for _, line := range lines {
		if !slices.Contains(d.others.said, line) {
			d.log.Warn("another daemon on this board has other settings", "what", line)
		}
	}
	d.others.said = lines
	return nil
}

// whose says whose daemon it is.
func whose(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("the daemon of %s and %d more", strings.Join(names[:most], ", "), more)
	}
	return "the daemon of " + strings.Join(names, ", ")
}
