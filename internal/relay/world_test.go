package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitersim"
	"dibs/internal/claim"
	"dibs/internal/clock"
	"dibs/internal/mirror"
	"dibs/internal/relay"
	"dibs/internal/task"
)

const interval = 15 * time.Second

// board is a tasks database: its pages show every edit at once, and its queries, which take a
// while, as it was some time before.
type board struct {
	mu      sync.Mutex
	lag     time.Duration
	took    time.Duration
	down    bool
	history map[task.ID][]version
	asked   map[string]int // by member and kind of request
}

type version struct {
	at time.Time
	task.Task
}

func newBoard() *board {
	return &board{took: 200 * time.Millisecond, history: make(map[task.ID][]version), asked: make(map[string]int)}
}

// id is that of the task of a number.
func id(n int) task.ID { return task.ID(fmt.Sprintf("%08d-0000-0000-0000-000000000000", n)) }

// slow has queries show the board as it was that long ago.
func (b *board) slow(lag time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag = lag
}

// edit has a page show t. Notion keeps the time to the minute.
func (b *board) edit(t task.Task) task.Task {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.Edited = time.Now().UTC().Truncate(time.Minute)
	b.history[t.ID] = append(b.history[t.ID], version{time.Now(), t})
	return t
}

// page is what a page shows.
func (b *board) page(id task.ID) task.Task {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.history[id][len(b.history[id])-1].Task
}

// seen returns the tasks that queries show which are not in the trash.
func (b *board) seen() (tasks []task.Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, versions := range b.history {
		for _, v := range slices.Backward(versions) {
			if v.at.After(time.Now().Add(-b.lag)) {
				continue
			}
			if !v.Trashed {
				tasks = append(tasks, v.Task)
			}
			break
		}
	}
	return tasks
}

func (b *board) count(member, kind string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[kind]++
	b.asked[member+" "+kind]++
	if b.down {
		return claim.Errorf(claim.Unavailable, claim.LandedNo, "Notion is down")
	}
	return nil
}

// requests returns how many requests of a kind there were since it was called last.
func (b *board) requests() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := b.asked
	b.asked = make(map[string]int)
	return asked
}

// source is the board as a member sees it, whose clock is wrong by that much.
type source struct {
	*board
	member string
	ahead  time.Duration
	broken func() error
	down   func() bool
}

func (s source) count(kind string) error {
	err := s.board.count(s.member, kind)
	if s.down() {
		return claim.Errorf(claim.Unavailable, claim.LandedNo, "there is no way to Notion")
	}
	return err
}

func (s source) List(_ context.Context, _ time.Time, read func(int)) ([]task.Task, error) {
	err := s.count("list")
	rows := s.seen()
	time.Sleep(s.took)
	read(len(rows))
	return rows, err
}

func (s source) EditedSince(_ context.Context, t time.Time) ([]task.Task, error) {
	err := s.count("query")
	time.Sleep(s.took / 2)
	rows := slices.DeleteFunc(s.seen(), func(r task.Task) bool {
		return r.Edited.Before(t) && (r.Status != task.InProgress || r.Token == "")
	})
	time.Sleep(s.took / 2)
	return rows, err
}

func (s source) Get(_ context.Context, id task.ID) (claim.Reading, error) {
	if err := s.count("page"); err != nil {
		return claim.Reading{}, err
	}
	t := s.page(id)
	if t.Trashed {
		return claim.Reading{}, claim.Errorf(claim.NotFound, claim.LandedNo, "there is no page %s", id)
	}
	return claim.Reading{Task: t, At: time.Now()}, nil
}

func (s source) Now() time.Time              { return time.Now().Add(s.ahead) }
func (s source) Check(context.Context) error { return s.count("check") }
func (s source) Broken() error               { return s.broken() }
func (s source) Known() string               { return "" }
func (s source) Paused() error               { return nil }

func (s source) Patient(ctx context.Context, _ time.Duration) context.Context { return ctx }
func (s source) Impatient(ctx context.Context) context.Context                { return ctx }

// storage keeps nothing.
type storage struct{}

func (storage) Tasks(context.Context) ([]task.Task, error)    { return nil, nil }
func (storage) PutTasks(context.Context, []task.Task) error   { return nil }
func (storage) DeleteTasks(context.Context, []task.ID) error  { return nil }
func (storage) Meta(context.Context, string) (string, error)  { return "", nil }
func (storage) SetMeta(context.Context, string, string) error { return nil }

// member is a daemon, as far as it reads the board.
type member struct {
	*mirror.Mirror
	name     string
	way      *arbitersim.Way
	election *arbiter.Election
	relay    *relay.Relay
	source   source

	mu       sync.Mutex
	settings string
	schema   string
	broken   error
	told     []string // of changes, by title and status
	slept    time.Duration
	overdue  int
	down     bool // it does not reach Notion
	kill     context.CancelFunc
	over     sync.WaitGroup
}

