package journal_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/worklog"

	"github.com/google/go-cmp/cmp"
)

func record(t testing.TB, j *journal.Journal, list ...claim.Event) {
	t.Helper()
	if err := j.Record(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
}

func next(t testing.TB, j *journal.Journal, now time.Time, limit int) []worklog.Item {
	t.Helper()
	items, err := j.NextOutbox(t.Context(), now, limit, claim.MeshLog, claim.TaskLog)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func wantNext(t testing.TB, j *journal.Journal, now time.Time, want ...worklog.Item) {
	t.Helper()
	if diff := cmp.Diff(want, next(t, j, now, 0)); diff != "" {
		t.Errorf("NextOutbox (-want +got):\n%s", diff)
	}
}

// wantNextAt checks when the outbox says that it is to be looked at; nil for never.
func wantNextAt(t testing.TB, j *journal.Journal, want *time.Time) {
	t.Helper()
	got, ok, err := j.NextOutboxAt(t.Context(), claim.MeshLog, claim.TaskLog)
	switch {
	case err != nil:
		t.Error(err)
	case want == nil && ok:
		t.Errorf("NextOutboxAt = %v, want nothing", got)
	case want != nil && (!ok || !got.Equal(*want)):
		t.Errorf("NextOutboxAt = %v, %v, want %v", got, ok, *want)
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
		event claim.Event
		want  []claim.Log
	}{
		"orphaned":      {event(c, claim.KindOrphaned, t0), []claim.Log{claim.TaskLog}},
		"granted":       {event(c, claim.KindGranted, t0), []claim.Log{claim.MeshLog}},
		"completed":     {event(c, claim.KindCompleted, t0), []claim.Log{claim.TaskLog}},
		"failed":        {event(c, claim.KindFailed, t0), []claim.Log{claim.MeshLog, claim.TaskLog}},
		"renewed":       {event(c, claim.KindRenewed, t0), nil},
		"denied here":   {event(c, claim.KindDenied, t0), nil},
		"denied remote": {remote, []claim.Log{claim.MeshLog}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var want []worklog.Item
			for _, log := range test.want {
				want = append(want, worklog.Item{Entry: test.event, Log: log})
			}
			byRecord, bySave := newJournal(t), newJournal(t)
			record(t, byRecord, test.event)
			save(t, bySave, c, test.event)
			wantNext(t, byRecord, t0, want...)
			wantNext(t, bySave, t0, want...)
		})
	}
}

func TestOutboxItemsLife(t *testing.T) {
	ctx := t.Context()
	j := newJournal(t)
	wantNextAt(t, j, nil)

	c := attempt("Sandman", "a", t0)
	first, second := event(c, claim.KindGranted, t0), event(c, claim.KindReleased, t0)
	record(t, j, first, second)
	a := worklog.Item{Entry: first, Log: claim.MeshLog}
	b := worklog.Item{Entry: second, Log: claim.MeshLog}
	wantNext(t, j, t0, a, b)
	wantNextAt(t, j, &time.Time{})
	if got := next(t, j, t0, 1); len(got) != 1 || got[0].Entry.ID != first.ID {
		t.Errorf("with limit 1: %+v, want the oldest", got)
	}

	// Sent, and refused: to be sent again in a minute.
	do(t, j.MarkSending(ctx, a, t0))
	wantNext(t, j, t0.Add(time.Hour), b)
	if err := j.MarkSending(ctx, a, t0); err == nil {
		t.Error("an item was taken for sending twice")
	}
	in1, in2 := t0.Add(time.Minute), t0.Add(2*time.Minute)
	do(t, j.Retry(ctx, a, in1, errors.New("rate limited")))
	a.Tries, a.SentAt = 1, t0
	wantNext(t, j, in1.Add(-time.Millisecond), b)
	wantNext(t, j, in1, a, b)

	// Sent again, and no answer: to be looked up in two minutes.
	do(t, j.MarkSending(ctx, a, in1))
	do(t, j.MarkInDoubt(ctx, a, in2, errors.New("connection reset")))
	a.InDoubt, a.Tries, a.SentAt = true, 2, in1
	wantNext(t, j, in1, b)
	wantNext(t, j, in2, a, b)

	// The other one is delivered; then the first is what there is to wait for.
	do(t, j.MarkSending(ctx, b, in1))
	do(t, j.Delivered(ctx, b, in1))
	wantNext(t, j, in2, a)
	wantNextAt(t, j, &in2)
	third := event(c, claim.KindBlocked, t0)
	record(t, j, third)
	wantNextAt(t, j, &time.Time{}) // the earliest of them
	do(t, j.Delivered(ctx, worklog.Item{Entry: third, Log: claim.MeshLog}, in1))

	// It is not there, is sent once more, and delivered.
	do(t, j.Retry(ctx, a, in2, nil))
	a.InDoubt = false
	wantNext(t, j, in2, a)
	do(t, j.MarkSending(ctx, a, in2))
	wantNextAt(t, j, nil)
	do(t, j.Delivered(ctx, a, in2))
	wantNext(t, j, in2.Add(time.Hour))

	// Nothing that comes late brings it back.
	for name, err := range map[string]error{
		"MarkSending": j.MarkSending(ctx, a, in2),
		"MarkInDoubt": j.MarkInDoubt(ctx, a, in2, nil),
		"Retry":       j.Retry(ctx, a, in2, nil),
		"Delivered":   j.Delivered(ctx, a, in2),
	} {
		if err == nil {
			t.Errorf("%s of a delivered item succeeded", name)
		}
	}
	wantNext(t, j, in2.Add(time.Hour))
	wantNextAt(t, j, nil)
	if got := len(events(t, j, journal.EventFilter{})); got != 3 {
		t.Errorf("%d events are left, want 3", got)
	}
}

// The logs are told apart: what one has, the other may still be owed.
func TestOutboxIsPerLog(t *testing.T) {
	j := newJournal(t)
	e := event(attempt("Sandman", "a", t0), claim.KindFailed, t0)
	record(t, j, e)
	mesh := worklog.Item{Entry: e, Log: claim.MeshLog}
	work := worklog.Item{Entry: e, Log: claim.TaskLog}
	for _, test := range []struct {
		logs []claim.Log
		want []worklog.Item
	}{
		{nil, nil},
		{[]claim.Log{claim.MeshLog}, []worklog.Item{mesh}},
		{[]claim.Log{claim.TaskLog}, []worklog.Item{work}},
		{[]claim.Log{claim.TaskLog, claim.MeshLog}, []worklog.Item{mesh, work}},
	} {
		got, err := j.NextOutbox(t.Context(), t0, 0, test.logs...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("NextOutbox of %v (-want +got):\n%s", test.logs, diff)
		}
		if _, ok, err := j.NextOutboxAt(t.Context(), test.logs...); err != nil || ok != (test.want != nil) {
			t.Errorf("NextOutboxAt of %v = %v, %v", test.logs, ok, err)
		}
	}
	do(t, j.MarkSending(t.Context(), mesh, t0))
	do(t, j.Delivered(t.Context(), mesh, t0))
	wantNext(t, j, t0, work)
	if err := j.Delivered(t.Context(), worklog.Item{Entry: e, Log: "other"}, t0); err == nil {
		t.Error("an entry was delivered to a log that it was not for")
	}
	if err := j.Delivered(t.Context(), worklog.Item{Entry: event(claim.Claim{}, claim.KindFailed, t0), Log: claim.TaskLog}, t0); err == nil {
		t.Error("an entry that does not exist was delivered")
	}
	wantNext(t, j, t0, work)
}

func TestOpenDoubtsWhatWasBeingSent(t *testing.T) {
	j := newJournal(t)
	c := attempt("Sandman", "a", t0)
	list := []claim.Event{
		event(c, claim.KindGranted, t0), event(c, claim.KindGranted, t0),
		event(c, claim.KindGranted, t0), event(c, claim.KindGranted, t0),
	}
	record(t, j, list...)
	var items [4]worklog.Item
	copy(items[:], next(t, j, t0, 0))
	later := t0.Add(time.Hour)
	do(t, j.MarkSending(t.Context(), items[1], t0))
	do(t, j.MarkSending(t.Context(), items[2], t0))
	do(t, j.Retry(t.Context(), items[2], later, errors.New("rate limited")))
	do(t, j.MarkSending(t.Context(), items[3], t0))
	do(t, j.Delivered(t.Context(), items[3], t0))

	j = reopen(t, j)
	items[1].InDoubt, items[1].Tries, items[1].SentAt = true, 1, t0
	wantNext(t, j, t0, items[0], items[1])
	items[2].Tries, items[2].SentAt = 1, t0
	wantNext(t, j, later, items[:3]...)
	do(t, j.Delivered(t.Context(), items[2], later))
	stats, err := j.OutboxStats(t.Context())
	if err != nil || len(stats) != 1 || !strings.Contains(stats[0].LastError, "daemon stopped") {
		t.Errorf("OutboxStats = %+v, %v, want it to say what happened", stats, err)
	}
}

// Times that an earlier process stored may be far off, if the clock was set since.
func TestOutboxHurries(t *testing.T) {
	ctx := t.Context()
	j := newJournal(t)
	c := attempt("Sandman", "a", t0)
	near, far, doubted, other := event(c, claim.KindGranted, t0), event(c, claim.KindReleased, t0), event(c, claim.KindBlocked, t0), event(c, claim.KindCompleted, t0)
	record(t, j, near, far, doubted, other)
	items := next(t, j, t0, 0)
	soon, hour := t0.Add(time.Minute), t0.Add(time.Hour)
	do(t, j.Retry(ctx, items[0], soon, nil))
	do(t, j.Retry(ctx, items[1], hour, nil))
	do(t, j.MarkInDoubt(ctx, items[2], hour, nil))
	do(t, j.Retry(ctx, items[3], hour, nil))
	items[2].InDoubt = true
	latest := t0.Add(10 * time.Minute)
	do(t, j.Hurry(ctx, latest, claim.MeshLog))
	wantNext(t, j, soon, items[0])
	wantNext(t, j, latest.Add(-time.Millisecond), items[0])
	wantNext(t, j, latest, items[:3]...)
	wantNext(t, j, hour, items...)
}

func TestOutboxStats(t *testing.T) {
	j := newJournal(t)
	want := func(want ...journal.Backlog) {
		t.Helper()
		got, err := j.OutboxStats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("OutboxStats (-want +got):\n%s", diff)
		}
	}
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
	do(t, j.MarkSending(t.Context(), items[0], t0.Add(time.Hour)))
	do(t, j.MarkInDoubt(t.Context(), items[0], t0, errors.New("the later one")))
	do(t, j.MarkSending(t.Context(), items[1], t0))
	do(t, j.Retry(t.Context(), items[1], t0, errors.New("the earlier one")))
	want(
		journal.Backlog{Log: claim.MeshLog, Depth: 3, InDoubt: 1, Oldest: t0, LastError: "the later one"},
		journal.Backlog{Log: claim.TaskLog, Depth: 1, Oldest: t0},
	)
	do(t, j.Delivered(t.Context(), items[0], t0))
	do(t, j.Delivered(t.Context(), items[2], t0))
	want(
		journal.Backlog{Log: claim.MeshLog, Depth: 2, Oldest: t0, LastError: "the earlier one"},
	)
	do(t, j.Delivered(t.Context(), items[1], t0))
	want(
		journal.Backlog{Log: claim.MeshLog, Depth: 1, Oldest: t0.Add(2 * time.Minute)},
	)
}

func TestOneDrainerGetsAnItem(t *testing.T) {
	j := newJournal(t)
	record(t, j, event(attempt("Sandman", "a", t0), claim.KindGranted, t0))
	item := next(t, j, t0, 0)[0]
	var errs [10]error
	race(len(errs), func(i int) { errs[i] = j.MarkSending(t.Context(), item, t0) })
	taken := 0
	for _, err := range errs {
		if err == nil {
			taken++
		}
	}
	if taken != 1 {
		t.Errorf("%d drainers got the item, want 1", taken)
	}
}
