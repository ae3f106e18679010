package wording_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox/wording"
)

// The titles of entries are sentences for people, without codes.
func TestTitles(t *testing.T) {
	at := time.Date(2026, 11, 22, 14, 2, 30, 0, time.UTC)
	denied := func(code claim.Code, holder string, expires time.Time) claim.Fact {
		return claim.Fact{Kind: claim.KindDenied, Code: code, Holder: holder, Expires: expires}
	}
	for _, tt := range []struct {
		event claim.Fact
		want  string
	}{
		{claim.Fact{Kind: claim.KindGranted}, "Oracle claimed “Fix the login”"},
		{claim.Fact{Kind: claim.KindGranted, Holder: "Sandman"}, "Oracle claimed “Fix the login”, after the claim of Sandman had run out"},
		{denied(claim.CodeHeld, "Sandman", at.Add(30*time.Minute)), "Oracle was refused “Fix the login”: held by Sandman until 14:32 UTC"},
		{denied(claim.CodeHeld, "Sandman", at.Add(24*time.Hour)), "Oracle was refused “Fix the login”: held by Sandman until 23 Nov 14:02 UTC"},
		{denied(claim.CodeHeld, "", time.Time{}), "Oracle was refused “Fix the login”: somebody holds it"},
		{denied(claim.CodeReserved, "Maria", time.Time{}), "Oracle was refused “Fix the login”: reserved for Maria"},
		{denied(claim.CodeLostRace, "Sandman", at), "Oracle was refused “Fix the login”: Sandman was faster"},
		{denied(claim.CodeLostRace, "", time.Time{}), "Oracle was refused “Fix the login”: its claim was overruled"},
		{denied(claim.CodeNotOpen, "", time.Time{}), "Oracle was refused “Fix the login”: it is not open"},
		{denied(claim.CodeBlockedByDependency, "", time.Time{}), "Oracle was refused “Fix the login”: it waits for another task"},
		{claim.Fact{Kind: claim.KindSwept, Holder: "Sandman"}, "Sandman's claim on “Fix the login” ran out, and the task was reopened"},
		{claim.Fact{Kind: claim.KindOverridden, Holder: "Sandman"}, "Sandman's claim on “Fix the login” ran out, and Oracle took the task over"},
		{claim.Fact{Kind: claim.KindContested, Count: 1}, "One request for “Fix the login” was refused while Oracle held it"},
		{claim.Fact{Kind: claim.KindContested, Count: 7}, "7 requests for “Fix the login” were refused while Oracle held it"},
	} {
		e := tt.event
		e.At, e.Agent, e.Title = at, "Oracle", "Fix the login"
		if got := wording.NewEntry(e, claim.MeshLog).Title; got != tt.want {
			t.Errorf("%s %s: %q, want %q", e.Kind, e.Code, got, tt.want)
		}
	}
	for _, code := range []claim.Code{
		claim.CodeHeld, claim.CodeNotOpen, claim.CodeLostRace, claim.CodeBlockedByDependency, claim.CodeReserved, claim.CodeNothingReady,
		claim.CodeLimitReached, claim.CodeNotFound, claim.CodeNotionUnavailable, claim.CodeNotionRefused, "some_new_code",
	} {
		if got := wording.NewEntry(claim.Fact{Kind: claim.KindDenied, Agent: "Oracle", Title: "Fix", Code: code}, claim.MeshLog).Title; strings.Contains(got, "_") {
			t.Errorf("%s: the title %q shows a code", code, got)
		}
	}
}
