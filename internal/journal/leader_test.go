package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/testkit/pgtest"
)

// board makes the names of journals that no other test has.
var board atomic.Int64

// shared is a new journal on the server that tests of journals in PostgreSQL have.
func shared(t *testing.T) Postgres {
	t.Helper()
	pgtest.OnlyPostgres(t)
	return Postgres{URL: pgtest.URL(), Schema: "terms", Board: fmt.Sprintf("%x", board.Add(1))}
}

// member dials a database with terms and patience of a test's.
func member(t *testing.T, p Postgres, term, patience time.Duration) *Database {
	t.Helper()
	made, err := newPostgres(p)
	do(t, err)
	made.term, made.patience = term, patience
	d, err := dial(t.Context(), made)
	do(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// leads has a member take the lead, as soon as it can, and open the journal.
func leads(t *testing.T, d *Database, name string) (*Journal, Term) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		term, err := d.Lead(t.Context(), name)
		do(t, err)
		if term.Epoch > 0 {
			j, err := d.Open(t.Context(), term)
			do(t, err)
			t.Cleanup(func() { j.Close() })
			return j, term
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal("it cannot take the lead")
		}
	}
}

func isOver(j *Journal) bool {
	select {
	case <-j.Over():
		return true
	default:
		return false
	}
}

// wantDeposed checks that nothing can be saved any more.
func wantDeposed(t *testing.T, j *Journal) {
	t.Helper()
	err := j.SetMeta(t.Context(), "late", "v")
	if !errors.Is(err, ErrDeposed) || !isUnavailable(err) {
		t.Errorf("to save something: %v, want ErrDeposed, with when to ask again", err)
	}
	if !isOver(j) {
		t.Error("the journal is not over")
	}
}

func isUnavailable(err error) bool {
	_, ok := errors.AsType[*claim.JournalError](err)
	return ok
}

func wantMeta(t *testing.T, j *Journal, key, want string) {
	t.Helper()
	if got, err := j.Meta(t.Context(), key); err != nil || got != want {
		t.Errorf("%s is %q, %v; want %q", key, got, err, want)
	}
}

// Many ask for the lead at once, of a database that none has seen before.
func TestOneLeads(t *testing.T) {
	p := shared(t)
	const members = 5
	all := make([]*Database, members)
	var wait sync.WaitGroup
	for i := range members {
		wait.Go(func() {
			d, err := Dial(t.Context(), p)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { d.Close() })
			all[i] = d
		})
	}
	wait.Wait()
	if t.Failed() {
		return
	}
	var last Term
	for range 20 {
		got := make([]Term, members)
		for i, d := range all {
			wait.Go(func() {
				term, err := d.Lead(t.Context(), fmt.Sprint("m", i))
				check(t, err)
				got[i] = term
			})
		}
		wait.Wait()
		winner := -1
		for i, term := range got {
			if term.Epoch == 0 {
				continue
			}
			if winner >= 0 || term.Epoch != last.Epoch+1 {
				t.Fatalf("after epoch %d they got %v", last.Epoch, got)
			}
			winner = i
		}
		if winner < 0 {
			t.Fatalf("nobody leads after epoch %d", last.Epoch)
		}
		last = got[winner]
		check(t, all[winner].Introduce(t.Context(), fmt.Sprint("m", winner), []byte(`{"at":"x"}`), time.Hour))
		s, err := all[(winner+1)%members].Members(t.Context())
		if err != nil || s.Leader != fmt.Sprint("m", winner) || s.Epoch != last.Epoch || s.Over || s.Since.IsZero() || len(s.Members) == 0 || string(s.Members[0].Body) != `{"at":"x"}` || s.Members[0].Seen.After(s.Now) {
			t.Errorf("Members = %+v, %v", s, err)
		}
		check(t, all[winner].Renew(t.Context(), last))
		check(t, all[winner].Resign(t.Context(), last))
		if err := all[winner].Renew(t.Context(), last); !errors.Is(err, ErrDeposed) {
			t.Errorf("renewing what was given up: %v", err)
		}
		if s, err := all[0].Members(t.Context()); err != nil || !s.Over {
			t.Errorf("after it gave up: %+v, %v", s, err)
		}
	}
}

