package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/alive"
	"dibs/internal/claim"
	"dibs/internal/reserve"
)

// shelf is what the members of a cluster see, in memory.
type shelf struct {
	mu      sync.Mutex
	things  map[string][]byte
	until   map[string]time.Time
	at, put int64 // the latest revision, and that of the latest Put
	puts    int
	changed chan struct{}
	away    bool
}

var errAway = errors.New("away")

func newShelf() *shelf {
	return &shelf{things: make(map[string][]byte), until: make(map[string]time.Time), changed: make(chan struct{})}
}

// change does something that all are told of.
func (s *shelf) change(do func() (put bool)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, until := range s.until {
		if !until.After(time.Now()) {
			delete(s.things, id)
			delete(s.until, id)
		}
	}
	if s.away {
		return errAway
	}
	s.at++
	if do() {
		s.put = s.at
		s.puts++
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

func (s *shelf) All(context.Context) (things map[string][]byte, at int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, 0, errAway
	}
	things = maps.Clone(s.things)
	maps.DeleteFunc(things, func(id string, _ []byte) bool { return !s.until[id].After(time.Now()) })
	return things, s.at, nil
}

func (s *shelf) Put(_ context.Context, id string, thing []byte, lasting time.Duration, at int64) (done bool, err error) {
	err = s.change(func() bool {
		if done = s.put <= at; done {
			s.things[id], s.until[id] = thing, time.Now().Add(lasting)
		}
		return done
	})
	return done, err
}

func (s *shelf) Delete(_ context.Context, id string) error {
	return s.change(func() bool { delete(s.things, id); delete(s.until, id); return false })
}

func (s *shelf) Await(ctx context.Context, since int64) error {
	for {
		s.mu.Lock()
		at, changed := s.at, s.changed
		next := 24 * time.Hour
		for _, until := range s.until {
			next = min(next, time.Until(until))
		}
		s.mu.Unlock()
		if at > since {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(max(next, time.Second)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *shelf) isAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// written is how often something was put.
func (s *shelf) written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts
}

// empty takes all off the shelf, as an etcd that lost its data.
func (s *shelf) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.things)
}

// member is a daemon in a cluster.
type member struct {
	*world
	end func()
}

func join(t *testing.T, s *shelf, name string) *member {
	m := &member{world: &world{
		t: t, path: filepath.Join(t.TempDir(), "journal.db"), claims: make(map[claim.ID]claim.Claim), dead: make(map[int]bool),
		cluster: &reserve.Cluster{Shelf: s, Member: "id of " + name, Name: name},
	}}
	m.run()
	return m
}

// run starts the daemon; end ends it, as kill -9 does.
func (m *member) run() {
	m.start()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	m.end = func() { cancel(); <-done }
	synctest.Wait()
}

func inCluster(t *testing.T, test func(s *shelf, a, b *member)) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		a, b := join(t, s, "north"), join(t, s, "south")
		test(s, a, b)
		a.end()
		b.end()
	})
}

// has are the reservations that a member knows of, as "agent patterns at member".
func (m *member) has() []string {
	synctest.Wait()
	out := []string{}
	for _, r := range m.List(m.t.Context(), "") {
		out = append(out, fmt.Sprintf("%s %s at %s", r.Agent, r.Says(), r.Member))
	}
	return out
}

func (m *member) wantHas(want ...string) {
	m.t.Helper()
	if got := m.has(); !slices.Equal(got, want) {
		m.t.Errorf("%s has %q, want %q", m.cluster.Name, got, want)
	}
}

