package foreign_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/foreign"
	"dibs/internal/task"
	"dibs/internal/testkit"
	"dibs/internal/worklog"
)

// board is a board with two members of a cluster, of which one watches, and an outside daemon. It is
// also the mesh log, which gets an entry a minute after its grant.
type board struct {
	*foreign.Lookout
	pages []task.Task

	mu      sync.Mutex
	members map[claim.ID]bool // the claims of the other member that this one knows of
	grants  []time.Time       // those of the outsider
	asked   int
}

var inside = claim.Settings{Timeout: 30 * time.Minute, WriteWindow: 2 * time.Second, Settle: 3 * time.Second}

func (b *board) OtherGrants(_ context.Context, since time.Time, _ claim.Settings) (found []worklog.Grant, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	for _, at := range b.grants {
		if at.After(since) && time.Since(at) > time.Minute {
			found = append(found, worklog.Grant{EntryID: "e", Agent: "Oracle", Settings: claim.Settings{Timeout: 30 * time.Minute, WriteWindow: 2 * time.Second, Settle: time.Second}})
		}
	}
	return found, nil
}

// Recorded says that no entry is this daemon's own.
func (*board) Recorded(context.Context, string) (bool, error) { return false, nil }

func (b *board) Find(_ context.Context, id claim.ID) (c claim.Hold, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.members[id] {
		err = claim.ErrUnknownClaim
	}
	return c, err
}

// requests is how often the mesh log was asked.
func (b *board) requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

// claim puts a claim on the board.
func (b *board) claim() claim.ID {
	id := claim.NewID(time.Now())
	b.pages = append(b.pages, task.Task{Token: string(id)})
	return id
}

// outsider has the daemon outside claim.
func (b *board) outsider() {
	b.claim()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grants = append(b.grants, time.Now())
}

// pass lets some time go by, in which the board is read every half minute, and the other member
// claims as often. It knows of each claim only a while after it was on the board.
func (b *board) pass(d time.Duration) {
	for range d / (30 * time.Second) {
		id := b.claim()
		b.See(context.Background(), slices.Values(b.pages))
		time.Sleep(30 * time.Second)
		b.mu.Lock()
		b.members[id] = true
		b.mu.Unlock()
	}
}

func onBoard(t *testing.T, test func(b *board)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &board{members: make(map[claim.ID]bool)}
		b.Lookout = foreign.New(foreign.Config{
			Mesh: b, Journal: b, Claims: b, Settings: inside, Clock: testkit.Clock{}, Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { b.Run(ctx); close(done) }()
		test(b)
		cancel()
		<-done
	})
}

// Known claims cause no query. They do not delay the report of a daemon with other settings, which
// comes soon after its first grant and ends after its last.
func TestOutsiderIsNamedSoon(t *testing.T) {
	onBoard(t, func(b *board) {
		b.pass(50 * time.Minute)
		if n := b.requests(); n > 0 {
			t.Errorf("the mesh log was asked %d times where there is nobody else", n)
		}
		b.outsider()
		b.pass(4 * time.Minute)
		if said := b.Lines(); len(said) != 1 || !strings.HasPrefix(said[0], "the daemon of Oracle claims under claim.settle 1s") {
			t.Errorf("a few minutes after its grant the outsider is named so: %q", said)
		}
		b.pass(5 * time.Hour)
		if said := b.Lines(); len(said) > 0 {
			t.Errorf("five hours later it is said: %q", said)
		}
		if n := b.requests(); n > 4 {
			t.Errorf("the mesh log was asked %d times", n)
		}
	})
}

// Own claims and old claims cause no query either.
func TestOldClaimsAreNoReason(t *testing.T) {
	onBoard(t, func(b *board) {
		b.outsider()
		time.Sleep(foreign.Since + time.Minute)
		b.pass(time.Hour)
		if n := b.requests(); n > 0 {
			t.Errorf("the mesh log was asked %d times", n)
		}
	})
}
