package doubt_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/doubt"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// record is a journal with claims and values by key. It can be away.
type record struct {
	claims map[claim.ID]claim.Hold
	kept   map[string]string
	away   error
	file   bool // it lies in no shared database
}

func (r *record) Find(_ context.Context, id claim.ID) (claim.Hold, error) {
	if c, known := r.claims[id]; known || r.away != nil {
		return c, r.away
	}
	return claim.Hold{}, claim.ErrUnknownClaim
}

func (r *record) Meta(_ context.Context, key string) (string, error) { return r.kept[key], r.away }

func (r *record) SetMeta(_ context.Context, key, value string) error {
	if r.away == nil {
		r.kept[key] = value
	}
	return r.away
}

// ours is the origin of the journal, which it has since the bubbles began.
const ours claim.Origin = "0ABC"

// strange makes the claim on a page that of another journal, and older one from before this journal
// had an origin.
func strange(t *task.Task) { t.Token = string(claim.Origin("0TH3").NewID(time.Now().Add(time.Second))) }

var before = claim.Origin("0TH3").NewID(time.Date(1999, 12, 31, 23, 59, 0, 0, time.UTC))

func older(t *task.Task) { t.Token = string(before) }

// doubt opens the doubt of a journal.
func (r *record) doubt(t *testing.T) *doubt.Doubt { return r.doubtAfter(t, time.Time{}, time.Time{}) }

// doubtAfter is doubt of a journal that lost what it had in a time.
func (r *record) doubtAfter(t *testing.T, from, until time.Time) *doubt.Doubt {
	t.Helper()
	if r.kept["origin"] == "" {
		r.kept["origin"] = string(ours) + " 2000-01-01T00:00:00Z"
	}
	d, err := doubt.OpenDoubt(t.Context(), doubt.DoubtConfig{
		LostFrom: from, LostUntil: until, Shared: !r.file, Claims: r, Storage: r, Policy: claim.Policy{Timeout: 30 * time.Minute}, Clock: testkit.Clock{}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, d.SetBot(t.Context(), "bot"))
	return d
}

// A leader may find that the database was set back only after it doubted the journal.
func TestDoubtOfWhatIsKnownToBeLost(t *testing.T) {
	r := &record{kept: make(map[string]string)}
	now := time.Now()
	shown := task.Task{ID: "1", Status: task.InProgress, ClaimedBy: "Sandman", ClaimedAt: now, Token: string(ours.NewID(now)), EditedBy: "bot"}
	r.doubt(t).See(t.Context(), shown)
	if r.doubtAfter(t, now.Add(-2*time.Hour), now.Add(-time.Hour)).Why() == nil {
		t.Error("a loss of other things ends the doubt")
	}
	after := r.doubtAfter(t, now.Add(-time.Minute), now.Add(time.Minute))
	if after.See(t.Context(), shown); after.Why() != nil || r.doubt(t).Why() != nil {
		t.Errorf("with the loss known: %v, and later: %v; want no doubt", after.Why(), r.doubt(t).Why())
	}
}

// Only one thing on a page proves that the journal was restored: a claim that the journal must have
// made, and does not know in that state.
func TestDoubt(t *testing.T) {
	const page = task.ID("11111111-2222-3333-4444-555555555555")
	for _, tt := range []struct {
		name    string
		change  func(t *task.Task)
		known   func(c *claim.Hold) // nil: the journal does not know the claim
		adopted bool                // the journal was, after the claim was made
		want    string              // what is said of the claim; empty for no doubt
		beside  bool                // it is a stranger's
		file    bool
	}{
		{name: "a stranger's", change: strange, beside: true},
		{name: "a stranger's, by whomever", change: func(t *task.Task) { strange(t); t.EditedBy = "other" }, beside: true},
		{name: "a stranger's, and over", change: func(t *task.Task) { strange(t); t.Status = task.Completed }},
		{name: "a stranger's, void", change: func(t *task.Task) { strange(t); t.Token = "void " + t.Token }},
		{name: "older than the journal", change: older, want: "which it does not know"},
		{name: "older than the journal, which is a file", change: older, file: true, beside: true},
		{name: "older than the journal, which was adopted", change: older, adopted: true, beside: true},
		{name: "known, from before the journal had an origin", change: older, known: func(*claim.Hold) {}},
		{name: "unknown", want: "which it does not know"},
		{name: "unknown, on an open task", change: func(t *task.Task) { t.Status = task.Open }, want: "which it does not know"},
		{name: "known", known: func(*claim.Hold) {}},
		{name: "known, and over", known: func(c *claim.Hold) { c.State = claim.Ended }},
		{name: "known, and never written", known: func(c *claim.Hold) { c.ClaimedAt = time.Time{} }, want: "never had written"},
		{name: "known, and renewed since", known: func(c *claim.Hold) { c.ClaimedAt = c.ClaimedAt.Add(-2 * time.Minute) }, want: "renewed at"},
		{name: "known, and cut to the minute", known: func(c *claim.Hold) { c.ClaimedAt = c.ClaimedAt.Add(-time.Minute) }},
		{name: "known, and to be renewed", known: func(c *claim.Hold) { c.Noted, c.ClaimedAt = c.ClaimedAt, c.ClaimedAt.Add(-15*time.Minute) }},
		{name: "known of another page", known: func(c *claim.Hold) { c.Task.ID, c.ClaimedAt = "another", time.Time{} }},
		{name: "by a person", change: func(t *task.Task) { t.EditedBy = "Maria" }},
		{name: "by nobody knows whom", change: func(t *task.Task) { t.EditedBy = "" }},
		{name: "no claim of our form", change: func(t *task.Task) { t.Token = "mine" }},
		{name: "done", change: func(t *task.Task) { t.Token = "done " + t.Token + " Sandman" }},
		{name: "void", change: func(t *task.Task) { t.Token = "void " + t.Token }},
		{name: "finished", change: func(t *task.Task) { t.Status = task.Completed }},
		{name: "trashed", change: func(t *task.Task) { t.Trashed = true }},
		{name: "stale", change: func(t *task.Task) { t.ClaimedAt = t.ClaimedAt.Add(-time.Hour) }},
		{name: "assigned", change: func(t *task.Task) { t.ClaimedAt = time.Time{} }},
		{name: "adopted", adopted: true},
		{name: "adopted, and renewed since", adopted: true, change: func(t *task.Task) { t.ClaimedAt = t.ClaimedAt.Add(12 * time.Minute) }, want: "which it does not know"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &record{claims: make(map[claim.ID]claim.Hold), kept: make(map[string]string), file: tt.file}
				made := time.Now()
				shown := task.Task{
					ID: page, Title: "Fix the login", Status: task.InProgress, ClaimedBy: "Sandman", ClaimedAt: made,
					Token: string(ours.NewID(made)), EditedBy: "bot",
				}
				if tt.known != nil && tt.change != nil {
					tt.change(&shown)
				}
				id := claim.ID(shown.Token)
				if tt.known != nil {
					c := claim.Hold{ID: id, Agent: "Sandman", Task: shown, State: claim.Held, Lease: claim.Lease{ClaimedAt: made}}
					tt.known(&c)
					r.claims[id] = c
				}
				d := r.doubt(t)
				if tt.adopted {
					time.Sleep(10 * time.Minute)
					other := shown
					other.Token = string(ours.NewID(time.Now()))
					d.See(t.Context(), other)
					if done, err := d.Adopt(t.Context()); !done || err != nil {
						t.Fatalf("Adopt = %v, %v", done, err)
					}
					d = r.doubt(t) // it is known after a restart
				}
				if tt.change != nil {
					tt.change(&shown)
				}
				d.See(t.Context(), shown)
				why := d.Why()
				if r.doubt(t).Beside() != tt.beside || d.Beside() != tt.beside || (d.Stranger() != "") != tt.beside {
					t.Errorf("beside a stranger: %v, after a restart %v, %q; want %v", d.Beside(), r.doubt(t).Beside(), d.Stranger(), tt.beside)
				}
				if again := r.doubt(t).Why(); (again == nil) != (why == nil) || why != nil && again.Error() != why.Error() {
					t.Errorf("after a restart: %v, want %v", again, why)
				}
				if tt.want == "" {
					if why != nil {
						t.Errorf("Why = %v, want no doubt", why)
					}
					return
				}
				if failed, ok := errors.AsType[*claim.JournalError](why); !ok || failed.RetryAfter != 0 || !strings.Contains(why.Error(), tt.want) {
					t.Errorf("Why = %v, want %q", why, tt.want)
				}
			})
		})
	}
}

