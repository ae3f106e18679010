package daemon_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"dibs/config"
	"dibs/internal/api/client"
	"dibs/internal/daemon"
)

// dynasty is a journal, and the daemons that work on it one after the other: each is the heir of
// the one before, on a machine of its own.
type dynasty struct {
	*mesh
	number int
	random *rand.Rand
	mutant mutant

	mu   sync.Mutex
	r    *reaper // of the last daemon
	up   bool
	gen  int
	died chan struct{} // closed when the daemon is killed
}

func (l *dynasty) name() string { return fmt.Sprint("d", l.number) }

// options are the settings of the next daemon. All of a mesh agree on what the protocol asks
// them to agree on.
func (l *dynasty) options() daemon.Options {
	o := l.world.options(func(c *config.Config) {
		c.Notion.BaseURL = fmt.Sprintf("https://d%d.test", l.number)
		c.Notion.Rate, c.Notion.Burst = l.rate, 10
		c.Sync.Interval, c.Sync.KeepFinished = l.interval, 30*time.Minute
		c.Claim.Timeout, c.Claim.MaxLifetime, c.Claim.MaxAttempts = l.lease, l.lifetime, l.attempts
		c.Inbox.Offer, c.Inbox.Visibility = 10*time.Minute, visibility
		if l.openOnly && l.number%2 == 0 {
			c.Claim.Override = config.OverrideOpenOnly
		}
		// The jobs of two daemons do not begin at the same moment.
		c.Schedule.Sweep = fmt.Sprintf("@every %ds", 61+7*l.number)
		c.Schedule.FullSync = fmt.Sprintf("@every %ds", 1801+13*l.number)
	})
	o.Config.StateDir = filepath.Join(l.dir, fmt.Sprintf("d%d-%d", l.number, l.gen))
	o.Transport = l.carry(l, wire{l.name(), l.notion, l.trace})
	o.Log = slog.New(slog.DiscardHandler)
	return o
}

// door is a client of the daemon that runs; nil if there is none.
func (l *dynasty) door() *client.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up {
		return nil
	}
	return l.r.n.Client
}

// start starts a daemon on what is left of the one before, nil for nothing. It comes when
// Notion lets it.
func (l *dynasty) start(left map[string][]byte) {
	for {
		l.gen++
		r := l.newReaper(l.options(), 0, l.mutant)
		died := make(chan struct{})
		r.passed = func(kind string, dead bool) {
			l.trace.add(l.name(), "%s", kind)
			if dead {
				close(died)
			}
		}
		r.arm()
		if l.gen == 1 {
			r.sql(l.mutant.does)
		} else {
			r.leave(left)
			r.sql(l.mutant.comes)
		}
		n, err := l.begin(r.o)
		if err == nil {
			l.trace.add(l.name(), "begins, as number %d", l.gen)
			r.n = n
			l.mu.Lock()
			l.r, l.up, l.died = r, true, died
			l.mu.Unlock()
			return
		}
		l.trace.add(l.name(), "cannot begin: %v", err)
		l.count("starts that failed")
		left = r.files()
		time.Sleep(time.Second + upTo(l.random, 5*time.Second))
	}
}

// gone notes that the daemon does not answer any more, and returns what is left of it.
func (l *dynasty) gone(how string) {
	l.trace.add(l.name(), "%s", how)
	l.count(how)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = false
}

// killed buries the daemon after kill -9.
func (l *dynasty) killed() map[string][]byte {
	dead, left := l.r.remains()
	l.gone("killed " + dead)
	ghost := l.r.n
	l.ghost.Go(ghost.stop) // its goroutines are still there, and nobody hears them
	return left
}

// stopped ends the daemon in an orderly way.
func (l *dynasty) stopped() map[string][]byte {
	l.gone("stopped")
	l.r.n.stop()
	return l.r.files()
}

// misfortune has the daemon be killed and stopped, and others take over, until all is over.
func (l *dynasty) misfortune() {
	for l.pause(l.random, l.calm/2, 2*l.calm) {
		from := time.Now()
		var left map[string][]byte
		switch draw := l.random.IntN(10); {
		case draw < 3:
			l.r.strike()
			left = l.killed()
		case draw < 8:
			// How many commits there are at one moment is for the scheduler to say: they are
			// made together. So it is the first one after a moment, or the n-th answer.
			if kind := one(l.random, commit, commit, answer, half, answered); kind == commit {
				l.r.within(1, kind)
			} else {
				l.r.within(1+l.random.IntN(5), kind)
			}
			select {
			case <-l.died:
				left = l.killed()
			case <-time.After(2 * time.Minute):
				l.r.strike()
				left = l.killed()
			}
			from = time.Now()
		default:
			left = l.stopped()
		}
		brief := 5 * time.Second
		if !l.late {
			brief = 4 * time.Minute
		}
		time.Sleep(upTo(l.random, brief))
		l.start(left)
		l.book.wasAway(l.number, from)
	}
}

// journal is the directory of the last journal.
func (l *dynasty) journal() string { return l.r.path() }

// held are what the daemon says it holds.
func (l *dynasty) unquiet() []string {
	c := l.door()
	status, err := c.Status(l.Context())
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	if status.Outbox.Depth > 0 {
		left = append(left, fmt.Sprintf("%s owes %s: %s", l.name(), status.Outbox.Owed(), status.Outbox.LastError))
	}
	claims, err := c.Claims(l.Context(), "")
	if err != nil {
		return []string{err.Error()}
	}
	for _, held := range claims.Claims {
		left = append(left, fmt.Sprintf("%s has claim %s of %s on %s, which is %s", l.name(), held.ID, held.Agent, held.Task.Title, held.State))
	}
	return left
}
