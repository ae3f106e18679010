package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/journal"
	"dibs/internal/journal/journaltest"
	"dibs/internal/outbox"
	"dibs/internal/reserve"
	"dibs/internal/task"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"
)

func TestMain(m *testing.M) {
	os.Exit(pgtest.Both(m, testkit.RunInMemory, "^(TestExclusive|TestEnds|TestSurvives)$", "^TestOneOfMany$"))
}

// world is a book, its storage, and the claims and processes that there are.
type world struct {
	*reserve.Book
	t       *testing.T
	path    string
	journal *journal.Journal

	mu     sync.Mutex
	claims map[claim.ID]claim.Hold
	dead   map[int]bool
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, path: filepath.Join(t.TempDir(), "journal.db"), claims: make(map[claim.ID]claim.Hold), dead: make(map[int]bool)}
	w.start()
	return w
}

func (w *world) Find(_ context.Context, id claim.ID) (claim.Hold, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, known := w.claims[id]
	if !known {
		return c, claim.ErrUnknownClaim
	}
	return c, nil
}

func (w *world) Claims(agent string) (all []claim.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.claims {
		if agent == "" || c.Agent == agent {
			all = append(all, c)
		}
	}
	return all
}

func (w *world) Life(p keepers.Process) keepers.Life {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead[p.ID] {
		return keepers.Gone
	}
	return keepers.Living
}

