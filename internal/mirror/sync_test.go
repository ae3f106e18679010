package mirror_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/mirror"
	"dibs/internal/task"

	gocmp "github.com/google/go-cmp/cmp"
)

const id task.ID = "11111111-1111-1111-1111-111111111111"

// board is a tasks database whose pages show every edit at once, and whose
// queries show it as it was some time ago.
type board struct {
	lag      time.Duration
	versions []version // the oldest first
	reads    int       // of pages
}

type version struct {
	at time.Time
	task.Task
}

// edit makes a page show t, as of now. Notion keeps the time to the minute.
func (b *board) edit(t task.Task) task.Task {
	t.Edited = time.Now().UTC().Truncate(time.Minute)
	b.versions = append(b.versions, version{time.Now(), t})
	return t
}

// seen returns the tasks as queries show them.
func (b *board) seen() (tasks []task.Task) {
	at := make(map[task.ID]int)
	for _, v := range b.versions {
		i, known := at[v.ID]
		switch {
		case v.at.After(time.Now().Add(-b.lag)):
		case known:
			tasks[i] = v.Task
		default:
			at[v.ID] = len(tasks)
			tasks = append(tasks, v.Task)
		}
	}
	return tasks
}

func (b *board) List(context.Context, time.Time, func(int)) ([]task.Task, error) {
	return b.seen(), nil
}

func (b *board) EditedSince(_ context.Context, t time.Time) ([]task.Task, error) {
	return slices.DeleteFunc(b.seen(), func(s task.Task) bool { return s.Edited.Before(t) }), nil
}

func (b *board) Get(_ context.Context, id task.ID) (claim.Reading, error) {
	b.reads++
	for _, v := range slices.Backward(b.versions) {
		if v.ID == id {
			return claim.Reading{Task: v.Task, At: time.Now()}, nil
		}
	}
	return claim.Reading{}, claim.Errorf(claim.NotFound, claim.LandedNo, "there is no page %s", id)
}

func (b *board) Now() time.Time { return time.Now() }

// Nothing is ever wrong with its schema, and there are no pauses.
func (b *board) Check(context.Context) error { return nil }
func (b *board) Broken() error               { return nil }
func (b *board) Known() string               { return "" }
func (b *board) Paused() error               { return nil }
func (b *board) Room() (bool, time.Duration) { return true, 3 * time.Second }

// Its tasks show titles if a test says so.
func (b *board) Titled(t task.Task) task.Task                       { return t }
func (b *board) Untitled(task.Task) []task.ID                       { return nil }
func (b *board) PageTitle(context.Context, task.ID) (string, error) { return "", nil }
func (b *board) SetTitle(task.ID, string, error) bool               { return false }
func (b *board) RecallTitles([]task.Task)                           {}

func (b *board) Patient(ctx context.Context, _ time.Duration) context.Context { return ctx }
func (b *board) Impatient(ctx context.Context) context.Context                { return ctx }
func (b *board) Background(ctx context.Context) context.Context               { return ctx }

// storage keeps nothing: no test here restarts.
type storage struct{}

func (storage) Tasks(context.Context) ([]task.Task, error)    { return nil, nil }
func (storage) PutTasks(context.Context, []task.Task) error   { return nil }
func (storage) DeleteTasks(context.Context, []task.ID) error  { return nil }
func (storage) Meta(context.Context, string) (string, error)  { return "", nil }
func (storage) SetMeta(context.Context, string, string) error { return nil }