// late is how often something was overdue to m.
func (m *member) late() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.overdue
}

// changes are those that m was told of, in no order.
func (m *member) changes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.told))
}

// world is some members.
type world struct {
	*testing.T
	board   *board
	room    *arbitersim.Room
	most    int // bytes of a publication; 0 for as many as etcd takes
	members []*member
}

func newWorld(t *testing.T) *world {
	return &world{T: t, board: newBoard(), room: arbitersim.NewRoom()}
}

// start starts a member.
func (w *world) start(ahead time.Duration) *member {
	w.Helper()
	m := &member{name: fmt.Sprint("m", len(w.members)), settings: "the same", schema: "the same"}
	m.way = w.room.Way(m.name)
	m.source = source{w.board, m.name, ahead, func() error { m.mu.Lock(); defer m.mu.Unlock(); return m.broken }, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.down }}
	log := slog.New(slog.NewTextHandler(w.Output(), nil)).With("member", m.name)
	var err error
	m.Mirror, err = mirror.New(w.Context(), mirror.Config{
		Source: m.source, Storage: storage{}, Keep: 24 * time.Hour, Interval: interval,
		OnChange: func([]task.ID) {}, Log: log,
		Follows: func() bool { return m.relay.Follows() },
		Read:    func(ctx context.Context, r mirror.Result) { m.relay.Read(ctx, r) },
		Synced: func(_ context.Context, r mirror.Result) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, t := range r.Changed {
				m.told = append(m.told, fmt.Sprint(t.Title, " ", t.Status))
			}
			return nil
		},
		Overdue: func(context.Context) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.overdue++
		},
		Unsynced: func(ctx context.Context, _ bool) { m.relay.Unread(ctx) },
	})
	if err != nil {
		w.Fatal(err)
	}
	m.relay = relay.New(relay.Config{
		Mirror: m.Mirror, Wire: m.way, Term: func() int64 { return m.election.Term() },
		Settings: func() string { m.mu.Lock(); defer m.mu.Unlock(); return m.settings },
		Schema:   func() (string, bool) { m.mu.Lock(); defer m.mu.Unlock(); return m.schema, m.broken != nil },
		Check:    m.source.Check, Now: m.source.Now, Most: w.most, Log: log,
	})
	begun := time.Now()
	m.election = arbiter.NewElection(arbiter.ElectionConfig{
		Seat: m.way, Member: m.name, Able: m.Listed, Changed: func(int64) { m.relay.Elected() }, Log: log,
		Clocks: func() clock.Instant {
			m.mu.Lock()
			defer m.mu.Unlock()
			here := clock.Local(begun)
			here.Wall = here.Wall.Add(m.slept)
			return here
		},
	})
	if err := m.relay.Begin(w.Context()); err != nil {
		w.Log(err)
	}
	if err := m.Begin(w.Context()); err != nil {
		w.Log(err)
	}
	ctx, kill := context.WithCancel(w.Context())
	m.kill = kill
	for _, loop := range []func(context.Context){m.Mirror.Run, m.relay.Run, m.election.Run} {
		m.over.Go(func() { loop(ctx) })
	}
	w.members = append(w.members, m)
	return m
}

// end ends all members.
func (w *world) end() {
	for _, m := range w.members {
		m.way.Cut(true)
		m.kill()
		m.over.Wait()
		if err := m.Close(); err != nil && !errors.Is(err, context.Canceled) {
			w.Error(err)
		}
	}
}

// leader is the member that leads; nil if none or several do.
func (w *world) leader() *member {
	var leads []*member
	for _, m := range w.members {
		if m.election.Leads() {
			leads = append(leads, m)
		}
	}
	if len(leads) > 1 {
		w.Errorf("%d members lead", len(leads))
	}
	if len(leads) != 1 {
		return nil
	}
	return leads[0]
}

// wrong says what members have other than the board; those that are dead do not count.
func (w *world) wrong(dead ...*member) (wrong []string) {
	for _, m := range w.members {
		if slices.Contains(dead, m) {
			continue
		}
		for id := range w.board.history {
			want := w.board.page(id)
			switch got, ok := m.Task(id); {
			case want.Trashed && ok && !got.Trashed:
				wrong = append(wrong, fmt.Sprintf("%s has %s, which is in the trash", m.name, got.Title))
			case !want.Trashed && (got.Title != want.Title || got.Status != want.Status || got.Token != want.Token):
				wrong = append(wrong, fmt.Sprintf("%s has %q %s %q, want %q %s %q", m.name, got.Title, got.Status, got.Token, want.Title, want.Status, want.Token))
			}
		}
	}
	return wrong
}
