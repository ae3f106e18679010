package daemon_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"

	"github.com/oklog/ulid/v2"
	mathrand "math/rand"
)

// visibility is how long a trigger in a mesh may stay unacknowledged.
const visibility = 4 * time.Minute

// gcEvery is how often garbage is collected: at moments at which nothing else happens, for a
// collection lets goroutines change places.
const gcEvery = 4*time.Minute + 4321*time.Nanosecond

// climate is what a mesh is like. Its seed draws it.
type climate struct {
	daemons, agents, cards int
	length                 time.Duration // of the troubles
	lease, lifetime        time.Duration
	interval               time.Duration
	attempts               int
	openOnly               bool
	rate                   float64
	limit                  int
	// late says that claim writes may land long after they were given up. Then nothing keeps
	// the holders from repairing their claims in time, as the protocol asks for: there are no
	// outages, and an heir comes soon.
	late bool
	// busy says that people do more than see to it that there is work.
	busy bool
	// calm is about how long nothing befalls a daemon; zero for ever.
	calm time.Duration
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

func drawClimate(r *rand.Rand) climate {
	c := climate{
		daemons: 1 + r.IntN(3), agents: 3 + r.IntN(6), cards: 4 + r.IntN(7),
		length:   20*time.Minute + upTo(r, 40*time.Minute),
		lease:    one(r, 2*time.Minute, 5*time.Minute, 30*time.Minute),
		lifetime: one(r, 0, 24*time.Hour, time.Hour),
		interval: one(r, 15*time.Second, 15*time.Second, 30*time.Second),
		attempts: one(r, 0, 0, 3),
		openOnly: r.IntN(4) == 0, late: r.IntN(2) == 0, busy: r.IntN(3) > 0, rate: 3,
		calm: one(r, 0, 5*time.Minute, 10*time.Minute),
	}
	if r.IntN(4) == 0 {
		c.limit, c.rate = 180, 1
	}
	return c
}

// mesh is a board, the daemons on it, their agents, and people, in one virtual world.
type mesh struct {
	*world
	climate
	seed  uint64
	dir   string
	trace *trace
	book  *book
	lines []*dynasty
	crew  []*hand
	carry func(*dynasty, http.RoundTripper) http.RoundTripper
	over  atomic.Bool    // the troubles are
	ghost sync.WaitGroup // the goroutines of killed daemons
	parts sync.WaitGroup

	counted sync.Mutex
	counts  map[string]int
}

// meshOptions are what a run is made of beside its seed.
type meshOptions struct {
	mutant mutant
	carry  func(*dynasty, http.RoundTripper) http.RoundTripper
}

// outcome is what a run came to.
type outcome struct {
	seed      uint64
	wrong     []string
	simulated time.Duration
	trace     *trace
	counts    map[string]int
}

// runMesh runs the mesh of a seed. No other test may run meanwhile: the randomness of the whole
// process is the seed's.
func runMesh(t *testing.T, seed uint64, o meshOptions) (out outcome) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	cryptotest.SetGlobalRandom(t, seed)
	ulid.DefaultEntropy().(*ulid.LockedMonotonicReader).MonotonicReader = ulid.Monotonic(mathrand.New(mathrand.NewSource(int64(seed))), 0)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		draw := rand.New(rand.NewPCG(seed, 0))
		m := &mesh{
			climate: drawClimate(draw), seed: seed, dir: dir, carry: o.carry,
			trace: &trace{began: time.Now()}, book: newBook(), counts: make(map[string]int),
		}
		if m.carry == nil {
			m.carry = func(_ *dynasty, next http.RoundTripper) http.RoundTripper { return next }
		}
		notion, err := emulator.New(emulator.Options{Limit: m.limit})
		if err != nil {
			t.Fatal(err)
		}
		defer notion.Close()
		dbs, err := notion.Seed("empty")
		if err != nil {
			t.Fatal(err)
		}
		m.world = &world{T: t, notion: notion, tasks: dbs.Tasks}
		defer m.ghost.Wait()
		defer m.stop()
		m.trace.add("seed", "%d: %+v", seed, m.climate)
		m.run(draw, o.mutant)
		out = outcome{seed, m.book.wrong, time.Since(m.trace.began), m.trace, m.counts}
	})
	return out
}

// run lets everything happen, and then looks at what came of it.
func (m *mesh) run(draw *rand.Rand, mu mutant) {
	m.notion.SetLatency(func(r *http.Request) (before, after time.Duration) {
		x := chance(m.seed, "latency", r.Host, r.Method, r.URL.Path, r.ContentLength)
		return time.Duration(x % uint64(200*time.Millisecond)), time.Duration(x >> 32 % uint64(200*time.Millisecond))
	})
	for i := range m.cards {
		m.newTask(fmt.Sprint("Task ", i+1), nil)
	}
	for i := range m.daemons {
		l := &dynasty{mesh: m, number: i + 1, random: m.stream(100 + i), mutant: mu}
		m.lines = append(m.lines, l)
		time.Sleep(upTo(draw, 3*time.Second))
		l.start(nil)
	}
	for i := range m.climate.agents {
		m.crew = append(m.crew, newHand(m, i, m.lines[i%len(m.lines)]))
	}
	var misfortunes sync.WaitGroup
	for _, l := range m.lines {
		if m.calm > 0 {
			misfortunes.Go(l.misfortune)
		}
	}
	misfortunes.Go((&weather{m, m.stream(20)}).work)
	misfortunes.Go((&meshPeople{mesh: m, random: m.stream(30)}).work)
	misfortunes.Go((&meshPeople{mesh: m, random: m.stream(31)}).lead)
	lifted := m.strew()
	for _, h := range m.crew {
		m.parts.Go(h.work)
	}
	for range m.length / gcEvery {
		time.Sleep(gcEvery)
		runtime.GC()
	}
	m.over.Store(true)
	lifted()
	m.trace.add("seed", "the troubles end")
	misfortunes.Wait()
	m.parts.Wait()
	m.judge()
}

// stream is the randomness of one of those who take part.
func (m *mesh) stream(number int) *rand.Rand { return rand.New(rand.NewPCG(m.seed, uint64(number))) }

// pause sleeps for at least that long, and reports whether the troubles go on.
func (m *mesh) pause(r *rand.Rand, least, most time.Duration) bool {
	time.Sleep(least + upTo(r, most-least))
	return !m.over.Load()
}

// newTask puts a task on the board.
func (m *mesh) newTask(title string, props map[string]any) string {
	id := m.add(title, props)
	m.book.named(id, title)
	m.trace.add("people", "add %q", title)
	return id
}

// count counts what happened.
func (m *mesh) count(what string) {
	m.counted.Lock()
	defer m.counted.Unlock()
	m.counts[what]++
}
