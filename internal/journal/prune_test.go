package journal_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/outbox"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// deliverAll empties the outbox.
func deliverAll(t testing.TB, j *journal.Journal) {
	t.Helper()
	for _, in := range next(t, j, t0.Add(1000*time.Hour), 0) {
		do(t, j.Delivered(t.Context(), in, "", t0))
	}
}

func prune(t testing.TB, j *journal.Journal, before time.Time, want int) {
	t.Helper()
	got, err := j.Prune(t.Context(), before)
	do(t, err)
	if got != want {
		t.Errorf("Prune removed %d rows, want %d", got, want)
	}
}

func wantEvents(t testing.TB, j *journal.Journal, want ...claim.Fact) {
	t.Helper()
	same(t, "events", want, events(t, j, journal.FactFilter{}))
}

func TestPruneEvents(t *testing.T) {
	j := newJournal(t)
	c := attempt("Sandman", "a", t0)
	local := event(c, claim.KindRenewed, t0)
	both := event(c, claim.KindFailed, t0)
	young := event(c, claim.KindGranted, t0.Add(time.Hour))
	record(t, j, local, both, young)
	cut := young.At

	prune(t, j, cut, 1) // only what no log wants
	wantEvents(t, j, both, young)
	do(t, j.Delivered(t.Context(), entry(t, j, both, outbox.TaskEntry), "", t0))
	item := entry(t, j, both, outbox.MeshEntry)
	for _, change := range []func() error{
		func() error { return nil }, // due
		func() error { return j.StartSending(t.Context(), item, t0) },
		func() error { return j.NoteInDoubt(t.Context(), item, t0, nil) },
	} {
		do(t, change())
		prune(t, j, cut, 0)
		wantEvents(t, j, both, young)
	}
	do(t, j.Delivered(t.Context(), item, "", t0))
	prune(t, j, cut, 1)
	wantEvents(t, j, young)
	deliverAll(t, j)
	prune(t, j, cut, 0) // not older than cut
	prune(t, j, cut.Add(time.Millisecond), 1)
	wantEvents(t, j)
}

// Whoever went as far as an event that was pruned goes on behind it.
func TestPrunedEventsKeepTheirPlace(t *testing.T) {
	j := newJournal(t)
	c := attempt("Sandman", "a", t0)
	first := event(c, claim.KindRenewed, t0)
	record(t, j, first)
	prune(t, j, t0.Add(time.Hour), 1)
	if got := events(t, j, journal.FactFilter{After: first.ID}); len(got) != 0 {
		t.Errorf("after a pruned event: %+v, want nothing", got)
	}
	later := []claim.Fact{event(c, claim.KindRenewed, t0.Add(2*time.Hour)), event(c, claim.KindRenewed, t0.Add(3*time.Hour))}
	record(t, j, later...)
	same(t, "after a pruned event", later, events(t, j, journal.FactFilter{After: first.ID}))
}

// Denials stay until they have been summed up, or the sum would be wrong.
func TestPruneKeepsDenialsOfLiveClaims(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Oracle", "a", t0), t0)
	refuse(t, j, attempt("Sandman", "a", t0), t0, 0)
	cut := t0.Add(time.Hour)
	prune(t, j, cut, 0)
	save(t, j, ended(c, claim.EndReleased, t0))
	list := events(t, j, journal.FactFilter{})
	if len(list) != 2 || list[1].Kind != claim.KindContested || list[1].Count != 1 {
		t.Errorf("events = %+v, want the denial and its sum", list)
	}
	prune(t, j, cut, 1) // the denial; claim and sum wait for the delivery
	deliverAll(t, j)
	prune(t, j, cut, 2)
	wantEvents(t, j)
}