// Who does not renew is followed, and can save nothing from then on.
func TestDeposed(t *testing.T) {
	for _, blind := range []bool{false, true} {
		t.Run(map[bool]string{false: "asserted", true: "not asserted"}[blind], func(t *testing.T) {
			p := shared(t)
			a, b := member(t, p, time.Hour, 2*time.Second), member(t, p, time.Hour, 2*time.Second)
			a.blind = blind
			old, led := leads(t, a, "a")
			do(t, old.SetMeta(t.Context(), "k", "old"))
			if term, err := b.Lead(t.Context(), "b"); term.Epoch != 0 || err != nil {
				t.Fatalf("in a term of another: %v, %v", term, err)
			}
			// However busy the machine is, it had saved something before its term ran out.
			do(t, errOf(a.db.ExecContext(t.Context(), a.in("UPDATE %s.leadership SET until = clock_timestamp()"))))
			j, next := leads(t, b, "b")
			if next.Epoch != led.Epoch+1 {
				t.Errorf("epoch %d follows %d", next.Epoch, led.Epoch)
			}
			wantMeta(t, j, "k", "old")
			err := old.SetMeta(t.Context(), "k", "late")
			if blind { // that is what the epoch is for
				do(t, err)
				wantMeta(t, j, "k", "late")
				return
			}
			if err == nil {
				t.Error("a leader that was followed saved something")
			}
			wantDeposed(t, old)
			if err := a.Renew(t.Context(), led); !errors.Is(err, ErrDeposed) {
				t.Errorf("Renew = %v", err)
			}
			check(t, j.SetMeta(t.Context(), "k", "new"))
			wantMeta(t, j, "k", "new")
			if isOver(j) {
				t.Error("the new leader's journal is over")
			}
		})
	}
}

// A term that ran out is over, also if nobody followed.
func TestNobodyFollows(t *testing.T) {
	p := shared(t)
	a := member(t, p, time.Hour, 2*time.Second)
	old, epoch := leads(t, a, "a")
	do(t, a.Resign(t.Context(), epoch))
	wantDeposed(t, old)
	j, _ := leads(t, a, "a")
	wantMeta(t, j, "late", "")
}

// While a transaction of the former leader is open nobody follows; but it is not open for
// long. That the term is renewed does not wait for it.
func TestOpenTransaction(t *testing.T) {
	for _, tt := range []struct {
		name         string
		patience     time.Duration
		frozen       bool // the transaction is held open until the next leader has begun
		blind, saved bool
	}{
		{name: "it ends", patience: 10 * time.Second, saved: true},
		{name: "its leader is frozen", patience: 300 * time.Millisecond, frozen: true},
		{name: "its leader is frozen, and nothing is asserted", patience: 10 * time.Second, frozen: true, blind: true, saved: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := shared(t)
			a, b := member(t, p, time.Hour, tt.patience), member(t, p, time.Hour, 2*time.Second)
			a.blind = tt.blind
			old, epoch := leads(t, a, "a")
			begun, hold, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			release := sync.OnceFunc(func() { close(hold) })
			defer release()
			go func() {
				result <- old.write(t.Context(), func(tx *tx) error {
					err := setMeta(t.Context(), tx, "k", "old")
					close(begun)
					<-hold
					return err
				})
			}()
			<-begun
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if err := a.Renew(ctx, epoch); err != nil {
				t.Errorf("to renew it meanwhile: %v", err)
			}
			do(t, a.Resign(ctx, epoch))
			if !tt.blind {
				if term, err := b.Lead(ctx, "b"); term.Epoch != 0 || err != nil {
					t.Fatalf("another leads while the transaction is open: %v, %v", term, err)
				}
			}
			if !tt.frozen {
				release()
			}
			at := time.Now()
			j, _ := leads(t, b, "b")
			if took := time.Since(at); took > 5*time.Second {
				t.Errorf("it took the next leader %v", took)
			}
			want := ""
			if tt.frozen {
				wantMeta(t, j, "k", "")
				release()
			}
			if err := <-result; (err == nil) != tt.saved {
				t.Errorf("the transaction: %v, want that it is saved: %v", err, tt.saved)
			}
			if tt.saved {
				want = "old"
			}
			wantMeta(t, j, "k", want)
			if !tt.blind {
				wantDeposed(t, old)
			}
		})
	}
}

// Whatever becomes of a COMMIT and its answer, the caller is told what came of it.
func TestFateOfACommit(t *testing.T) {
	for _, tt := range []struct {
		how   fault
		saved bool
	}{{loseAnswer, true}, {loseQuestion, false}, {hangQuestion, false}} {
		t.Run(string(tt.how), func(t *testing.T) {
			p := shared(t)
			way := newProxy(t, p.URL)
			p.URL = way.url
			j, _ := leads(t, member(t, p, time.Hour, 500*time.Millisecond), "a")
			way.plan(tt.how)
			err := j.SetMeta(t.Context(), "k", "v")
			if (err == nil) != tt.saved || err != nil && !isUnavailable(err) {
				t.Errorf("SetMeta = %v, want that it is saved: %v", err, tt.saved)
			}
			wantMeta(t, j, "k", map[bool]string{true: "v"}[tt.saved])
			if err := j.SetMeta(t.Context(), "next", "v"); err != nil || isOver(j) {
				t.Errorf("the next one: %v; over: %v", err, isOver(j))
			}
		})
	}
}