// What is reserved at one member is in the way at the others, and can be given back there.
func TestReservedElsewhere(t *testing.T) {
	inCluster(t, func(s *shelf, a, b *member) {
		made := a.must("Sandman", reserve.Request{}, "name:db")
		_, err := b.reserve("Oracle", reserve.Request{}, "name:db")
		if b.holder(err) != "Sandman" || !strings.Contains(err.Error(), "by Sandman (at north)") {
			t.Errorf("at another member: %v", err)
		}
		synctest.Wait()
		if got := b.holder(b.Check(t.Context(), "Oracle", files("name:db"))); got != "Sandman" {
			t.Errorf("Oracle is kept from it by %q", got)
		}
		time.Sleep(time.Second)
		b.must("Sandman", reserve.Request{}, "name:db", "name:api") // the agent itself
		a.wantHas("Sandman name:db at north", "Sandman name:db, name:api at south")
		b.wantHas("Sandman name:db at north", "Sandman name:db, name:api at south")

		if _, err := b.Unreserve(t.Context(), made.ID, "Oracle"); err == nil {
			t.Error("Oracle has given back what is Sandman's")
		}
		if _, err := b.Unreserve(t.Context(), made.ID, "Sandman"); err != nil {
			t.Error(err)
		}
		b.wantHas("Sandman name:db, name:api at south")
		a.wantHas("Sandman name:db, name:api at south")
		if things, _, _ := s.All(t.Context()); len(things) != 1 {
			t.Errorf("%d things are on the shelf", len(things))
		}
		if _, err := b.Unreserve(t.Context(), made.ID, ""); err == nil {
			t.Error("it was given back twice")
		}
	})
}