// mirrorOf returns a mirror of a source, with what change sets.
func mirrorOf(t testing.TB, source mirror.Source, change func(*mirror.Config)) *mirror.Mirror {
	t.Helper()
	c := mirror.Config{Source: source, Storage: storage{}, Keep: time.Hour, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if change != nil {
		change(&c)
	}
	m, err := mirror.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newMirror returns a mirror that has read the whole board.
func newMirror(t *testing.T, b *board) *mirror.Mirror {
	t.Helper()
	m := mirrorOf(t, b, nil)
	pull(t, m)
	return m
}

// pull brings the mirror up to date, and returns the titles that changed.
func pull(t *testing.T, m *mirror.Mirror) (titles []string) {
	t.Helper()
	result, err := m.RunOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range result.Changed {
		titles = append(titles, c.Title)
	}
	return titles
}

// title is what the mirror has for a title.
func title(m *mirror.Mirror) string {
	known, _ := m.Task(id)
	return known.Title
}

// TestLaggingQuery has queries that are behind: whatever the moment of an edit
// and that of the syncs around it, the edit is seen as soon as a query shows it,
// and once.
func TestLaggingQuery(t *testing.T) {
	const interval = 30 * time.Second
	for _, lag := range []time.Duration{0, 45 * time.Second, 2 * time.Minute} {
		for _, second := range []time.Duration{0, 1, 30, 59} { // of the minute, of the edit
			for _, offset := range []time.Duration{0, 1, 29} { // of the syncs
				synctest.Test(t, func(t *testing.T) {
					b := &board{lag: lag}
					b.edit(task.Task{ID: id, Title: "before", Status: task.Open})
					time.Sleep(10*time.Minute + offset*time.Second)
					m := newMirror(t, b)
					due := time.Now().Truncate(time.Minute).Add(3*time.Minute + second*time.Second)
					var changes []string
					for range 20 {
						next := time.Now().Add(interval)
						if wait := time.Until(due); wait >= 0 && wait < interval {
							time.Sleep(wait)
							b.edit(task.Task{ID: id, Title: "after", Status: task.Open})
						}
						time.Sleep(time.Until(next))
						changes = append(changes, pull(t, m)...)
					}
					if title(m) != "after" || !slices.Equal(changes, []string{"after"}) {
						t.Errorf("queries %v behind, edited in second %d, synced in second %d: the mirror has %q, and the changes were %q", lag, second, offset, title(m), changes)
					}
				})
			}
		}
	}
}

// TestTwoEditsInAMinute has a sync between two edits of one minute, which Notion
// dates alike.
func TestTwoEditsInAMinute(t *testing.T) {
	for name, lag := range map[string]time.Duration{"queries up to date": 0, "queries a minute behind": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &board{lag: lag}
				b.edit(task.Task{ID: id, Title: "at first", Status: task.Open})
				time.Sleep(10 * time.Minute)
				m := newMirror(t, b)
				var changes []string
				for i := range 30 {
					switch time.Sleep(10 * time.Second); i {
					case 0:
						b.edit(task.Task{ID: id, Title: "one", Status: task.Open})
					case 4:
						b.edit(task.Task{ID: id, Title: "two", Status: task.Open})
					}
					changes = append(changes, pull(t, m)...)
				}
				if title(m) != "two" || !slices.Equal(changes, []string{"one", "two"}) {
					t.Errorf("the mirror has %q, and the changes were %q", title(m), changes)
				}
			})
		})
	}
}

// TestLaggingQueryDoesNotUndo reads a page that a query still shows as it was
// earlier in the same minute. The page counts, and is asked for no more often
// than the query contradicts it.
func TestLaggingQueryDoesNotUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{lag: 90 * time.Second}
		b.edit(task.Task{ID: id, Title: "earlier", Status: task.Open})
		time.Sleep(time.Second)
		later := b.edit(task.Task{ID: id, Title: "later", Status: task.Open})
		time.Sleep(89*time.Second + time.Second/2) // queries show the earlier one
		m := newMirror(t, b)
		m.Observe(claim.Reading{Task: later, At: time.Now()})
		if changes := pull(t, m); len(changes) > 0 || title(m) != "later" || b.reads != 1 {
			t.Errorf("the mirror has %q, the changes were %q, and the page was read %d times", title(m), changes, b.reads)
		}
		for range 10 {
			time.Sleep(30 * time.Second)
			pull(t, m)
		}
		if title(m) != "later" || b.reads != 1 {
			t.Errorf("the mirror has %q in the end, and the page was read %d times", title(m), b.reads)
		}
	})
}

