package journal_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/journal/journaltest"
	"dibs/internal/outbox"
	"dibs/internal/task"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// core is a test of each kind of thing that is kept, and who may write it.
const core = "^Test(OneLeads|AllFieldsAreStored|LedgerAgreesWithModel|Denials|EndedClaimsStayEnded|FeedOfAClaim|FeedFilter|" +
	"Events|Inbox|CarriedOver|OlderLeader|NewerJournal|HowAgentsDo|Spent|Requests|TakenNamesAreNotMinted|OutboxIsPerLog|OutboxStats|" +
	"Owed|PruneClaims|PruneEvents|Tasks|Meta|KeysOfUsers|AnyText)$"

// watched are those in which a server goes away, or many ask it at the same time, and all that is
// about PostgreSQL alone.
const watched = "^Test(ServerAway|OpenTransaction|Fate.*|Deposed|AcknowledgedSurvivesKill|NobodyFollows|TwoTermsOfOneEpoch|" +
	"LeaderWhoseRowIsOdd|ConnectionsThatAreCut|SlowStartIsTold|Passing.*|DatabaseThatWasSetBack|Commit.*|NoNameIsMintedTwice|CarriedOver|KilledWhileCarriedOver|OlderLeader|NewerJournal)$"

func TestMain(m *testing.M) {
	if path := os.Getenv(victimEnv); path != "" {
		victim(path) // never returns
	}
	os.Exit(pgtest.Both(m, testkit.RunInMemory, core, watched))
}

// t0 is when tests begin, as far as Notion's time goes.
var t0 = time.Date(2026, time.November, 20, 9, 0, 0, 0, time.UTC)

