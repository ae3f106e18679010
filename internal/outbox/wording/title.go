package wording

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// title describes in one line what happened.
func title(e claim.Fact) string {
	// Quoted, so that a task's title cannot pose as a sentence of the log.
	about := fmt.Sprintf("“%s”", task.OneLine(e.Title, -1))
	if e.Title == "" {
		about = "task " + string(e.Task)
	}
	return sentence(e, about)
}

// sentence says in one line what happened to a task that it names as about.
func sentence(e claim.Fact, about string) string {
	if said, ok := seen[e.Kind]; ok && e.Seen {
		return about + " " + said
	}
	switch e.Kind {
	case claim.KindGranted:
		if e.Holder != "" {
			return fmt.Sprintf("%s claimed %s, after the claim of %s had run out", e.Agent, about, e.Holder)
		}
		return fmt.Sprintf("%s claimed %s", e.Agent, about)
	case claim.KindDenied:
		return fmt.Sprintf("%s was refused %s: %s", e.Agent, about, refusal(e))
	case claim.KindWithdrawn:
		return fmt.Sprintf("%s's unverified claim on %s was withdrawn", e.Agent, about)
	case claim.KindMessage:
		return messageTitle(e)
	case claim.KindPaused:
		return fmt.Sprintf("%s paused %s%s", e.Holder, cmp.Or(e.Agent, "everybody"), until(e))
	case claim.KindResumed:
		return fmt.Sprintf("%s let %s go on", e.Holder, cmp.Or(e.Agent, "everybody"))
	case claim.KindReserved:
		if e.Count > 1 {
			return fmt.Sprintf("%s made %d more reservations", e.Agent, e.Count)
		}
		return fmt.Sprintf("%s reserved %s", e.Agent, task.OneLine(e.Detail, -1))
	case claim.KindAccepted:
		return fmt.Sprintf("%s accepted %s from %s", e.Agent, about, e.Holder)
	case claim.KindOffered:
		return fmt.Sprintf("%s offered %s to %s", e.Agent, about, e.Holder)
	case claim.KindDeclined:
		return fmt.Sprintf("%s declined %s", e.Agent, about)
	case claim.KindExpired:
		return fmt.Sprintf("%s did not answer in time when %s offered %s", e.Holder, e.Agent, about)
	case claim.KindReleased:
		return fmt.Sprintf("%s released %s", e.Agent, about)
	case claim.KindCompleted:
		return fmt.Sprintf("%s completed %s", cmp.Or(e.Agent, e.By), about)
	case claim.KindCancelled:
		return fmt.Sprintf("%s cancelled %s", cmp.Or(e.Agent, e.By), about)
	case claim.KindFailed:
		return fmt.Sprintf("%s failed at %s", e.Agent, about)
	case claim.KindReview:
		return fmt.Sprintf("%s finished %s, for a person to review", e.Agent, about)
	case claim.KindReopened:
		who := cmp.Or(e.Agent, e.By)
		if who == "" { // an old record, from before users were recorded
			return fmt.Sprintf("%s was reopened", about)
		}
		return fmt.Sprintf("%s reopened %s", who, about)
	case claim.KindBlocked:
		if e.Agent == "" {
			return fmt.Sprintf("%s blocked %s", e.By, about)
		}
		return fmt.Sprintf("%s is blocked on %s", e.Agent, about)
	case claim.KindOrphaned:
		return fmt.Sprintf("%s finished %s after losing the claim", e.Agent, about)
	case claim.KindLost:
		if takenBack(e) {
			return fmt.Sprintf("%s took %s back from %s", e.Holder, about, e.Agent)
		}
		return fmt.Sprintf("%s lost %s", e.Agent, about)
	case claim.KindOverridden:
		return fmt.Sprintf("%s's claim on %s ran out, and %s took the task over", e.Holder, about, e.Agent)
	case claim.KindSwept:
		if e.Tried == claim.TriedOver {
			return fmt.Sprintf("%s's claim on %s ran out, and the task is blocked after too many tries", e.Holder, about)
		}
		reopened := fmt.Sprintf("%s's claim on %s ran out, and the task was reopened", e.Holder, about)
		if e.By != "" {
			reopened += ", asked for by " + e.By
		}
		return reopened
	case claim.KindCleared:
		if e.Agent == "" {
			return fmt.Sprintf("A copy of a claim was taken off %s", about)
		}
		return fmt.Sprintf("What was left of %s's claim was taken off %s", e.Agent, about)
	case claim.KindConflict:
		return fmt.Sprintf("%s's claim on %s was overwritten and repaired", e.Agent, about)
	case claim.KindContested:
		if e.Count == 1 {
			return fmt.Sprintf("One request for %s was refused while %s held it", about, e.Agent)
		}
		return fmt.Sprintf("%d requests for %s were refused while %s held it", e.Count, about, e.Agent)
	case claim.KindRenewed:
		return fmt.Sprintf("%s renewed the lease of %s", e.Agent, about)
	case claim.KindExpiring:
		return fmt.Sprintf("The lease of %s on %s is about to end", e.Agent, about)
	case claim.KindAdded:
		return fmt.Sprintf("%s made %s", cmp.Or(e.Agent, e.By), about)
	case claim.KindCommented:
		return fmt.Sprintf("%s wrote a comment on %s", cmp.Or(e.Agent, e.By), about)
	case claim.KindUnreserved:
		return fmt.Sprintf("%s's reservation is over: %s", e.Agent, task.OneLine(e.Detail, -1))
	case claim.KindClaimed:
		return fmt.Sprintf("%s has %s now", e.Agent, about)
	case claim.KindReassigned:
		return fmt.Sprintf("%s went from %s to %s", about, e.Agent, e.Holder)
	case claim.KindEdited:
		return fmt.Sprintf("%s was edited: %s", about, strings.Join(e.Changed, ", "))
	}
	return fmt.Sprintf("%s: %s on %s", e.Kind, e.Agent, about)
}

