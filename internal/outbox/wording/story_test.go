package wording_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox/wording"

	"github.com/google/go-cmp/cmp"
)

const first, second claim.ID = "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", "01KA8XQ5V8ZJ6N3T4R7W9Y2M1E"

// story returns a story as lines. Facts happen a minute after each other.
func story(of claim.ID, facts ...claim.Fact) []string {
	for i := range facts {
		facts[i].At = time.Date(2026, 11, 20, 9, i, 0, 0, time.UTC)
	}
	var lines []string
	for _, s := range wording.Story(facts, of) {
		lines = append(lines, strings.TrimSuffix(fmt.Sprintf("%s %s: %s / %s", s.At.Format("04"), s.Who, s.What, s.Why), " / "))
	}
	return lines
}

func TestStory(t *testing.T) {
	facts := []claim.Fact{
		{Kind: claim.KindCreated, Seen: true},
		{Kind: claim.KindReady, Seen: true},
		{Kind: claim.KindGranted, Agent: "Sandman", Claim: first},
		{Kind: claim.KindClaimed, Agent: "Sandman", Claim: first, Seen: true},
		{Kind: claim.KindEdited, Agent: "Sandman", Claim: first, Changed: []string{"title", "priority"}, Seen: true},
		{Kind: claim.KindRenewed, Agent: "Sandman", Claim: first},
		{Kind: claim.KindOverridden, Agent: "Oracle", Claim: second, Holder: "Sandman", Former: first},
		{Kind: claim.KindReleased, Agent: "Sandman", Claim: first, Seen: true},
		{Kind: claim.KindGranted, Agent: "Oracle", Claim: second, Holder: "Sandman"},
		{Kind: claim.KindFailed, Agent: "Oracle", Claim: second, Summary: "no paint", Detail: "the task is BLOCKED: too many tries"},
		{Kind: claim.KindBlocked, Agent: "Oracle", Claim: second, Seen: true},
		{Kind: claim.KindReopened, By: "user ada"},
		{Kind: claim.KindUnblocked, By: "user ada", Seen: true},
		{Kind: claim.KindClaimed, Agent: "Elsewhere", Claim: "other", Seen: true},
		{Kind: claim.KindCompleted, Agent: "Elsewhere", Claim: "other", Seen: true},
		{Kind: claim.KindReopened, Seen: true},
	}
	if diff := cmp.Diff([]string{
		"00 a person: the task appeared on the board",
		"01 dibs: the task can be claimed",
		"02 Sandman: Sandman claimed the task",
		"04 a person: the task was edited: title, priority",
		"05 Sandman: Sandman renewed the lease of the task",
		"06 Oracle: Sandman's claim on the task ran out, and Oracle took the task over",
		"08 Oracle: Oracle claimed the task, after the claim of Sandman had run out",
		"09 Oracle: Oracle failed at the task / no paint; the task is BLOCKED: too many tries",
		"11 user ada: user ada reopened the task",
		"13 Elsewhere: Elsewhere has the task now",
		"14 Elsewhere: the task was completed",
		"15 a person: the task was reopened",
	}, story("", facts...)); diff != "" {
		t.Errorf("the task's (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"08 Oracle: Oracle claimed the task, after the claim of Sandman had run out",
		"09 Oracle: Oracle failed at the task / no paint; the task is BLOCKED: too many tries",
	}, story(second, facts...)); diff != "" {
		t.Errorf("the second claim's (-want +got):\n%s", diff)
	}
	if got := story(first, facts...); len(got) != 4 || !strings.Contains(got[3], "Oracle took the task over") {
		t.Errorf("the first claim's: %q", got)
	}
}

// A person who ends a claim is told of, and a text of others is one line and no more.
func TestStoryOfALoss(t *testing.T) {
	got := story("",
		claim.Fact{Kind: claim.KindGranted, Agent: "Sandman", Claim: first},
		claim.Fact{Kind: claim.KindLost, Agent: "Sandman", Claim: first, Detail: "it was\ncompleted \u202e by somebody else\x1b[31m"},
		claim.Fact{Kind: claim.KindCompleted, Agent: "Sandman", Claim: first, Seen: true},
	)
	if diff := cmp.Diff([]string{
		"00 Sandman: Sandman claimed the task", "01 a person: Sandman lost the task / it was completed \uFFFD by somebody else\uFFFD[31m", "02 a person: the task was completed",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every kind has a sentence without codes, and somebody who did it.
func TestEveryKindHasASentence(t *testing.T) {
	for _, kind := range []claim.Kind{
		claim.KindGranted, claim.KindDenied, claim.KindWithdrawn, claim.KindRenewed, claim.KindOrphaned, claim.KindLost, claim.KindOverridden, claim.KindSwept,
		claim.KindConflict, claim.KindContested, claim.KindExpiring, claim.KindCleared, claim.KindMessage, claim.KindReserved, claim.KindUnreserved,
		claim.KindAdded, claim.KindCommented, claim.KindReleased, claim.KindCompleted, claim.KindFailed, claim.KindBlocked, claim.KindReview, claim.KindReopened,
		claim.KindCreated, claim.KindReady, claim.KindClaimed, claim.KindReassigned, claim.KindCancelled, claim.KindUnblocked, claim.KindTrashed,
		claim.KindRestored, claim.KindEdited, claim.KindAccepted, claim.KindOffered, claim.KindDeclined, claim.KindExpired, claim.KindPaused, claim.KindResumed,
	} {
		for _, seen := range []bool{false, true} {
			f := claim.Fact{Kind: kind, Agent: "Sandman", Claim: first, Holder: "Oracle", Code: claim.CodeLostRace, Detail: "why", Changed: []string{"title"}, Seen: seen}
			steps := wording.Story([]claim.Fact{f}, "")
			if onlySeen := !strings.Contains("created ready cancelled unblocked trashed restored", string(kind)); len(steps) != 1 || steps[0].Who == "" ||
				(seen || onlySeen) && strings.HasPrefix(steps[0].What, string(kind)+":") || strings.ContainsAny(steps[0].What, "_$") {
				t.Errorf("%s, seen %v: %+v", kind, seen, steps)
			}
		}
	}
}

// What a person did on the board in the browser is told once, and what people do in Notion after that
// is told as well.
func TestStoryOfPeople(t *testing.T) {
	if diff := cmp.Diff([]string{
		"02 a person: the task was reopened",
		"03 a person: the task was blocked",
		"06 a person: the task was cancelled",
	}, withoutFirst(story("",
		claim.Fact{Kind: claim.KindBlocked, By: "user ada"},
		claim.Fact{Kind: claim.KindBlocked, By: "user ada", Seen: true},
		claim.Fact{Kind: claim.KindReopened, Seen: true},
		claim.Fact{Kind: claim.KindBlocked, Seen: true},
		claim.Fact{Kind: claim.KindCancelled, By: "user ada"},
		claim.Fact{Kind: claim.KindCancelled, By: "user ada", Seen: true},
		claim.Fact{Kind: claim.KindCancelled, Seen: true},
	), "user ada")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// withoutFirst drops the lines about one person, which must be two.
func withoutFirst(lines []string, who string) (rest []string) {
	told := 0
	for _, line := range lines {
		if strings.Contains(line, " "+who+": ") {
			told++
		} else {
			rest = append(rest, line)
		}
	}
	if told != 2 {
		rest = append(rest, fmt.Sprintf("%d lines about %s: %q", told, who, lines))
	}
	return rest
}