// TestLaterRowIsBelieved has a query show what came after a page was read: it is not
// asked for again where the row tells that it is the later one.
func TestLaterRowIsBelieved(t *testing.T) {
	const first, second = "01JAAAAAAAAAAAAAAAAAAAAAAA", "01JBBBBBBBBBBBBBBBBBBBBBBB"
	held := task.Task{ID: id, Status: task.InProgress, ClaimedBy: "Oracle", Token: first}
	for name, tt := range map[string]struct {
		after time.Duration // the page was read
		row   task.Task
		reads int
	}{
		"a field that is worked out anew": {time.Second, task.Task{ID: id, Status: task.InProgress, ClaimedBy: "Oracle", Token: first, Fields: task.Fields{"age": 2.0}}, 0},
		"the claim is done":               {time.Second, task.Task{ID: id, Status: task.Completed, ClaimedBy: "Oracle", Token: "done " + first}, 0},
		"another claim is done":           {time.Second, task.Task{ID: id, Status: task.Completed, ClaimedBy: "Oracle", Token: "done " + second}, 1},
		"another claim":                   {time.Second, task.Task{ID: id, Status: task.InProgress, ClaimedBy: "Sandman", Token: second}, 1},
		"open, in the same minute":        {time.Second, task.Task{ID: id, Status: task.Open}, 1},
		"open, a minute later":            {time.Minute, task.Task{ID: id, Status: task.Open}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &board{}
				b.edit(task.Task{ID: id, Status: task.Open})
				time.Sleep(10 * time.Minute)
				m := newMirror(t, b)
				m.Observe(claim.Reading{Task: b.edit(held), At: time.Now()})
				time.Sleep(tt.after)
				b.edit(tt.row)
				pull(t, m)
				if got, _ := m.Task(id); got.Status != tt.row.Status || got.Token != tt.row.Token || got.Fields["age"] != tt.row.Fields["age"] || b.reads != tt.reads {
					t.Errorf("the mirror has %s %q, and the page was read %d times, want %d", got.Status, got.Token, b.reads, tt.reads)
				}
			})
		})
	}
}

// sluggish is a database whose queries are answered after a minute.
type sluggish struct {
	*board
	checks int
}

func (s *sluggish) EditedSince(ctx context.Context, since time.Time) ([]task.Task, error) {
	select {
	case <-time.After(time.Minute):
		return s.board.EditedSince(ctx, since)
	case <-ctx.Done():
		return nil, claim.Errorf(claim.Unavailable, claim.LandedNo, "the query was not answered: %w", ctx.Err())
	}
}

func (s *sluggish) Check(context.Context) error {
	s.checks++
	return nil
}

// failures are syncs that failed.
type failures struct {
	mirror.Unwatched
	unsynced int
}

func (f *failures) Unsynced(context.Context, bool) { f.unsynced++ }

// Whoever does not wait for the end of a sync says nothing of Notion: it is not looked for, and
// the tasks are not out of date.
func TestGivingUpIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sluggish{board: &board{}}
		w := new(failures)
		m := mirrorOf(t, s, func(c *mirror.Config) { c.Interval, c.Watcher = time.Hour, w })
		pull(t, m)
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		if _, err := m.Sync(ctx, false); err == nil {
			t.Error("a sync that nobody waited for succeeded")
		}
		if _, err := m.Sync(t.Context(), false); err != nil {
			t.Error(err)
		}
		if st := m.Standing(); st.Stale || s.checks > 0 || w.unsynced > 0 {
			t.Errorf("stale: %v; Notion was looked for %d times; %d syncs were told to have failed", st.Stale, s.checks, w.unsynced)
		}
	})
}

