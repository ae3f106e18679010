package chaos_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
	"time"

	"dibs/internal/notion/emulator"
)

// misfortune causes a daemon's troubles.
type misfortune struct {
	*chaos
	random *rand.Rand
	daemon *process
	// standing is locked while a daemon stands still for long: one at a time.
	standing *sync.Mutex
}

func (m *misfortune) between(least, most time.Duration) time.Duration {
	return least + time.Duration(m.random.Int64N(int64(most-least)))
}

// work causes troubles until ctx ends. Then the daemon runs.
func (m *misfortune) work(ctx context.Context) {
	for sleep(ctx, m.between(m.calm, 3*m.calm)) {
		from := m.now()
		switch n := m.random.IntN(10); {
		case n < 3:
			m.count("kills")
			m.daemon.kill()
			sleep(ctx, m.between(0, m.brief))
			m.daemon.start()
		case n < 4:
			m.count("orderly stops")
			m.daemon.end(syscall.SIGTERM)
			m.daemon.start()
		case n < 6:
			m.stop(ctx)
		case n < 7 && canBendClocks:
			m.count("frozen clocks")
			m.daemon.stop(ctx, m.between(3*time.Second, 5*time.Second), true)
		case n < 9 && canBendClocks:
			m.count("clock jumps")
			by := []time.Duration{2 * time.Second, 20 * time.Second, 3 * time.Minute, 2 * time.Hour, 48 * time.Hour}[m.random.IntN(5)]
			if m.random.IntN(2) == 0 {
				by = -by
			}
			if err := m.daemon.jump(by, 0); err != nil {
				m.Error(err)
			}
		default:
			m.count("partitions")
			heal := m.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Match: m.from(m.daemon)})
			sleep(ctx, m.between(0, m.brief))
			heal()
		}
		m.wasAway(m.daemon.number, from)
	}
}

// stop makes the daemon stand still: for longer than its write window and, in some seasons, than
// its leases.
func (m *misfortune) stop(ctx context.Context) {
	if m.long > 0 && m.standing.TryLock() {
		defer m.standing.Unlock()
		m.count("stops longer than a lease")
		m.daemon.stop(ctx, m.between(m.long, 2*m.long), false)
		return
	}
	m.count("stops")
	m.daemon.stop(ctx, m.between(m.window/2, m.brief), false)
}

// from matches the requests of a daemon.
func (c *chaos) from(p *process) func(*http.Request, []byte) bool {
	return func(r *http.Request, _ []byte) bool { return r.Host == p.host }
}

// storms are the faults of Notion as a whole.
var storms = []emulator.Fault{
	{Kind: emulator.Delay, Delay: 300 * time.Millisecond},
	{Kind: emulator.DelayAnswer, Delay: time.Second},
	{Kind: emulator.SavedBut503}, {Kind: emulator.DropAnswer}, {Kind: emulator.DropRequest},
	// For PATCH only: a log entry that Notion reports as made and did not make is lost.
	{Kind: emulator.NotApplied, Method: http.MethodPatch},
	{Kind: emulator.Conflict409}, {Kind: emulator.Conflict409Saved}, {Kind: emulator.Error500}, {Kind: emulator.HTML502},
	{Kind: emulator.Error503}, {Kind: emulator.Error504},
	{Kind: emulator.RateLimited429, RetryAfter: time.Second}, {Kind: emulator.Overload529, RetryAfter: time.Second},
	{Kind: emulator.StaleQuery, Delay: 4 * time.Second}, {Kind: emulator.StaleQuery, Delay: 8 * time.Second},
	// Once only: two answers in a row with the same wrong date would be believed.
	{Kind: emulator.WrongDate, Off: time.Hour, Times: 1}, {Kind: emulator.WrongDate, Off: -time.Hour, Times: 1},
	{Kind: emulator.WrongDate, Off: 20 * time.Second, Times: 1}, {Kind: emulator.WrongDate, Off: 10 * 365 * 24 * time.Hour, Times: 1},
	{Kind: emulator.NoDate},
}

// weather causes Notion's troubles.
type weather struct {
	*chaos
	random *rand.Rand
}

func (w *weather) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d)))
}

// work lets Notion fail now and then, until ctx ends.
func (w *weather) work(ctx context.Context) {
	for sleep(ctx, w.upTo(2*w.calm)) {
		var f emulator.Fault
		switch n := w.random.IntN(20); {
		case n < 1:
			w.count("outages")
			f = emulator.Fault{Kind: []emulator.FaultKind{emulator.DropRequest, emulator.Error503, emulator.HTML502}[w.random.IntN(3)]}
			from, end := w.now(), w.notion.Inject(f)
			sleep(ctx, w.upTo(w.brief+w.long))
			end()
			w.wasAway(0, from)
			continue
		default:
			f = storms[w.random.IntN(len(storms))]
			if f.Times == 0 {
				f.Times = 1 + w.random.IntN(6)
			}
		}
		w.count("faults: " + string(f.Kind))
		end := w.notion.Inject(f)
		sleep(ctx, w.upTo(w.brief))
		end()
	}
}
