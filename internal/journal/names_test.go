package journal_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"
)

// mint mints a name at t0; change may alter how.
func mint(t *testing.T, j *journal.Journal, session string, change func(*task.Mint)) (string, bool, error) {
	t.Helper()
	m := task.Mint{
		UID: 1000, Session: session, Now: t0, Gone: t0.Add(-time.Hour),
		Free: func(string) bool { return true }, Usable: func(string) bool { return true },
	}
	if change != nil {
		change(&m)
	}
	return j.MintName(t.Context(), m)
}

func mustMint(t *testing.T, j *journal.Journal, session string, change func(*task.Mint)) string {
	t.Helper()
	name, _, err := mint(t, j, session, change)
	do(t, err)
	return name
}

// draws has names made of these suffixes in turn; the last one for ever.
func draws(suffixes ...string) func(*task.Mint) {
	return func(m *task.Mint) {
		m.Suffix = func() string {
			next := suffixes[0]
			if len(suffixes) > 1 {
				suffixes = suffixes[1:]
			}
			return next
		}
	}
}

func TestOneNameASession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	first, minted, err := mint(t, j, "a", nil)
	if err != nil || !minted {
		t.Fatalf("minted = %v, %v", minted, err)
	}
	again, minted, err := mint(t, j, "a", nil)
	if err != nil || minted || again != first {
		t.Errorf("the session has %q, and then %q (minted: %v), %v", first, again, minted, err)
	}
	seen := map[string]bool{first: true}
	for range 2 { // without a session, always a new one
		seen[mustMint(t, j, "", nil)] = true
	}
	seen[mustMint(t, j, "b", nil)] = true
	seen[mustMint(t, j, "a", func(m *task.Mint) { m.UID = 1001 })] = true // another user
	if len(seen) != 5 {
		t.Errorf("names %v, want five", seen)
	}
	do(t, j.Close())
	if j = open(t, path); mustMint(t, j, "a", nil) != first {
		t.Error("another name after a restart")
	}
	name, used, err := j.SessionName(t.Context(), 1000, "a", t0)
	if name != first || !used.Equal(t0) || err != nil {
		t.Errorf("SessionName = %q, %v, %v; want %q of %v", name, used, err, first, t0)
	}
	for uid, session := range map[int]string{1000: "c", 1002: "a", 1003: ""} {
		if name, _, err := j.SessionName(t.Context(), uid, session, t0); name != "" || err != nil {
			t.Errorf("session %q of %d has %q, %v; want none", session, uid, name, err)
		}
	}
}

// A name that anything is known of is no free one.
func TestTakenNamesAreNotMinted(t *testing.T) {
	j := newJournal(t)
	reserve(t, j, attempt("agent-HELD", "a", t0), t0)
	done := attempt("agent-DONE", "b", t0)
	reserve(t, j, done, t0)
	save(t, j, ended(done, claim.EndCompleted, t0))
	do(t, j.SetLeads(t.Context(), []string{"agent-POLL"}))
	do(t, errOf(j.AddTriggers(t.Context(), inbox.Trigger{Type: inbox.Message, Agent: "agent-SENT", At: t0})))
	mustMint(t, j, "other", draws("MINT"))
	got := mustMint(t, j, "a", func(m *task.Mint) {
		draws("HELD", "DONE", "POLL", "SENT", "MINT", "SEEN", "FREE")(m)
		m.Free = func(name string) bool { return name != "agent-SEEN" }
	})
	if got != "agent-FREE" {
		t.Errorf("minted %q, want agent-FREE", got)
	}
	_, _, err := mint(t, j, "b", draws("FREE"))
	if err == nil || !strings.Contains(err.Error(), "minting a name that begins with agent: the 100 names tried are all taken: use a name of your own") {
		t.Errorf("no name is free: err = %v", err)
	}
}

