package journal

import (
	"errors"
	"testing"
	"time"
)

// change runs a statement on the database's tables, as a failover or an administrator may.
func (d *Database) change(t *testing.T, statement string) {
	t.Helper()
	if _, err := d.db.ExecContext(t.Context(), d.in(statement)); err != nil {
		t.Fatal(err)
	}
}

// After a failover to a standby that lagged, two terms have one epoch. Only the one in the database
// renews itself and saves anything.
func TestTwoTermsOfOneEpoch(t *testing.T) {
	p := shared(t)
	a, b := member(t, p, time.Hour, 2*time.Second), member(t, p, time.Hour, 2*time.Second)
	old, first := leads(t, a, "a")
	// The standby never heard of a's term.
	a.change(t, "UPDATE %s.leader SET epoch = 0, id = '', name = '', until = '-infinity'; DELETE FROM %[1]s.terms")
	j, second := leads(t, b, "b")
	if first.Epoch != second.Epoch {
		t.Fatalf("epochs %d and %d, want one", first.Epoch, second.Epoch)
	}
	wantDeposed(t, old)
	if err := a.Renew(t.Context(), first); !errors.Is(err, ErrDeposed) {
		t.Errorf("Renew = %v, want that the term is over", err)
	}
	if err := a.Resign(t.Context(), first); err != nil {
		t.Error(err)
	}
	if err := b.Renew(t.Context(), second); err != nil {
		t.Errorf("the leader's term, after the other has resigned: %v", err)
	}
	if err := j.SetMeta(t.Context(), "k", "v"); err != nil {
		t.Error(err)
	}
}

// Whatever became of the leader's row, somebody leads.
func TestLeaderWhoseRowIsOdd(t *testing.T) {
	for _, tt := range []struct {
		name, change string
		over         bool
	}{
		{"as it was", "UPDATE %s.leader SET name = name", false},
		{"gone", "DELETE FROM %s.leader", true},
		{"of a clock that is ahead", "UPDATE %s.leader SET until = clock_timestamp() + interval '2 hours'", true},
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

// A leader whose database was set back to an earlier transaction of its own term saves nothing
// more: it would build on what is not there.
func TestDatabaseSetBackWithinATerm(t *testing.T) {
	d := member(t, shared(t), time.Hour, 2*time.Second)
	j, _ := leads(t, d, "a")
	if err := j.SetMeta(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	d.change(t, "UPDATE %s.terms SET last = last - 1")
	wantDeposed(t, j)
}