// start opens the book, as a daemon does that starts.
func (w *world) start() {
	w.t.Helper()
	j, err := journaltest.Open(w.t.Context(), w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { j.Close() })
	w.journal = j
	w.Book, err = reserve.NewBook(w.t.Context(), reserve.Config{
		Storage: j, Claims: w, Processes: w, Clock: testkit.Clock{}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// files are targets in a repository.
func files(patterns ...string) []reserve.Target {
	var out []reserve.Target
	for _, p := range patterns {
		if name, is, _ := reserve.NameOf(p); is {
			out = append(out, reserve.Target{Text: p, At: []reserve.Spot{{Place: reserve.Names, Path: name}}})
			continue
		}
		out = append(out, reserve.Target{Text: p, At: []reserve.Spot{{Place: "/repo/.git", Path: "/" + strings.TrimPrefix(p, "/")}}})
	}
	return out
}

func (w *world) reserve(agent string, r reserve.Request, patterns ...string) (reserve.Reservation, error) {
	w.t.Helper()
	r.Agent, r.Targets = agent, files(patterns...)
	return w.Reserve(w.t.Context(), r)
}

func (w *world) must(agent string, r reserve.Request, patterns ...string) reserve.Reservation {
	w.t.Helper()
	made, err := w.reserve(agent, r, patterns...)
	if err != nil {
		w.t.Fatalf("%s reserves %v: %v", agent, patterns, err)
	}
	return made
}

// holder returns who keeps the agent from reserving or touching something.
func (w *world) holder(err error) string {
	w.t.Helper()
	taken, ok := errors.AsType[*reserve.Taken](err)
	if !ok && err != nil {
		w.t.Fatal(err)
	}
	if !ok {
		return ""
	}
	return taken.By.Agent
}

func (w *world) check(agent, path string) string {
	w.t.Helper()
	return w.holder(w.Check(w.t.Context(), agent, "", files(path)))
}

func TestExclusive(t *testing.T) {
	w := newWorld(t)
	made := w.must("Sandman", reserve.Request{For: time.Hour}, "src/", "name:db")
	for path, want := range map[string]string{"src/a.go": "Sandman", "srv/a.go": "", "name:db": "Sandman", "name:db2": "", "db": ""} {
		if got := w.check("Oracle", path); got != want {
			t.Errorf("%s is %q's, want %q", path, got, want)
		}
		if got := w.check("Sandman", path); got != "" {
			t.Errorf("%s is in the way of whoever has it", path)
		}
	}
	// All or nothing.
	_, err := w.reserve("Oracle", reserve.Request{}, "docs/", "src/*.go")
	taken, ok := errors.AsType[*reserve.Taken](err)
	if !ok || taken.By.ID != made.ID || taken.Pattern != "src/" || taken.Asked != "src/*.go" || !taken.Until.Equal(made.Until) {
		t.Errorf("reserved what another has: %v", err)
	}
	if got := w.check("Merlin", "docs/a.md"); got != "" {
		t.Errorf("a refused request left docs/ to %s", got)
	}
	w.must("Sandman", reserve.Request{}, "src/*.go") // its own is in nobody's way
	if _, err := w.Unreserve(t.Context(), made.ID, "Oracle"); err == nil {
		t.Error("Oracle gave back what is Sandman's")
	}
	if _, err := w.Unreserve(t.Context(), made.ID, "Sandman"); err != nil {
		t.Error(err)
	}
	if _, err := w.Unreserve(t.Context(), made.ID, "Sandman"); err == nil {
		t.Error("it was given back twice")
	}
	if got := w.check("Oracle", "src/a.md"); got != "" {
		t.Errorf("what was given back is %s's", got)
	}
}

func TestShared(t *testing.T) {
	w := newWorld(t)
	w.must("Sandman", reserve.Request{Shared: true, For: time.Hour}, "src/")
	w.must("Oracle", reserve.Request{Shared: true}, "src/a.go")
	if _, err := w.reserve("Merlin", reserve.Request{}, "src/b.go"); w.holder(err) != "Sandman" {
		t.Errorf("what is shared was reserved by one: %v", err)
	}
	if _, err := w.reserve("Oracle", reserve.Request{}, "src/a.go"); w.holder(err) != "Sandman" {
		t.Errorf("what is shared was reserved by one of those who share it: %v", err)
	}
	for agent, want := range map[string]string{"Sandman": "", "Oracle": "", "Merlin": "Sandman", "": "Sandman"} {
		if got := w.check(agent, "src/a.go"); got != want {
			t.Errorf("%q may not touch what is %q's, want %q", agent, got, want)
		}
	}
	if got := w.check("Oracle", "src/c.go"); got != "Sandman" { // it shares another file
		t.Errorf("Oracle may touch what it does not share: %q", got)
	}
}

// TestOneOfMany: of many who ask for what overlaps at the same time, one gets it.
func TestOneOfMany(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	won := make(chan string, 20)
	for i := range cap(won) {
		wg.Go(func() {
			agent := fmt.Sprintf("agent-%d", i)
			// The orders differ: nobody waits for anybody.
			patterns := []string{"src/a.go", "src/b.go"}
			if i%2 == 1 {
				patterns = []string{"src/b.go", "src/a.go"}
			}
			if _, err := w.reserve(agent, reserve.Request{}, patterns...); err == nil {
				won <- agent
			} else if _, ok := errors.AsType[*reserve.Taken](err); !ok {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("%d agents have reserved the same files", len(won))
	}
}

func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := claim.Hold{ID: "C1", Agent: "Sandman", State: claim.Held, Task: task.Task{ID: "T"}}
		held.StaleAt = time.Now().Add(time.Hour)
		w.claims["C1"] = held
		go w.Run(t.Context())

		w.must("Sandman", reserve.Request{For: 10 * time.Minute}, "timed")
		ofClaim := w.must("Sandman", reserve.Request{Claim: "C1"}, "claimed")
		w.must("Sandman", reserve.Request{Process: keepers.Process{ID: 7, Began: "then"}}, "kept")
		if !ofClaim.Until.Equal(held.StaleAt) {
			t.Errorf("a reservation of a claim ends at %v, and the claim's lease at %v", ofClaim.Until, held.StaleAt)
		}
		at := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			var got []string
			for _, r := range w.List(t.Context(), "") {
				got = append(got, r.Patterns()...)
			}
			stored, err := w.journal.Reservations(t.Context())
			if strings.Join(got, " ") != want || err != nil || len(stored) != len(got) {
				t.Errorf("reserved: %v, stored: %d, %v, want %s", got, len(stored), err, want)
			}
		}
		at(9*time.Minute, "timed claimed kept")
		at(time.Minute+time.Second, "claimed kept")
		w.mu.Lock()
		w.dead[7] = true
		w.mu.Unlock()
		at(2*time.Second, "claimed")
		w.mu.Lock()
		held.StaleAt = held.StaleAt.Add(time.Hour)
		w.claims["C1"] = held
		w.mu.Unlock()
		at(time.Hour, "claimed") // the claim was renewed
		held.State, held.Ending = claim.Ended, claim.EndCompleted
		w.mu.Lock()
		w.claims["C1"] = held
		w.mu.Unlock()
		w.Claimed(held)
		synctest.Wait()
		at(0, "")
		if _, err := w.reserve("Sandman", reserve.Request{Claim: "C1"}, "late"); err == nil {
			t.Error("reserved for a claim that is over")
		}
		if _, err := w.reserve("Oracle", reserve.Request{Claim: "C1"}, "late"); err == nil {
			t.Error("reserved for another's claim")
		}

		// One that is not renewed ends with its lease, and stays ended.
		held.State, held.StaleAt = claim.Held, time.Now().Add(time.Minute)
		w.mu.Lock()
		w.claims["C1"] = held
		w.mu.Unlock()
		w.must("Sandman", reserve.Request{Claim: "C1"}, "late")
		time.Sleep(time.Minute)
		w.must("Oracle", reserve.Request{}, "late")
	})
}

func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.must("Sandman", reserve.Request{For: 10 * time.Minute}, "a", "b")
		time.Sleep(5 * time.Minute)
		again := w.must("Sandman", reserve.Request{For: 10 * time.Minute}, "a", "b")
		if again.ID != first.ID || !again.Until.Equal(first.Until.Add(5*time.Minute)) || !again.Made.Equal(first.Made) {
			t.Errorf("renewed: %+v, of %+v", again, first)
		}
		if n := len(w.List(t.Context(), "Sandman")); n != 1 {
			t.Errorf("%d reservations after a renewal", n)
		}
		if other := w.must("Sandman", reserve.Request{}, "a"); other.ID == first.ID {
			t.Error("another request was taken for a renewal")
		}
	})
}