// Many who ask at the same time get as many names, and those of one session the same.
func TestNoNameIsMintedTwice(t *testing.T) {
	j := newJournal(t)
	var names [120]string
	var fresh atomic.Int64
	session := func(i int) string { return []string{fmt.Sprint("session ", i%20), ""}[i/100] }
	race(len(names), func(i int) {
		name, minted, err := mint(t, j, session(i), func(m *task.Mint) {
			m.Suffix = func() string { return fmt.Sprint(rand.IntN(60)) } // of few names, so that they meet
		})
		if names[i] = name; err != nil {
			t.Error(err)
		}
		if minted {
			fresh.Add(1)
		}
	})
	owners := make(map[string]string)
	for i, name := range names {
		owner := cmp.Or(session(i), fmt.Sprint("nobody ", i))
		if other, taken := owners[name]; taken && other != owner {
			t.Errorf("%s is the name of %s and of %s", name, other, owner)
		}
		owners[name] = owner
	}
	if len(owners) != 40 || fresh.Load() != 40 {
		t.Errorf("%d names, %d of them minted; want 40", len(owners), fresh.Load())
	}
}

// A session that is not heard of for long loses its name, unless it has a claim or polls.
func TestSessionsAreForgotten(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(t *testing.T, j *journal.Journal, agent string)
		kept      bool
	}{
		"nothing": {func(*testing.T, *journal.Journal, string) {}, false},
		"asks": {func(t *testing.T, j *journal.Journal, _ string) {
			mustMint(t, j, "a", func(m *task.Mint) { m.Now = t0.Add(2 * time.Hour) })
		}, true},
		"holds": {func(t *testing.T, j *journal.Journal, agent string) { reserve(t, j, attempt(agent, "a", t0), t0) }, true},
		"is done": {func(t *testing.T, j *journal.Journal, agent string) {
			c := attempt(agent, "a", t0)
			reserve(t, j, c, t0)
			save(t, j, ended(c, claim.EndCompleted, t0))
		}, false},
		"polls": {func(t *testing.T, j *journal.Journal, agent string) {
			do(t, errOf(j.TakeTriggers(t.Context(), inbox.Take{Agent: agent, Taker: "p", Now: t0.Add(2 * time.Hour), At: t0})))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			first := mustMint(t, j, "a", nil)
			tt.meanwhile(t, j, first)
			had, _, err := j.SessionName(t.Context(), 1000, "a", t0.Add(time.Hour))
			if err != nil || (had == first) != tt.kept {
				t.Errorf("SessionName = %q, %v; want it kept: %v", had, err, tt.kept)
			}
			got, minted, err := mint(t, j, "a", func(m *task.Mint) {
				m.Now, m.Gone = t0.Add(25*time.Hour), t0.Add(time.Hour)
				draws("NEXT")(m)
			})
			if err != nil || minted == tt.kept || (got == first) != tt.kept {
				t.Errorf("the session has %q, and then %q, %v; want it kept: %v", first, got, err, tt.kept)
			}
		})
	}
}

// A name that may not be used any more is given up, and nobody else gets it.
func TestForbiddenNamesAreGivenUp(t *testing.T) {
	j := newJournal(t)
	mustMint(t, j, "a", draws("OLD1"))
	got, minted, err := mint(t, j, "a", func(m *task.Mint) {
		draws("OLD1", "NEW1")(m)
		m.Usable = func(name string) bool { return name != "agent-OLD1" }
	})
	if got != "agent-NEW1" || !minted || err != nil {
		t.Errorf("minted %q (%v), %v; want agent-NEW1", got, minted, err)
	}
	if again := mustMint(t, j, "a", nil); again != got {
		t.Errorf("then %q, want %q", again, got)
	}
}

// Of the names minted for one user those asked for last are kept, and those with claims.
func TestNamesOfOneUserAreBounded(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	pgtest.TakesLong(t)
	j := newJournal(t)
	other := mustMint(t, j, "a", func(m *task.Mint) { m.UID = 1001 })
	holder, heard, silent := mustMint(t, j, "holds", nil), mustMint(t, j, "asks", nil), mustMint(t, j, "silent", nil)
	grant(t, j, attempt(holder, "a", t0), t0)
	const kept = 10_000
	for i := range kept {
		if i == kept/2 {
			mustMint(t, j, "asks", nil)
		}
		mustMint(t, j, "", nil)
	}
	for session, want := range map[string]string{"holds": holder, "asks": heard, "silent": ""} {
		if got, _, err := j.SessionName(t.Context(), 1000, session, t0.Add(-time.Hour)); got != want || err != nil {
			t.Errorf("the session that %s has %q, %v; want %q (%q was silent)", session, got, err, want, silent)
		}
	}
	if got, _, err := j.SessionName(t.Context(), 1001, "a", t0.Add(-time.Hour)); got != other || err != nil {
		t.Errorf("another user's session has %q, %v; want %q", got, err, other)
	}
}
