package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/outbox"
	"dibs/internal/outbox/outboxtest"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func record(t testing.TB, j *journal.Journal, list ...claim.Fact) {
	t.Helper()
	do(t, j.Record(t.Context(), list...))
}

// next returns what both logs are owed, in the order of the events.
func next(t testing.TB, j *journal.Journal, now time.Time, limit int) []outbox.Intent {
	t.Helper()
	var all []outbox.Intent
	for _, kind := range []outbox.Kind{outbox.MeshEntry, outbox.TaskEntry} {
		list, err := j.NextOwed(t.Context(), kind, now, limit)
		do(t, err)
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b outbox.Intent) int { return int(a.Seq - b.Seq) })
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
	same(t, "NextOwed", want, next(t, j, now, 0), cmpopts.IgnoreFields(outbox.Intent{}, "Seq"))
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
				do(t, errOf(j.BeginRequest(t.Context(), uid, key, "f", t0)))
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
		do(t, err)
		same(t, "OutboxStats", want, got)
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

// wantBegin checks what beginning the request with that key and fingerprint gives.
func wantBegin(t testing.TB, j *journal.Journal, key, fingerprint string, want *outbox.Answer, wantErr error) {
	t.Helper()
	got, err := j.BeginRequest(t.Context(), 1000, key, fingerprint, t0)
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Errorf("BeginRequest(%s, %s) error = %v, want %v", key, fingerprint, err, wantErr)
	}
	same(t, fmt.Sprintf("BeginRequest(%s, %s)", key, fingerprint), want, got)
}

func TestRequests(t *testing.T) {
	ctx := t.Context()
	j := newJournal(t)
	wantBegin(t, j, "k", "claim a", nil, nil)
	wantBegin(t, j, "k", "claim a", nil, outbox.ErrUnanswered)
	wantBegin(t, j, "k", "claim b", nil, outbox.ErrReused)
	wantBegin(t, j, "other", "claim a", nil, nil)

	answer := outbox.Answer{Status: 409, Body: []byte(`{"code":"held"}`)}
	do(t, j.FinishRequest(ctx, 1000, "k", answer))
	do(t, j.FinishRequest(ctx, 1000, "other", outbox.Answer{Status: 204}))
	j = reopen(t, j)
	wantBegin(t, j, "k", "claim a", &answer, nil)
	wantBegin(t, j, "k", "claim b", nil, outbox.ErrReused)
	wantBegin(t, j, "other", "claim a", &outbox.Answer{Status: 204}, nil)

	// An answer, once given, stays.
	if err := j.FinishRequest(ctx, 1000, "k", outbox.Answer{Status: 500}); err == nil {
		t.Error("an answer was replaced")
	}
	do(t, j.DropRequest(ctx, 1000, "k"))
	wantBegin(t, j, "k", "claim a", &answer, nil)
}

func TestDroppedRequestIsForgotten(t *testing.T) {
	j := newJournal(t)
	wantBegin(t, j, "k", "claim a", nil, nil)
	do(t, j.BindRequest(t.Context(), 1000, "k", claim.NewID(t0)))
	do(t, j.DropRequest(t.Context(), 1000, "k"))
	do(t, j.DropRequest(t.Context(), 1000, "k"))
	if err := j.FinishRequest(t.Context(), 1000, "k", outbox.Answer{Status: 200}); err == nil {
		t.Error("a request that was dropped was answered")
	}
	if err := j.BindRequest(t.Context(), 1000, "k", claim.NewID(t0)); err == nil {
		t.Error("a claim was bound to a request that was dropped")
	}
	wantBegin(t, j, "k", "claim b", nil, nil)
	if id, err := j.RequestMade(t.Context(), 1000, "k"); id != "" || err != nil {
		t.Errorf("RequestMade = %v, %v, want none", id, err)
	}
}

func TestOpenEndsRequestsInFlight(t *testing.T) {
	ctx := t.Context()
	j := newJournal(t)
	granted := grant(t, j, attempt("Sandman", "a", t0), t0)
	over := grant(t, j, attempt("Sandman", "b", t0), t0)
	save(t, j, ended(over, claim.EndReleased, t0))
	reserved := attempt("Sandman", "c", t0)
	reserve(t, j, reserved, t0)

	for key, id := range map[string]claim.ID{
		"granted": granted.ID, "over": over.ID, "reserved": reserved.ID, "unbound": "",
	} {
		wantBegin(t, j, key, "f", nil, nil)
		if id == "" {
			continue
		}
		do(t, j.BindRequest(ctx, 1000, key, claim.NewID(t0))) // of an earlier attempt
		do(t, j.BindRequest(ctx, 1000, key, id))
	}
	j = reopen(t, j)
	if id, err := j.RequestMade(ctx, 1000, "unbound"); id != "" || err != nil {
		t.Errorf("RequestMade(unbound) = %v, %v, want none", id, err)
	}
	wantBegin(t, j, "unbound", "f", nil, nil)
	// What has become of a claim is the answer, however late it is asked for.
	save(t, j, ended(granted, claim.EndReleased, t0))
	for range 2 {
		j = reopen(t, j)
		for key, id := range map[string]claim.ID{"granted": granted.ID, "over": over.ID, "reserved": reserved.ID} {
			wantBegin(t, j, key, "f", nil, outbox.ErrUnanswered)
			wantBegin(t, j, key, "g", nil, outbox.ErrReused)
			if made, err := j.RequestMade(ctx, 1000, key); made != string(id) || err != nil {
				t.Errorf("RequestMade(%s) = %v, %v, want %v", key, made, err, id)
			}
		}
	}
	answer := outbox.Answer{Status: 201, Body: []byte("{}")}
	do(t, j.FinishRequest(ctx, 1000, "granted", answer))
	wantBegin(t, j, "granted", "f", &answer, nil)
}

