package journal_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/outbox"
	"dibs/internal/outbox/outboxtest"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func record(t testing.TB, j *journal.Journal, list ...claim.Fact) {
	t.Helper()
	if err := j.Record(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
}

// next returns what both logs are owed, in the order of the events.
func next(t testing.TB, j *journal.Journal, now time.Time, limit int) []outbox.Intent {
	t.Helper()
	var all []outbox.Intent
	for _, kind := range []outbox.Kind{outbox.MeshEntry, outbox.TaskEntry} {
		list, err := j.NextOwed(t.Context(), kind, now, limit)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b outbox.Intent) int { return cmp.Compare(a.Seq, b.Seq) })
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	return all
}

// entry returns what a log is owed of an event.
func entry(t testing.TB, j *journal.Journal, e claim.Fact, kind outbox.Kind) outbox.Intent {
	t.Helper()
	for _, in := range next(t, j, t0.Add(1000*time.Hour), 0) {
		if in.ID == e.ID && in.Kind == kind {
			return in
		}
	}
	t.Fatalf("the %s log is not owed %s", kind, e.ID)
	return outbox.Intent{}
}

// due is what a log is owed of an event that nobody has seen to; its number does not count.
func due(e claim.Fact, kind outbox.Kind) outbox.Intent {
	return outbox.Intent{ID: e.ID, Kind: kind, Fact: e, At: e.At, State: outbox.Due}
}

func wantNext(t testing.TB, j *journal.Journal, now time.Time, want ...outbox.Intent) {
	t.Helper()
	if diff := gocmp.Diff(want, next(t, j, now, 0), cmpopts.IgnoreFields(outbox.Intent{}, "Seq")); diff != "" {
		t.Errorf("NextOwed (-want +got):\n%s", diff)
	}
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOutboxTakesWhatLogsWant(t *testing.T) {
	c := attempt("Sandman", "a", t0)
	remote := event(c, claim.KindDenied, t0)
	remote.Remote = true
	tests := map[string]struct {
		event claim.Fact
		want  []outbox.Kind
	}{
		"orphaned":      {event(c, claim.KindOrphaned, t0), []outbox.Kind{outbox.TaskEntry}},
		"granted":       {event(c, claim.KindGranted, t0), []outbox.Kind{outbox.MeshEntry}},
		"completed":     {event(c, claim.KindCompleted, t0), []outbox.Kind{outbox.TaskEntry}},
		"failed":        {event(c, claim.KindFailed, t0), []outbox.Kind{outbox.MeshEntry, outbox.TaskEntry}},
		"renewed":       {event(c, claim.KindRenewed, t0), nil},
		"denied here":   {event(c, claim.KindDenied, t0), nil},
		"denied remote": {remote, []outbox.Kind{outbox.MeshEntry}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var want []outbox.Intent
			for _, kind := range test.want {
				want = append(want, due(test.event, kind))
			}
			byRecord, bySave := newJournal(t), newJournal(t)
			record(t, byRecord, test.event)
			save(t, bySave, c, test.event)
			wantNext(t, byRecord, t0, want...)
			wantNext(t, bySave, t0, want...)
		})
	}
}

// What the journal says of intents is what ledgers say.
func TestOwed(t *testing.T) {
	outboxtest.LedgerSuite(t, func(t *testing.T) outboxtest.World {
		j := newJournal(t)
		return outboxtest.World{
			Ledger: j,
			Begin: func(t *testing.T, uid int, key string) {
				if _, err := j.BeginRequest(t.Context(), uid, key, "f", t0); err != nil {
					t.Fatal(err)
				}
			},
			Restart: func() outbox.Ledger { j = reopen(t, j); return j },
		}
	})
}

