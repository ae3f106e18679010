// Package foreign watches the board for claims of daemons that do not share this one's journal. It
// finds out whether they have other settings: all daemons on a board need the same, and publish
// theirs with every grant. It also notices when a claim is foreign only because the journal's
// database was restored to an older state ([Doubt]).
package foreign

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
	// delay is the time between the sight of a foreign claim and the query for its entry: the
	// entry has to be delivered, and queries lag.
	delay = 3 * time.Minute
	// every is the time between two queries of the mesh log.
	every = time.Hour
	// Since is the age of the oldest entries that are read. It is short, so that old settings
	// are forgotten soon after they were changed.
	Since = 2 * time.Hour
)

// Mesh is a mesh log that can be queried for grants.
type Mesh interface {
	// OtherGrants returns the newest grants since then with settings other than these.
	OtherGrants(ctx context.Context, since time.Time, than claim.Settings) ([]worklog.Grant, error)
}

// Journal knows what this daemon has logged. Its method is safe for concurrent use.
type Journal interface {
	// Recorded reports whether a log entry is this daemon's own.
	Recorded(ctx context.Context, entry string) (bool, error)
}

// Claims has the claims made by this daemon and those that share its journal. Its method is safe
// for concurrent use.
type Claims interface {
	// Find returns a claim that the journal knows, or claim.ErrUnknownClaim.
	Find(context.Context, claim.ID) (claim.Hold, error)
}

// Config configures a Lookout. All fields are required.
type Config struct {
	Mesh     Mesh
	Journal  Journal
	Claims   Claims
	Settings claim.Settings // of this daemon
	Clock    clock.Source
	Log      *slog.Logger
}

// Lookout finds out which daemons claim under other settings. It is safe for concurrent use.
type Lookout struct {
	Config
	loop  *clock.Loop
	asked time.Time // when the last query ended; used by the loop alone

	mu   sync.Mutex
	seen map[claim.ID]bool // the claims that See has examined, not older than Since
	met  []sighting        // foreign claims whose entries were not queried yet, oldest first
	said []string          // what Lines returns
}

// sighting is when a foreign claim was first seen.
type sighting struct {
	token claim.Token
	at    time.Time
}

// Claim is a claim that this daemon's journal does not know.
type Claim struct {
	Agent string
	Ago   time.Duration // since it was made
}

// New returns a Lookout that has seen nothing yet.
func New(c Config) *Lookout {
	l := &Lookout{Config: c, seen: make(map[claim.ID]bool)}
	l.loop = clock.NewLoop(0, l.turn)
	return l
}

// Lines describes the daemons with other settings, in a line for each kind of settings.
func (l *Lookout) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.said)
}

// See examines the claims on the tasks of the board. Call it when there may be new ones. It
// returns the foreign claims that it has not seen before.
func (l *Lookout) See(ctx context.Context, tasks iter.Seq[task.Task]) (met []Claim) {
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
		if l.isForeign(ctx, token) {
			l.met = append(l.met, sighting{token, time.Now()})
			made, _ := token.ID.Minted()
			met = append(met, Claim{cmp.Or(token.By, t.ClaimedBy), l.Clock.Now().Sub(made)})
		}
	}
	if len(l.met) > 0 {
		l.loop.Wake()
	}
	return met
}

// isForeign reports whether the journal does not know a claim.
func (l *Lookout) isForeign(ctx context.Context, t claim.Token) bool {
	_, err := l.Claims.Find(ctx, t.ID)
	return errors.Is(err, claim.ErrUnknownClaim)
}

// Run checks the settings of other daemons until ctx ends. Without foreign claims it sends no
// requests.
func (l *Lookout) Run(ctx context.Context) { l.loop.Run(ctx) }

// turn queries if it is time to, and returns when it may be again.
func (l *Lookout) turn(ctx context.Context) time.Duration {
	if wait := every - time.Since(l.asked); wait > 0 {
		return wait
	}
	// Known differences are always checked again.
	if len(l.Lines()) == 0 {
		if wait := l.untilDue(ctx); wait > 0 {
			return wait
		}
	}
	if err := l.query(ctx); err != nil && ctx.Err() == nil {
		l.Log.Info("the settings of other daemons could not be read", claim.AttrError, err)
	}
	l.asked = time.Now()
	return every
}

// untilDue is how long until the entry of the first foreign claim should be in the mesh log.
func (l *Lookout) untilDue(ctx context.Context) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.met) > 0 {
		first := l.met[0]
		if wait := delay - time.Since(first.at); wait > 0 {
			return wait
		}
		if l.isForeign(ctx, first.token) {
			return 0
		}
		l.met = l.met[1:]
	}
	return clock.UntilWoken
}

// query asks the mesh log for grants under other settings.
func (l *Lookout) query(ctx context.Context) error {
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
		// This daemon's own grants are from before its settings were changed.
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
	l.met = slices.DeleteFunc(l.met, func(m sighting) bool { return began.Sub(m.at) >= delay })
	return nil
}

// whose names a daemon by its agents.
func whose(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("the daemon of %s and %d more", strings.Join(names[:most], ", "), more)
	}
	return "the daemon of " + strings.Join(names, ", ")
}