// A request that has made a task keeps its key until it is known that the task is there.
func TestKeysOfTasksThatAreMade(t *testing.T) {
	ctx := t.Context()
	j := newJournal(t)
	wantBegin(t, j, "k", "f", nil, nil)
	in, err := j.Owe(ctx, outbox.Intent{ID: "c", Kind: outbox.Creation, At: t0, UID: 1000, Key: "k"})
	do(t, err)
	j = reopen(t, j)
	wantBegin(t, j, "k", "f", nil, outbox.ErrUnanswered)
	wantBegin(t, j, "k", "g", nil, outbox.ErrReused)
	if id, err := j.RequestMade(ctx, 1000, "k"); id != "c" || err != nil {
		t.Errorf("RequestMade = %q, %v", id, err)
	}
	do(t, j.Drop(ctx, in)) // it came to nothing
	if id, err := j.RequestMade(ctx, 1000, "k"); id != "" || err != nil {
		t.Errorf("RequestMade = %q, %v", id, err)
	}
	j = reopen(t, j)
	wantBegin(t, j, "k", "g", nil, nil)
}

// Two users may choose the same key, and neither gets anything of the other's.
func TestKeysOfUsers(t *testing.T) {
	j := newJournal(t)
	for _, uid := range []int{-1, 0, 1000} {
		if prior, err := j.BeginRequest(t.Context(), uid, "k", fmt.Sprint("of ", uid), t0); err != nil || prior != nil {
			t.Fatalf("user %d: BeginRequest = %v, %v", uid, prior, err)
		}
		do(t, j.BindRequest(t.Context(), uid, "k", claim.ID(fmt.Sprint("claim of ", uid))))
	}
	do(t, j.FinishRequest(t.Context(), 0, "k", outbox.Answer{Status: 200, Body: []byte("root's")}))
	do(t, j.DropRequest(t.Context(), -1, "k"))
	if id, err := j.RequestMade(t.Context(), 1000, "k"); id != "claim of 1000" || err != nil {
		t.Errorf("RequestMade = %q, %v", id, err)
	}
	if _, err := j.BeginRequest(t.Context(), 1000, "k", "of 1000", t0); !errors.Is(err, outbox.ErrUnanswered) {
		t.Errorf("err = %v, want ErrUnanswered", err)
	}
	prior, err := j.BeginRequest(t.Context(), 0, "k", "of 0", t0)
	if diff := cmp.Diff(&outbox.Answer{Status: 200, Body: []byte("root's")}, prior); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A user who makes up keys without end loses the oldest ones, and nobody else does.
func TestKeysOfOneUserAreBounded(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	pgtest.TakesLong(t)
	j := newJournal(t)
	answer := outbox.Answer{Status: 200, Body: []byte("{}")}
	begin := func(uid int, key string) *outbox.Answer {
		t.Helper()
		prior, err := j.BeginRequest(t.Context(), uid, key, "f", t0)
		do(t, err)
		return prior
	}
	live := grant(t, j, attempt("Sandman", "a", t0), t0)
	begin(1, "other")
	do(t, j.FinishRequest(t.Context(), 1, "other", answer))
	for _, key := range []string{"made", "owed"} {
		begin(2, key)
		in, err := j.Owe(t.Context(), outbox.Intent{ID: key, Kind: outbox.Creation, At: t0, UID: 2, Key: key})
		do(t, err)
		do(t, j.FinishRequest(t.Context(), 2, key, answer))
		if key == "made" {
			do(t, j.Delivered(t.Context(), in, "page", t0))
		}
	}
	begin(2, "live")
	do(t, j.BindRequest(t.Context(), 2, "live", live.ID))
	do(t, j.FinishRequest(t.Context(), 2, "live", answer))
	const kept = 10_000
	for i := range kept {
		key := fmt.Sprint(i)
		begin(2, key)
		do(t, j.FinishRequest(t.Context(), 2, key, answer))
	}
	for _, key := range []string{"live", "owed", "1"} {
		if prior := begin(2, key); prior == nil {
			t.Errorf("%s is forgotten", key)
		}
	}
	if begin(1, "other") == nil {
		t.Error("another user's is forgotten")
	}
	begin(2, "one more")
	for _, key := range []string{"0", "made"} {
		if prior := begin(2, key); prior != nil {
			t.Errorf("%s is still there", key)
		}
	}
}