// A file of a repository is the same one in all clones of it, and one outside of any is each
// machine's own; without a cluster clones are not told of each other.
func TestSameFileElsewhere(t *testing.T) {
	in := func(at ...reserve.Spot) []reserve.Target { return []reserve.Target{{Text: "src/a.go", At: at}} }
	file := func(folder string) reserve.Spot {
		return reserve.Spot{Place: reserve.Files, Path: folder + "/src/a.go"}
	}
	clone := func(folder, origin string) []reserve.Target {
		return in(file(folder), reserve.Spot{Place: folder + "/.git", Path: "/src/a.go"}, reserve.Spot{Place: reserve.OriginPrefix + origin, Path: "/src/a.go"})
	}
	inCluster(t, func(s *shelf, a, b *member) {
		if _, err := a.Reserve(t.Context(), reserve.Request{Agent: "Sandman", Targets: clone("/home/a/api", "example.org/api")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for name, tt := range map[string]struct {
			at   *member
			what []reserve.Target
			want string
		}{
			"the clone of another machine":             {b, clone("/src/api", "example.org/api"), "Sandman"},
			"at the same path":                         {b, clone("/home/a/api", "example.org/api"), "Sandman"},
			"another repository at the same path":      {b, clone("/home/a/api", "example.org/web"), ""},
			"another clone on the same machine":        {a, clone("/home/b/api", "example.org/api"), "Sandman"},
			"without a repository, at the same path":   {b, in(file("/home/a/api")), ""},
			"without a repository, on the one machine": {a, in(file("/home/a/api")), "Sandman"},
		} {
			if got := tt.at.holder(tt.at.Check(t.Context(), "Oracle", tt.what)); got != tt.want {
				t.Errorf("%s: %q has it, want %q", name, got, tt.want)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.Reserve(t.Context(), reserve.Request{Agent: "Sandman", Targets: clone("/home/a/api", "example.org/api")}); err != nil {
			t.Fatal(err)
		}
		if got := w.holder(w.Check(t.Context(), "Oracle", clone("/home/b/api", "example.org/api"))); got != "" {
			t.Errorf("without a cluster another clone is %q's", got)
		}
	})
}

// However many ask at once, at whatever member, one gets it.
func TestOneReserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		var members []*member
		for i := range 4 {
			members = append(members, join(t, s, fmt.Sprint("m", i)))
		}
		for round := range 3 {
			var mu sync.Mutex
			var won []string
			var all sync.WaitGroup
			for i := range 12 {
				all.Go(func() {
					agent := fmt.Sprint("agent-", i)
					_, err := members[i%4].reserve(agent, reserve.Request{}, fmt.Sprint("name:of its own ", i), fmt.Sprint("name:round ", round))
					if members[i%4].holder(err) == "" {
						mu.Lock()
						defer mu.Unlock()
						won = append(won, agent)
					}
				})
			}
			if all.Wait(); len(won) != 1 {
				t.Errorf("round %d: %q have it", round, won)
			}
		}
		for _, m := range members {
			if got := m.has(); len(got) != 3 {
				t.Errorf("%s knows of %q", m.cluster.Name, got)
			}
			m.end()
		}
	})
}

// What is bound to a claim or a process is free with it, at all members; if its own member is
// gone, with the lease of the claim, or some minutes later.
func TestEndsElsewhere(t *testing.T) {
	inCluster(t, func(s *shelf, a, b *member) {
		now := time.Now()
		held := claim.Claim{ID: claim.NewID(now), Agent: "Sandman", State: claim.Held, Lease: claim.Lease{ClaimedAt: now, StaleAt: now.Add(30 * time.Minute)}}
		a.mu.Lock()
		a.claims[held.ID] = held
		a.mu.Unlock()
		a.must("Sandman", reserve.Request{Claim: held.ID}, "name:claim")
		time.Sleep(time.Second)
		a.must("Sandman", reserve.Request{Process: alive.Process{ID: 7}}, "name:process")
		time.Sleep(time.Second)
		a.must("Sandman", reserve.Request{For: 2 * time.Hour}, "name:time")
		puts := s.written()
		time.Sleep(20 * time.Minute)
		b.wantHas("Sandman name:claim at north", "Sandman name:process at north", "Sandman name:time at north")
		if n := s.written() - puts; n > 4 {
			t.Errorf("%d things were put on the shelf in 20 minutes", n)
		}
		a.mu.Lock()
		held.StaleAt = time.Now().Add(30 * time.Minute) // renewed
		a.claims[held.ID] = held
		a.mu.Unlock()
		time.Sleep(15 * time.Minute)
		b.wantHas("Sandman name:claim at north", "Sandman name:process at north", "Sandman name:time at north")
		a.end()
		time.Sleep(11 * time.Minute)
		b.wantHas("Sandman name:claim at north", "Sandman name:time at north")
		time.Sleep(5 * time.Minute)
		b.wantHas("Sandman name:time at north")
		b.must("Oracle", reserve.Request{}, "name:process")

		// The member is back: what nobody has taken meanwhile it has again.
		a.claims[held.ID] = claim.Claim{ID: held.ID, Agent: "Sandman", State: claim.Held, Lease: claim.Lease{ClaimedAt: now, StaleAt: time.Now().Add(time.Hour)}}
		a.run()
		time.Sleep(3 * time.Second)
		a.wantHas("Sandman name:claim at north", "Sandman name:time at north", "Oracle name:process at south")
		b.wantHas("Sandman name:claim at north", "Sandman name:time at north", "Oracle name:process at south")
		a.mu.Lock()
		delete(a.claims, held.ID)
		a.mu.Unlock()
		time.Sleep(2 * time.Second)
		b.wantHas("Sandman name:time at north", "Oracle name:process at south")
	})
}

// Without the shelf nothing new is reserved, and what is known is answered; what ended
// meanwhile is told later. What a shelf has lost is put there again.
func TestShelfAway(t *testing.T) {
	inCluster(t, func(s *shelf, a, b *member) {
		made := a.must("Sandman", reserve.Request{}, "name:db")
		a.must("Sandman", reserve.Request{}, "name:api")
		b.wantHas("Sandman name:db at north", "Sandman name:api at north")
		s.isAway(true)
		if _, err := b.reserve("Oracle", reserve.Request{}, "name:other"); !errors.Is(err, errAway) {
			t.Errorf("reserved without a shelf: %v", err)
		}
		if got := b.holder(b.Check(t.Context(), "Oracle", files("name:db"))); got != "Sandman" {
			t.Errorf("Oracle is kept from it by %q", got)
		}
		if _, err := b.Unreserve(t.Context(), made.ID, "Sandman"); !errors.Is(err, errAway) {
			t.Errorf("given back elsewhere: %v", err)
		}
		if _, err := a.Unreserve(t.Context(), made.ID, "Sandman"); err != nil {
			t.Error(err)
		}
		a.wantHas("Sandman name:api at north")
		time.Sleep(time.Minute)
		s.isAway(false)
		time.Sleep(3 * time.Second)
		b.wantHas("Sandman name:api at north")
		b.must("Oracle", reserve.Request{}, "name:db")

		s.empty()
		time.Sleep(time.Second)
		a.end()
		a.run()
		b.end()
		b.run()
		time.Sleep(5 * time.Second)
		a.wantHas("Sandman name:api at north", "Oracle name:db at south")
		b.wantHas("Sandman name:api at north", "Oracle name:db at south")
	})
}