// seen says what was seen on the board of a task, whoever did it.
var seen = map[claim.Kind]string{
	claim.KindCreated: "appeared on the board", claim.KindReady: "can be claimed", claim.KindReleased: "is nobody's any more",
	claim.KindCompleted: "was completed", claim.KindReview: "was put up for review", claim.KindFailed: "was marked as failed",
	claim.KindBlocked: "was blocked", claim.KindUnblocked: "is no longer blocked", claim.KindReopened: "was reopened",
	claim.KindCancelled: "was cancelled", claim.KindTrashed: "was taken off the board", claim.KindRestored: "is back on the board",
}

// refusal says why an attempt was denied, for people who do not know the codes.
func refusal(e claim.Fact) string {
	who := task.OneLine(e.Holder, -1)
	switch e.Code {
	case claim.CodeHeld:
		if who == "" {
			return "somebody holds it"
		}
		return "held by " + who + until(e)
	case claim.CodeReserved:
		if who == "" {
			return "reserved for somebody else"
		}
		return "reserved for " + who
	case claim.CodeLostRace:
		if who == "" {
			return "its claim was overruled"
		}
		return who + " was faster"
	case claim.CodeNotOpen:
		return "it is not open"
	case claim.CodeBlockedByDependency:
		return "it waits for another task"
	case claim.CodeNothingReady:
		return "nothing was ready"
	case claim.CodeLimitReached:
		return "it has as many tasks as it may"
	case claim.CodePaused:
		return "nothing is granted for now"
	case claim.CodeNotFound:
		return "the page is not there, or not shared"
	case claim.CodeNotionUnavailable:
		return "Notion could not be reached in time"
	case claim.CodeNotionRefused:
		return "Notion refused the request"
	}
	return strings.ReplaceAll(string(e.Code), "_", " ")
}

// until says when a pause ends, or the claim that an attempt was denied for; empty if that is not
// known.
func until(e claim.Fact) string {
	if e.Expires.IsZero() {
		return ""
	}
	end := e.Expires.UTC()
	if end.Format(time.DateOnly) == e.At.UTC().Format(time.DateOnly) {
		return " until " + end.Format("15:04 UTC")
	}
	return " until " + end.Format("2 Jan 15:04 UTC")
}