func TestPruneClaims(t *testing.T) {
	j := newJournal(t)
	cut := t0.Add(24 * time.Hour)
	alive := grant(t, j, attempt("Sandman", "alive", t0), t0)
	young := grant(t, j, attempt("Sandman", "young", t0), t0)
	young = ended(young, claim.EndReleased, cut)
	save(t, j, young)
	owing := grant(t, j, attempt("Sandman", "owing", t0), t0)
	owing = ended(owing, claim.EndReleased, t0)
	save(t, j, owing, event(owing, claim.KindReleased, cut))
	old := grant(t, j, attempt("Sandman", "old", t0), t0)
	save(t, j, ended(old, claim.EndReleased, t0))

	prune(t, j, cut, 1)
	for _, want := range []claim.Hold{owing, young, alive} {
		got, err := j.Hold(t.Context(), want.ID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", want.Task.ID, err, diff)
		}
	}
	if _, err := j.Hold(t.Context(), old.ID); !errors.Is(err, claim.ErrUnknownClaim) {
		t.Errorf("old: %v, want ErrUnknownClaim", err)
	}
	deliverAll(t, j)
	prune(t, j, cut, 1)
	if _, err := j.Hold(t.Context(), owing.ID); !errors.Is(err, claim.ErrUnknownClaim) {
		t.Errorf("Claim = %v, want ErrUnknownClaim", err)
	}
}

func TestPruneRequests(t *testing.T) {
	ctx := t.Context()
	j := newJournal(t)
	cut := t0.Add(24 * time.Hour)
	begin := func(key string, at time.Time) {
		t.Helper()
		if prior, err := j.BeginRequest(ctx, 1000, key, "f", at); err != nil || prior != nil {
			t.Fatalf("BeginRequest(%s) = %v, %v", key, prior, err)
		}
	}
	answer := outbox.Answer{Status: 201, Body: []byte("{}")}
	c := grant(t, j, attempt("Sandman", "a", t0), t0)
	begin("old", t0)
	do(t, j.FinishRequest(ctx, 1000, "old", answer))
	begin("young", cut)
	do(t, j.FinishRequest(ctx, 1000, "young", answer))
	begin("working", cut)
	begin("gave up", t0)
	begin("alive", t0)
	do(t, j.BindRequest(ctx, 1000, "alive", c.ID))
	do(t, j.FinishRequest(ctx, 1000, "alive", answer))

	prune(t, j, cut, 2)
	for _, key := range []string{"old", "gave up"} {
		if prior, err := j.BeginRequest(ctx, 1000, key, "other", cut); err != nil || prior != nil {
			t.Errorf("the pruned key %s = %v, %v, want it to be free", key, prior, err)
		}
	}
	for _, key := range []string{"young", "alive"} {
		if prior, err := j.BeginRequest(ctx, 1000, key, "f", cut); err != nil || !cmp.Equal(prior, &answer) {
			t.Errorf("key %s = %v, %v, want its answer", key, prior, err)
		}
	}
	if _, err := j.BeginRequest(ctx, 1000, "working", "f", cut); !errors.Is(err, outbox.ErrUnanswered) {
		t.Errorf("key in flight = %v, want ErrUnanswered", err)
	}
	save(t, j, ended(c, claim.EndReleased, cut))
	prune(t, j, cut, 1)
}

// Tasks that were made are forgotten with their time, whatever became of them, and not before.
func TestPruneCreations(t *testing.T) {
	j := newJournal(t)
	for id, at := range map[string]time.Time{"old": t0, "young": t0.Add(time.Hour)} {
		wantBegin(t, j, id, "f", nil, nil)
		do(t, errOf(j.Owe(t.Context(), outbox.Intent{ID: id, Kind: outbox.Creation, At: at, UID: 1000, Key: id})))
	}
	prune(t, j, t0.Add(time.Millisecond), 3) // with both requests
	for id, want := range map[string]bool{"old": false, "young": true} {
		list, err := j.NextOwed(t.Context(), outbox.Creation, t0, 0)
		do(t, err)
		if got := slices.ContainsFunc(list, func(in outbox.Intent) bool { return in.ID == id }); got != want {
			t.Errorf("%s is there: %v, want %v", id, got, want)
		}
	}
}

func TestPruneMuch(t *testing.T) {
	testkit.TakesSeconds(t)
	j := newJournal(t)
	c := attempt("Sandman", "a", t0)
	list := make([]claim.Fact, 1234) // more than are removed in one transaction
	for i := range list {
		list[i] = event(c, claim.KindRenewed, t0)
	}
	for some := range slices.Chunk(list, 100) { // a caller of PostgreSQL waits for a moment only
		record(t, j, some...)
	}
	prune(t, j, t0.Add(time.Hour), len(list))
	wantEvents(t, j)
}