// TestSurvives: what was granted is there after a kill.
func TestSurvives(t *testing.T) {
	w := newWorld(t)
	made := w.must("Sandman", reserve.Request{UID: 7, Shared: true, Folder: "/repo", Process: keepers.Process{ID: 7, Began: "then"}}, "src/[ab]", "name:db")
	w.start() // the first is not closed
	list := w.List(t.Context(), "")
	if len(list) != 1 || list[0].ID != made.ID || !list[0].Until.Equal(made.Until) || list[0].Process != made.Process || list[0].UID != 7 || list[0].Folder != "/repo" {
		t.Errorf("after a restart: %+v, want %+v", list, made)
	}
	if got := w.check("Oracle", "src/a"); got != "Sandman" {
		t.Errorf("src/a is %q's after a restart", got)
	}
	w.dead[7] = true // while no daemon ran
	w.start()
	if got := w.check("Oracle", "src/a"); got != "" {
		t.Errorf("src/a is %q's, whose process is gone", got)
	}
}

// TestTold: agents and people are told of each, and Notion once a minute.
func TestTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		go w.Run(t.Context())
		made := w.must("Sandman", reserve.Request{Folder: "/work"}, "a")
		for i := range 10 {
			w.must("Sandman", reserve.Request{}, fmt.Sprintf("b%d", i))
		}
		w.must("Sandman", reserve.Request{Folder: "/work"}, "a") // renewed: no news
		if _, err := w.Unreserve(t.Context(), made.ID, ""); err != nil {
			t.Fatal(err)
		}
		wantOwed := func(want ...string) {
			t.Helper()
			items, err := w.journal.NextOwed(t.Context(), outbox.MeshEntry, time.Now(), 0)
			var got []string
			for _, item := range items {
				got = append(got, item.Fact.Detail)
			}
			if err != nil || strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("owed to Notion: %q, %v, want %q", got, err, want)
			}
		}
		wantOwed("a in /work")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		wantOwed("a in /work", "b9: the last of 10")
		told, err := w.journal.Feed(t.Context(), journal.FactFilter{})
		if err != nil || len(told) != 12 || told[0].Kind != "reserved" || told[11].Kind != "unreserved" || told[11].Detail != "a in /work: given back" || told[11].Reservation != made.ID {
			t.Errorf("told: %+v, %v", told, err)
		}
	})
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		full := func(err error) *reserve.Full {
			f, _ := errors.AsType[*reserve.Full](err)
			return f
		}
		many := func(prefix string, n int) (out []string) {
			for i := range n {
				out = append(out, fmt.Sprintf("%s%d", prefix, i))
			}
			return out
		}
		for i := range 8 {
			w.must("Sandman", reserve.Request{}, many(fmt.Sprintf("s%d-", i), 32)...)
		}
		if _, err := w.reserve("Sandman", reserve.Request{}, "more"); full(err) == nil {
			t.Errorf("an agent reserved more than 256 patterns: %v", err)
		}
		for i := range 24 {
			w.must(fmt.Sprintf("agent-%d", i/8), reserve.Request{}, many(fmt.Sprintf("o%d-", i), 32)...)
		}
		if _, err := w.reserve("Oracle", reserve.Request{}, "more"); full(err) == nil {
			t.Errorf("a user reserved more than 1024 patterns: %v", err)
		}
		w.must("Oracle", reserve.Request{UID: 1}, "more")

		for _, patterns := range [][]string{nil, many("x", 33), {strings.Repeat("x", 513)}, strings.Split(strings.Repeat(strings.Repeat("x", 500)+" ", 9), " ")} {
			_, err := w.reserve("Oracle", reserve.Request{UID: 1}, patterns...)
			if _, ok := errors.AsType[*reserve.InvalidError](err); !ok {
				t.Errorf("%d patterns: %v", len(patterns), err)
			}
		}
		for i := range 500 {
			made, err := w.reserve("Merlin", reserve.Request{UID: 2}, "again")
			if f := full(err); f != nil {
				if i < 200 || f.RetryAfter <= 0 {
					t.Errorf("refused after %d reservations: %v", i, f)
				}
				time.Sleep(f.RetryAfter)
				w.must("Merlin", reserve.Request{UID: 2}, "again")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Unreserve(t.Context(), made.ID, ""); err != nil {
				t.Fatal(err)
			}
		}
		t.Error("a user makes any number of reservations")
	})
}