func open(t testing.TB, path string) *journal.Journal {
	t.Helper()
	j, err := journaltest.Open(t.Context(), path)
	do(t, err)
	paths.Store(j, path)
	t.Cleanup(func() {
		paths.Delete(j)
		if err := j.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return j
}

// paths is what open was called with, by the journal.
var paths sync.Map

func newJournal(t testing.TB) *journal.Journal {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	t.Cleanup(func() { retire(t, path) }) // after open's
	return open(t, path)
}

// retire gives back the tables of a journal that is closed. If that fails, the next one makes its own.
func retire(t interface{ Log(...any) }, path string) {
	if err := journaltest.Retire(context.Background(), path); err != nil {
		t.Log("the tables are not used again:", err)
	}
}

// reopen closes j and opens it again.
func reopen(t testing.TB, j *journal.Journal) *journal.Journal {
	t.Helper()
	do(t, j.Close())
	path, _ := paths.Load(j)
	return open(t, path.(string))
}

// attempt is a claim as an attempt at the time begins with it.
func attempt(agent string, id task.ID, at time.Time) claim.Hold {
	return claim.Hold{
		ID: claim.NewID(at), Agent: agent, State: claim.Reserved, Reserved: at, Lease: claim.Lease{Timeout: 30 * time.Minute},
		Task: task.Task{ID: id, Title: "Task " + string(id), URL: "https://www.notion.so/" + string(id), Status: task.Open},
	}
}

// anyFence leaves out of a comparison which fence a claim was given.
var anyFence = cmpopts.IgnoreFields(claim.Hold{}, "Fence")

// held is c, granted at the time.
func held(c claim.Hold, at time.Time) claim.Hold {
	c.State, c.Started, c.ClaimedAt = claim.Held, at, at
	c.StaleAt = at.Add(c.Timeout + time.Minute)
	return c
}

// ended is c, having ended so at the time.
func ended(c claim.Hold, how claim.Ending, at time.Time) claim.Hold {
	c.State, c.Ending, c.Ended = claim.Ended, how, at
	return c
}

// event is an event about c.
func event(c claim.Hold, kind claim.Kind, at time.Time) claim.Fact {
	return claim.Fact{
		ID: claim.NewFactID(at), At: at, Kind: kind, Agent: c.Agent, Claim: c.ID,
		Task: c.Task.ID, Title: c.Task.Title, URL: c.Task.URL,
	}
}

// reserve reserves the task of c and fails the test unless it was given.
func reserve(t testing.TB, j *journal.Journal, c claim.Hold, now time.Time) {
	t.Helper()
	_, refusal, err := j.Reserve(t.Context(), c, now, 0)
	do(t, err)
	if refusal != nil {
		t.Fatalf("Reserve(%s for %s) refused: %+v", c.Task.ID, c.Agent, refusal)
	}
}

func save(t testing.TB, j *journal.Journal, c claim.Hold, events ...claim.Fact) {
	t.Helper()
	do(t, j.Save(t.Context(), claim.Change{Holds: []claim.Hold{c}, Facts: events}))
}

// grant reserves the task of c, saves c as held, and returns it so.
func grant(t testing.TB, j *journal.Journal, c claim.Hold, at time.Time) claim.Hold {
	t.Helper()
	reserve(t, j, c, at)
	c = held(c, at)
	save(t, j, c)
	return c
}

func events(t testing.TB, j *journal.Journal, f journal.FactFilter) []claim.Fact {
	t.Helper()
	list, err := j.Facts(t.Context(), f)
	do(t, err)
	return list
}

func live(t testing.TB, j *journal.Journal) []claim.Hold {
	t.Helper()
	list, _, err := j.Live(t.Context())
	do(t, err)
	return list
}

func TestCheck(t *testing.T) {
	pgtest.OnlySQLite(t)
	j := newJournal(t)
	if err := j.Check(t.Context()); err != nil {
		t.Errorf("Check of a sound journal: %v", err)
	}
	runSQL(t, j.Path(), "PRAGMA ignore_check_constraints = ON; INSERT INTO owed (fact, kind, at, state) VALUES (7, 'mesh', 0, 'lost')")
	err := j.Check(t.Context())
	if err == nil {
		t.Fatal("Check of a damaged journal succeeded")
	}
	for _, part := range []string{j.Path(), "damaged", "owed", "move it"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func TestClose(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Sandman", "a", t0), t0)
	do(t, j.Close())
	if err := j.Save(t.Context(), claim.Change{Holds: []claim.Hold{c}}); err == nil {
		t.Error("Save on a closed journal succeeded")
	}
	if _, _, err := j.Live(t.Context()); err == nil {
		t.Error("Live on a closed journal succeeded")
	}
	if err := j.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	// Everything is in the one file: it may be copied.
	for _, suffix := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(j.Path() + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was left behind: %v", suffix, err)
		}
	}
}

// What callers may ask for by any text is not found by one that no database holds.
func TestAnyText(t *testing.T) {
	j := newJournal(t)
	for _, text := range []string{"a\x00b", "a\xff", "'", "?1", "\u202e", strings.Repeat("ä", 10_000)} {
		if _, err := j.Hold(t.Context(), claim.ID(text)); !errors.Is(err, claim.ErrUnknownClaim) {
			t.Errorf("claim %.20q: %v, want ErrUnknownClaim", text, err)
		}
		if found, err := j.Feed(t.Context(), journal.FactFilter{Agent: text}); err != nil || len(found) > 0 {
			t.Errorf("events of agent %.20q: %v, %v", text, found, err)
		}
		if unknown, err := j.AckTriggers(t.Context(), "Oracle", []string{text}); err != nil || len(unknown) != 1 {
			t.Errorf("acknowledging %.20q: %v, %v, want it unknown", text, unknown, err)
		}
		if _, err := j.BeginRequest(t.Context(), 1000, text, "f", t0); err != nil {
			t.Errorf("key %.20q: %v", text, err)
		}
		if _, err := j.BeginRequest(t.Context(), 1000, text, "f", t0); !errors.Is(err, outbox.ErrUnanswered) {
			t.Errorf("key %.20q again: %v, want ErrUnanswered", text, err)
		}
	}
}

func TestMeta(t *testing.T) {
	j := newJournal(t)
	want := func(key, want string) {
		t.Helper()
		if got, err := j.Meta(t.Context(), key); err != nil || got != want {
			t.Errorf("Meta(%q) = %q, %v, want %q", key, got, err, want)
		}
	}
	want("cursor", "")
	do(t, j.SetMeta(t.Context(), "cursor", "1"))
	do(t, j.SetMeta(t.Context(), "cursor", "2"))
	do(t, j.SetMeta(t.Context(), "other", "3"))
	j = reopen(t, j)
	want("cursor", "2")
	want("other", "3")
}

// do fails the test at once if there was an error.
func do(t interface {
	Helper()
	Fatal(...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// check fails the test if there was an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// errOf returns the error of a call alone.
func errOf[T any](_ T, err error) error { return err }

// refuse tries to reserve the task of c, which must be refused.
func refuse(t testing.TB, j *journal.Journal, c claim.Hold, now time.Time, limit int) *claim.Refusal {
	t.Helper()
	_, refusal, err := j.Reserve(t.Context(), c, now, limit)
	if err != nil || refusal == nil {
		t.Fatalf("Reserve(%s for %s) = %v, %v, want a refusal", c.Task.ID, c.Agent, refusal, err)
	}
	return refusal
}

// same checks what came of a call.
func same(t testing.TB, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
