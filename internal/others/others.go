// Package others finds out which daemons claim on the same board under other settings. Daemons
// on one board must have the same ones, and tell them with every grant.
package others

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/clock"
	"dibs/internal/task"
	"dibs/internal/worklog"
)

const (
	// delay is how long after a claim of another daemon was met its entry is looked for: it
	// has to be delivered, and queries lag.
	delay = 3 * time.Minute
	// every is how long until the mesh log is looked at again.
	every = time.Hour
	// Since is how old the entries are that are looked at: after a change of settings, what is
	// said of the old ones is to go soon.
	Since = 2 * time.Hour
)

// Mesh is a mesh log that can be asked for grants.
type Mesh interface {
	// OtherGrants returns the newest grants since then that tell of settings other than
	// these.
	OtherGrants(ctx context.Context, since time.Time, than claim.Settings) ([]worklog.Grant, error)
}

// Journal knows what this daemon has logged. Its method is safe for concurrent use.
type Journal interface {
	// Recorded reports whether a log entry is this daemon's own.
	Recorded(ctx context.Context, entry string) (bool, error)
}

// Claims is the claims that this daemon, and those that share its journal, have made. Its method
// is safe for concurrent use.
type Claims interface {
	// Find returns a claim that the journal knows, or claim.ErrUnknownClaim.
	Find(context.Context, claim.ID) (claim.Hold, error)
}

// Config is what a Lookout is made of. All of it is required.
type Config struct {
	Mesh     Mesh
	Journal  Journal
	Claims   Claims
	Settings claim.Settings // of this daemon
	Clock    clock.Source
	Log      *slog.Logger
}

// Lookout is which agents' daemons claim under other settings. It is safe for concurrent use.
type Lookout struct {
	Config
	loop   *clock.Loop
	looked time.Time // when it last looked; used by the loop alone

	mu   sync.Mutex
	seen map[claim.ID]bool // those not older than Since of which it is known whether they are strange
	met  []meeting         // strange ones that have not been looked for, oldest first
	said []string
}

// meeting is when a claim was met.
type meeting struct {
	token claim.Token
	at    time.Time
}

// Stranger is a claim of a daemon with which this one has nothing to do, as far as is known.
type Stranger struct {
	Agent string
	Ago   time.Duration // since it was made
}

// New returns a Lookout that has met nobody.
func New(c Config) *Lookout {
	l := &Lookout{Config: c, seen: make(map[claim.ID]bool)}
	l.loop = clock.NewLoop(0, l.turn)
	return l
}

// Lines says what is known of other daemons, a line for each of their settings.
func (l *Lookout) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.said)
}

// See is to be called with the tasks of the board when there may be other claims on them.
// It returns those claims that it has not seen before.
func (l *Lookout) See(ctx context.Context, tasks iter.Seq[task.Task]) (met []Stranger) {
	since := claim.NewID(l.Clock.Now().Add(-Since)) // ids are in the order of their times
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.seen, func(id claim.ID, _ bool) bool { return id < since })
	for t := range tasks {
		token := claim.ParseToken(t.Token)
		if token.Void || token.ID < since || l.seen[token.ID] {
			continue
		}
		l.seen[token.ID] = true
		if l.strange(ctx, token) {
			l.met = append(l.met, meeting{token, time.Now()})
			made, _ := token.ID.Minted()
			met = append(met, Stranger{cmp.Or(token.By, t.ClaimedBy), l.Clock.Now().Sub(made)})
		}
	}
	if len(l.met) > 0 {
		l.loop.Wake()
	}
	return met
}

// strange reports whether a claim is a stranger's.
func (l *Lookout) strange(ctx context.Context, t claim.Token) bool {
	_, err := l.Claims.Find(ctx, t.ID)
	return errors.Is(err, claim.ErrUnknownClaim)
}

// Run looks at the settings of other daemons until ctx ends. Where there are none it asks for
// nothing.
func (l *Lookout) Run(ctx context.Context) { l.loop.Run(ctx) }

// turn looks if it is time to, and returns when it may be again.
func (l *Lookout) turn(ctx context.Context) time.Duration {
	if wait := every - time.Since(l.looked); wait > 0 {
		return wait
	}
	// What is said is looked at again in any case.
	if len(l.Lines()) == 0 {
		if wait := l.untilDue(ctx); wait > 0 {
			return wait
		}
	}
	if err := l.look(ctx); err != nil && ctx.Err() == nil {
		l.Log.Info("the settings of other daemons could not be looked at", "error", err)
	}
	l.looked = time.Now()
	return every
}

// untilDue is how long until the entry of the first strange claim ought to be there.
func (l *Lookout) untilDue(ctx context.Context) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.met) > 0 {
		first := l.met[0]
		if wait := delay - time.Since(first.at); wait > 0 {
			return wait
		}
		if l.strange(ctx, first.token) {
			return 0
		}
		l.met = l.met[1:]
	}
	return clock.UntilWoken
}

// look asks the mesh log for grants under other settings.
func (l *Lookout) look(ctx context.Context) error {
	here, began := l.Settings, time.Now()
	found, err := l.Mesh.OtherGrants(ctx, l.Clock.Now().Add(-Since), here)
	if err != nil {
		return err
	}
	agents := make(map[claim.Settings][]string)
	for _, g := range found {
		ours, err := l.Journal.Recorded(ctx, g.EntryID)
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
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range lines {
		if !slices.Contains(l.said, line) {
			l.Log.Warn("another daemon on this board has other settings", "what", line)
		}
	}
	l.said = lines
	l.met = slices.DeleteFunc(l.met, func(m meeting) bool { return began.Sub(m.at) >= delay })
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