// The logs are told apart: what one has, the other may still be owed.
func TestOutboxIsPerLog(t *testing.T) {
	j := newJournal(t)
	e := event(attempt("Sandman", "a", t0), claim.KindFailed, t0)
	record(t, j, e)
	for _, kind := range []outbox.Kind{outbox.MeshEntry, outbox.TaskEntry} {
		got, err := j.NextOwed(t.Context(), kind, t0, 0)
		if err != nil || len(got) != 1 || got[0].Kind != kind || got[0].ID != e.ID {
			t.Errorf("NextOwed(%s) = %+v, %v, want the entry", kind, got, err)
		}
	}
	mesh := entry(t, j, e, outbox.MeshEntry)
	do(t, j.StartSending(t.Context(), mesh, t0))
	do(t, j.Delivered(t.Context(), mesh, "", t0))
	wantNext(t, j, t0, due(e, outbox.TaskEntry))
	for log, want := range map[claim.Log]bool{claim.MeshLog: true, claim.TaskLog: false} {
		if delivered, why, err := j.Delivery(t.Context(), e.ID, log); delivered != want || why != "" || err != nil {
			t.Errorf("Delivery(%s) = %v, %q, %v", log, delivered, why, err)
		}
	}
}

// What was being sent when the last process ended says so.
func TestOpenDoubtsWhatWasBeingSent(t *testing.T) {
	j := newJournal(t)
	e := event(attempt("Sandman", "a", t0), claim.KindGranted, t0)
	record(t, j, e)
	do(t, j.StartSending(t.Context(), entry(t, j, e, outbox.MeshEntry), t0))
	j = reopen(t, j)
	if got := entry(t, j, e, outbox.MeshEntry); got.State != outbox.Doubted || got.Tries != 1 || !got.Sent.Equal(t0) {
		t.Errorf("it is %+v", got)
	}
	stats, err := j.OutboxStats(t.Context())
	if err != nil || len(stats) != 1 || !strings.Contains(stats[0].LastError, "daemon stopped") {
		t.Errorf("OutboxStats = %+v, %v, want it to say what happened", stats, err)
	}
}

func TestOutboxStats(t *testing.T) {
	j := newJournal(t)
	want := func(want ...journal.Backlog) {
		t.Helper()
		got, err := j.OutboxStats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("OutboxStats (-want +got):\n%s", diff)
		}
	}
	want()
	made, err := j.Owe(t.Context(), outbox.Intent{ID: "a", Kind: outbox.Creation, At: t0}) // not in the backlog: its caller got an answer
	do(t, errors.Join(err, j.NoteInDoubt(t.Context(), made, t0, errors.New("no answer"))))
	want()

	c := attempt("Sandman", "a", t0)
	record(t, j,
		event(c, claim.KindGranted, t0.Add(time.Minute)),
		event(c, claim.KindFailed, t0),
		event(c, claim.KindReleased, t0.Add(2*time.Minute)))
	items := next(t, j, t0, 0) // granted, failed (mesh), failed (task), released
	want(
		journal.Backlog{Log: claim.MeshLog, Depth: 3, Oldest: t0},
		journal.Backlog{Log: claim.TaskLog, Depth: 1, Oldest: t0},
	)
	do(t, j.StartSending(t.Context(), items[0], t0.Add(time.Hour)))
	do(t, j.NoteInDoubt(t.Context(), items[0], t0, errors.New("the later one")))
	do(t, j.StartSending(t.Context(), items[1], t0))
	do(t, j.Retry(t.Context(), items[1], t0, errors.New("the earlier one")))
	want(
		journal.Backlog{Log: claim.MeshLog, Depth: 3, InDoubt: 1, Oldest: t0, LastError: "the later one"},
		journal.Backlog{Log: claim.TaskLog, Depth: 1, Oldest: t0},
	)
	do(t, j.Delivered(t.Context(), items[0], "", t0))
	do(t, j.Delivered(t.Context(), items[2], "", t0))
	want(
		journal.Backlog{Log: claim.MeshLog, Depth: 2, Oldest: t0, LastError: "the earlier one"},
	)
	do(t, j.Delivered(t.Context(), items[1], "", t0))
	want(
		journal.Backlog{Log: claim.MeshLog, Depth: 1, Oldest: t0.Add(2 * time.Minute)},
	)
}