// One page that an event names is read by itself. Several cost one query, and those that it does not
// show yet one read each. A page that is not there leaves the mirror.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{}
		titled := func(id task.ID, title string) { b.edit(task.Task{ID: id, Title: title}) }
		for _, id := range []task.ID{"a", "b", "c"} {
			titled(id, "old")
		}
		m := newMirror(t, b)
		time.Sleep(10 * time.Minute)
		pull(t, m)
		b.lag = time.Minute // queries are behind
		look := func(changed, gone []task.ID, want ...string) mirror.Result {
			t.Helper()
			b.reads = 0
			r, left, err := m.Look(t.Context(), changed, gone)
			if err != nil || len(left) > 0 {
				t.Fatal(left, err)
			}
			var titles []string
			for _, c := range r.Changed {
				titles = append(titles, string(c.ID)+" "+c.Title)
			}
			if slices.Sort(titles); !gocmp.Equal(want, titles) {
				t.Errorf("Look(%v, %v) found %q, want %q", changed, gone, titles, want)
			}
			return r
		}

		titled("a", "new")
		if r := look([]task.ID{"a"}, nil, "a new"); b.reads != 1 || r.Read != 0 {
			t.Errorf("one page took %d reads, and a query of %d rows; want one read", b.reads, r.Read)
		}
		if look([]task.ID{"a"}, nil); b.reads != 1 {
			t.Errorf("the same event again took %d reads, want 1", b.reads)
		}

		titled("b", "new")
		titled("d", "made")
		if look([]task.ID{"b", "d"}, nil, "b new", "d made"); b.reads != 2 {
			t.Errorf("%d pages were read, want the two that the query does not show", b.reads)
		}

		time.Sleep(5 * time.Minute)
		b.lag = 0
		titled("b", "newer")
		titled("c", "newer")
		if look([]task.ID{"b", "c"}, nil, "b newer", "c newer"); b.reads != 0 {
			t.Errorf("%d pages were read, want none: the query shows them", b.reads)
		}

		b.versions = slices.DeleteFunc(b.versions, func(v version) bool { return v.ID == "c" })
		if r := look(nil, []task.ID{"c"}); len(r.Gone) != 1 || r.Gone[0].ID != "c" {
			t.Errorf("gone: %v, want c", r.Gone)
		}
		if _, known := m.Task("c"); known {
			t.Error("the mirror still has the task that is gone")
		}
		look(nil, []task.ID{"nobody knows"})
	})
}

// More pages than one look reads are left for the next, and so is what Notion did not answer. Looks
// keep to their share of the rate.
func TestWhatALookLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{}
		var all []task.ID
		for i := range 50 {
			all = append(all, task.ID(fmt.Sprint(i)))
			b.edit(task.Task{ID: all[i]})
		}
		m := newMirror(t, b)
		time.Sleep(10 * time.Minute)
		b.versions = nil // all of them go to the trash
		began, left, looks := time.Now(), all, 0
		for len(left) > 0 {
			var err error
			if _, left, err = m.Look(t.Context(), nil, left); err != nil {
				t.Fatal(err)
			}
			looks++
		}
		if m.Len() != 0 || looks != 3 || b.reads != 50 {
			t.Errorf("%d tasks are left after %d looks and %d reads, want none after 3 and 50", m.Len(), looks, b.reads)
		}
		// One request in three seconds, after five at once.
		if took, least := time.Since(began), 35*3*time.Second; took < least {
			t.Errorf("it took %v, want at least %v", took, least)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, left, err := m.Look(ctx, all[:1], all[1:]); err == nil || len(left) != 50 {
			t.Errorf("a look that ends early leaves %d pages, %v; want all 50", len(left), err)
		}
	})
}

// timed is a storage that keeps when the syncs were that it is told of.
type timed struct {
	storage
	mu     sync.Mutex
	synced []time.Time
}

func (k *timed) Meta(_ context.Context, key string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.synced); key == "mirror.synced" && n > 0 {
		return k.synced[n-1].Format(time.RFC3339Nano), nil
	}
	return "", nil
}

func (k *timed) SetMeta(_ context.Context, key, value string) error {
	if key != "mirror.synced" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, value)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.synced = append(k.synced, at)
	return err
}