// What became of a COMMIT stays unknown: nothing is saved on top of it. Those who wait are
// told so while it is asked.
func TestFateUnknown(t *testing.T) {
	p := shared(t)
	way := newProxy(t, p.URL)
	p.URL = way.url
	d := member(t, p, time.Hour, time.Second)
	j, led := leads(t, d, "a")
	met := way.plan(refuseAll)
	result := make(chan error, 1)
	go func() {
		result <- j.SetMeta(t.Context(), "k", "v")
	}()
	<-met
	begun := time.Now()
	for range 5 {
		// It waits until the loss is seen, at most.
		if err := j.SetMeta(t.Context(), "next", "v"); !isUnavailable(err) {
			t.Errorf("another one meanwhile: %v", err)
		}
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("those who wait were told so after %v", took)
	}
	if err := <-result; !isUnavailable(err) || errors.Is(err, ErrDeposed) || !strings.Contains(err.Error(), "not known") {
		t.Errorf("SetMeta = %v, want that it is not known", err)
	}
	way.set(false)
	wantDeposed(t, j)
	comesBack(t, func() error { return d.Resign(t.Context(), led) })
	epoch, err := d.Lead(t.Context(), "a")
	do(t, err)
	var again *Journal
	comesBack(t, func() (err error) {
		again, err = d.Open(t.Context(), epoch)
		return err
	})
	defer again.Close()
	wantMeta(t, again, "k", "v")
	wantMeta(t, again, "late", "")
}

// The number of a transaction may be given to another one after a crash.
func TestFateOfAReusedNumber(t *testing.T) {
	p := shared(t)
	d := member(t, p, time.Hour, time.Second)
	j, _ := leads(t, d, "a")
	e := j.engine.(*leader)
	do(t, j.SetMeta(t.Context(), "k", "v"))
	for _, tt := range []struct {
		what string
		u    unsure
		want bool
	}{
		{"its own", unsure{id: e.id, number: e.last}, true},
		{"another's", unsure{id: e.id, number: e.last + 1}, false},
		{"nobody's", unsure{id: "9" + e.id, number: e.last + 1}, false},
	} {
		if kept, err := e.isKept(t.Context(), d.db, &tt.u); kept != tt.want || err != nil {
			t.Errorf("the number is %s: %v, %v; want %v", tt.what, kept, err, tt.want)
		}
	}
	if kept, err := e.isKept(t.Context(), d.db, &unsure{id: e.id, number: e.last + 2}); kept || err != errUnknown {
		t.Errorf("of a database that lacks the one before: %v, %v", kept, err)
	}
}

// change runs a statement on the database's tables, as a failover or an administrator may.
func (d *Database) change(t *testing.T, statement string) {
	t.Helper()
	do(t, errOf(d.db.ExecContext(t.Context(), d.in(statement))))
}

// After a failover to a standby that lagged, two terms have one epoch. Only the one in the database
// renews itself and saves anything.
func TestTwoTermsOfOneEpoch(t *testing.T) {
	p := shared(t)
	a, b := member(t, p, time.Hour, 2*time.Second), member(t, p, time.Hour, 2*time.Second)
	old, first := leads(t, a, "a")
	// The standby never heard of a's term.
	a.change(t, "UPDATE %s.leadership SET epoch = 0, id = '', name = '', until = '-infinity'; DELETE FROM %[1]s.terms")
	j, second := leads(t, b, "b")
	if first.Epoch != second.Epoch {
		t.Fatalf("epochs %d and %d, want one", first.Epoch, second.Epoch)
	}
	wantDeposed(t, old)
	if err := a.Renew(t.Context(), first); !errors.Is(err, ErrDeposed) {
		t.Errorf("Renew = %v, want that the term is over", err)
	}
	check(t, a.Resign(t.Context(), first))
	if err := b.Renew(t.Context(), second); err != nil {
		t.Errorf("the leader's term, after the other has resigned: %v", err)
	}
	check(t, j.SetMeta(t.Context(), "k", "v"))
}

// Whatever became of the leader's row, somebody leads.
func TestLeaderWhoseRowIsOdd(t *testing.T) {
	for _, tt := range []struct {
		name, change string
		over         bool
	}{
		{"as it was", "UPDATE %s.leadership SET name = name", false},
		{"gone", "DELETE FROM %s.leadership", true},
		{"of a clock that is ahead", "UPDATE %s.leadership SET until = clock_timestamp() + interval '2 hours'", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := shared(t)
			a, b := member(t, p, time.Hour, 2*time.Second), member(t, p, time.Hour, 2*time.Second)
			_, first := leads(t, a, "a")
			a.change(t, tt.change)
			if s, err := b.Members(t.Context()); err != nil || s.Over != tt.over {
				t.Errorf("the term is over: %v, %v; want %v", s.Over, err, tt.over)
			}
			next, err := b.Lead(t.Context(), "b")
			if err != nil || (next.Epoch == first.Epoch+1) != tt.over {
				t.Fatalf("another got %v after %v, %v; want the lead: %v", next, first, err, tt.over)
			}
			if err := a.Renew(t.Context(), first); errors.Is(err, ErrDeposed) != tt.over {
				t.Errorf("Renew = %v", err)
			}
		})
	}
}