// A doubt that cannot be stored counts, and is stored when the page is seen again. So does a stranger.
func TestDoubtIsStored(t *testing.T) {
	r := &record{kept: make(map[string]string)}
	d := r.doubt(t)
	now := time.Now()
	shown := task.Task{ID: "x", Status: task.InProgress, ClaimedBy: "Sandman", ClaimedAt: now, Token: string(ours.NewID(now)), EditedBy: "bot"}
	away := errors.New("away")
	r.away = away
	d.See(t.Context(), shown)
	if why := d.Why(); why != nil {
		t.Errorf("what cannot be asked is doubted: %v", why)
	}
	r.away = nil
	unsaved := &unsaving{record: r, err: away}
	d, err := doubt.OpenDoubt(t.Context(), doubt.DoubtConfig{
		Claims: r, Storage: unsaved, Policy: claim.Policy{Timeout: 30 * time.Minute}, Clock: testkit.Clock{}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, d.SetBot(t.Context(), "bot"))
	met := shown
	strange(&met)
	d.See(t.Context(), met)
	d.See(t.Context(), shown)
	if d.Why() == nil || !d.Beside() {
		t.Error("what cannot be stored is not doubted")
	}
	unsaved.err = nil
	d.See(t.Context(), met)
	d.See(t.Context(), shown)
	if after := r.doubt(t); after.Why() == nil || !after.Beside() {
		t.Errorf("what is stored later: the doubt %v, a stranger %v; want both", after.Why(), after.Beside())
	}
}

// unsaving is a journal that cannot be written.
type unsaving struct {
	*record
	err error
}

func (u *unsaving) SetMeta(ctx context.Context, key, value string) error {
	if u.err != nil {
		return u.err
	}
	return u.record.SetMeta(ctx, key, value)
}