// TestAgeAfterARestart has a mirror sync every ten seconds. It stores that every minute, and the
// next one takes the tasks for at most that much older than they are, and never for younger.
func TestAgeAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		kept := new(timed)
		m := s.started(t, kept)
		for range 60 {
			time.Sleep(7 * time.Second)
			synctest.Wait()
			synced, again := m.Standing().SyncedAt, new(script).mirror(t, kept, nil).Standing().SyncedAt
			if behind := synced.Sub(again); behind < 0 || behind >= time.Minute {
				t.Fatalf("synced at %v, and after a restart at %v", synced, again)
			}
		}
		kept.mu.Lock()
		defer kept.mu.Unlock()
		if n := len(kept.synced); n > 8 {
			t.Errorf("%d times were stored in seven minutes", n)
		}
	})
}

// titled is a board whose tasks relate to the pages of titles. Who asks in a pause is refused.
type titled struct {
	board
	titles, told map[task.ID]string
	busy, paused bool
	read         []task.ID
}

func (s *titled) Titled(t task.Task) task.Task {
	list := []any{}
	for _, id := range t.Related["Project"] {
		list = append(list, cmp.Or(s.told[id], string(id)))
	}
	t.Fields = task.Fields{"Project": list}
	return t
}

func (s *titled) Untitled(t task.Task) (due []task.ID) {
	for _, id := range t.Related["Project"] {
		if _, told := s.told[id]; !told {
			due = append(due, id)
		}
	}
	return due
}

func (s *titled) PageTitle(_ context.Context, id task.ID) (string, error) {
	if s.read = append(s.read, id); s.paused {
		return "", claim.Errorf(claim.Unavailable, claim.LandedNo, "a pause")
	}
	if s.titles[id] == "" {
		return "", claim.Errorf(claim.NotFound, claim.LandedNo, "not shown")
	}
	return s.titles[id], nil
}

func (s *titled) SetTitle(id task.ID, title string, err error) bool {
	s.told[id] = title
	return title != ""
}

func (s *titled) Room() (bool, time.Duration) { return !s.busy, 3 * time.Second }

// Titles of related pages are read a few at a time, only while nobody waits, and each once; those of
// tasks are known. Tasks show them at once, and so does what was read before and is taken over later.
func TestReadTitles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &titled{titles: map[task.ID]string{"1": "one", "2": "two", "4": "four", "5": "five", "6": "six", "7": "seven"}, told: make(map[task.ID]string)}
		ship := b.edit(task.Task{ID: id, Title: "Ship", Status: task.Open, Related: map[string][]task.ID{"Project": {"1", "2", "hidden", "4", "5", "6", "7", id}}})
		var c changes
		m := mirrorOf(t, b, func(cfg *mirror.Config) { cfg.Watcher = &c })
		pull(t, m)
		c.told = nil
		turn := func(when string, wait time.Duration, read int, want string) {
			t.Helper()
			b.read = nil
			got := m.ReadTitles(t.Context())
			now, _ := m.Task(id)
			if shown := task.FieldText(now.Fields["Project"]); got != wait || len(b.read) != read || shown != want {
				t.Errorf("%s: %d read, on in %v, shown %q; want %d, %v, %q", when, len(b.read), got, shown, read, wait, want)
			}
		}
		b.busy = true
		turn("while somebody waits", 3*time.Second, 0, "1, 2, hidden, 4, 5, 6, 7, "+string(id))
		b.busy, b.paused = false, true
		turn("in a pause", clock.UntilWoken, 1, "1, 2, hidden, 4, 5, 6, 7, "+string(id))
		if c.told != nil {
			t.Errorf("told of %v", c.told)
		}
		b.paused = false
		turn("a few", 3*time.Second, 5, "one, two, hidden, four, five, 6, 7, "+string(id))
		if diff := gocmp.Diff([]task.ID{id}, c.told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		turn("the rest", clock.UntilWoken, 2, "one, two, hidden, four, five, six, seven, Ship")
		turn("none", clock.UntilWoken, 0, "one, two, hidden, four, five, six, seven, Ship")
		ship.Note = "read before, taken over now"
		m.Observe(claim.Reading{Task: ship})
		turn("observed", clock.UntilWoken, 0, "one, two, hidden, four, five, six, seven, Ship")
	})
}
