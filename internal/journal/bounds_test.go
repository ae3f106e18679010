package journal_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/outbox"
	"dibs/internal/task"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"

	"github.com/google/go-cmp/cmp"
)

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
		if err != nil {
			t.Fatal(err)
		}
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

// An agent that asks for a held task again and again leaves one event, and many names
// leave a bounded number. All of them are counted.
func TestDenialsAreCounted(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Oracle", "a", t0), t0)
	refuse := func(agent string, at time.Time) {
		t.Helper()
		if _, refusal, err := j.Reserve(t.Context(), attempt(agent, "a", at), at, 0); err != nil || refusal == nil {
			t.Fatalf("Reserve = %v, %v, want a refusal", refusal, err)
		}
	}
	for i := range 50 {
		refuse("Sandman", t0.Add(time.Duration(i)*time.Second))
	}
	list := events(t, j, journal.FactFilter{Agent: "Sandman"})
	if len(list) != 1 || list[0].Count != 50 || list[0].Kind != claim.KindDenied || !list[0].At.Equal(t0) {
		t.Errorf("events = %+v, want one of 50 denials", list)
	}
	for i := range 130 {
		refuse(fmt.Sprint("made up ", i), t0)
		refuse(fmt.Sprint("made up ", i), t0)
	}
	if n := len(events(t, j, journal.FactFilter{Task: "a"})); n > 110 {
		t.Errorf("%d events, want about 100", n)
	}
	end := t0.Add(time.Minute)
	save(t, j, ended(c, claim.EndCompleted, end), event(c, claim.KindCompleted, end))
	list = events(t, j, journal.FactFilter{Newest: true, Limit: 1})
	if e := list[0]; e.Kind != claim.KindContested || e.Count != 50+2*130 || len(e.Names) != 100 {
		t.Errorf("%s of %d denials with %d names, want contested, 310 and 100", e.Kind, e.Count, len(e.Names))
	}
}

// So does one that has as many tasks as it may, whichever it asks for.
func TestLimitsAreCounted(t *testing.T) {
	j := newJournal(t)
	grant(t, j, attempt("Oracle", "a", t0), t0)
	for i := range 20 {
		at := t0.Add(time.Duration(i) * 6 * time.Minute)
		_, refusal, err := j.Reserve(t.Context(), attempt("Oracle", "b", at), at, 1)
		if err != nil || refusal == nil || !refusal.Limit {
			t.Fatalf("Reserve = %v, %v, want a refusal", refusal, err)
		}
	}
	var counts []int
	for _, e := range events(t, j, journal.FactFilter{Agent: "Oracle"}) {
		if e.Kind == claim.KindDenied {
			counts = append(counts, e.Count)
		}
	}
	if diff := cmp.Diff([]int{10, 10}, counts); diff != "" {
		t.Errorf("denials of two hours (-want +got):\n%s", diff)
	}
}

// Facts can begin at a time, which is theirs still.
func TestFactsSince(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Oracle", "a", t0), t0)
	for _, at := range []time.Time{t0, t0.Add(time.Hour)} {
		save(t, j, c, claim.Fact{ID: claim.NewFactID(at), At: at, Kind: claim.KindGranted, Agent: "Oracle", Task: "a", Claim: c.ID})
	}
	for _, tt := range []struct {
		since time.Time
		want  int
	}{{t0, 2}, {t0.Add(time.Minute), 1}, {t0.Add(time.Hour), 1}, {t0.Add(61 * time.Minute), 0}} {
		if n := len(events(t, j, journal.FactFilter{Since: tt.since})); n != tt.want {
			t.Errorf("since %v: %d facts, want %d", tt.since, n, tt.want)
		}
	}
}
