package wording

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// telling is how a kind of fact is told. Its texts are phrases: what begins with a $ stands for a
// part of the fact, see part.
type telling struct {
	// line is what the daemon's log says; without one, it has no line.
	line  string
	level slog.Level
	// sentence says what happened in one line, in place of sentence the first of the variants that
	// fits. It is the title of an entry, the text of a notice, and a step of a story.
	sentence string
	variants []variant
	// seen says it of a fact that was only seen on the board, whoever did it.
	seen string
	// notice takes the place of the sentence in a notice.
	notice string
	// mark is the word on a timeline, in the lane of whoever it is about; without one, it is the kind.
	mark string
	// details go with a sentence that does not have them; nil means summary and detail.
	details func(claim.Fact) []string
	// own is set if dibs does it by itself.
	own bool
}

// variant is a sentence for some of the facts of a kind.
type variant struct {
	when     func(claim.Fact) bool
	sentence string
}

// At info, a log tells what changes who has a task, or says that the work on it is over. At debug it
// tells what comes often, and what others have on record: refusals, renewals, messages, reservations.
const debug = slog.LevelDebug

// tellings has the words for all kinds of facts. Every view of a fact takes them from here.
var tellings = map[claim.Kind]telling{
	// The life of a claim.
	claim.KindGranted: {
		line: "a claim was granted", sentence: "$agent claimed $task",
		variants: []variant{{hasHolder, "$agent claimed $task, after the claim of $holder had run out"}},
	},
	claim.KindDenied:  {line: "a claim was denied", level: debug, sentence: "$agent was refused $task: $refusal"},
	claim.KindRenewed: {line: "a lease was renewed", level: debug, sentence: "$agent renewed the lease of $task"},
	claim.KindExpiring: {
		line: "a lease is about to end", level: debug, sentence: "The lease of $agent on $task is about to end", own: true,
	},
	claim.KindReleased: {
		line: "a task was given back", sentence: "$agent released $task", seen: "$task is nobody's any more",
	},
	claim.KindCompleted: {
		line: "a task was completed", sentence: "$who completed $task", seen: "$task was completed",
	},
	claim.KindReview: {
		line: "a task was handed in for review", sentence: "$agent finished $task, for a person to review", seen: "$task was put up for review",
	},
	claim.KindFailed: {
		line: "an agent failed at its task", sentence: "$agent failed at $task", seen: "$task was marked as failed",
	},
	claim.KindBlocked: {
		line: "a task is blocked", sentence: "$agent is blocked on $task", seen: "$task was blocked",
		variants: []variant{{nobody, "$by blocked $task"}},
	},
	claim.KindLost: {
		line: "a claim was lost", sentence: "$agent lost $task",
		variants: []variant{{takenBack, "$holder took $task back from $agent"}},
	},
	claim.KindOrphaned: {
		line: "work was finished after its claim was lost", sentence: "$agent finished $task after losing the claim",
	},
	claim.KindOverridden: {
		line: "a stale claim was taken over", sentence: "$holder's claim on $task ran out, and $agent took the task over", mark: "taken over by $agent",
	},
	claim.KindSwept: {
		line: "a stale claim was swept", sentence: "$holder's claim on $task ran out, and the task was reopened",
		variants: []variant{
			{tooOften, "$holder's claim on $task ran out, and the task is blocked after too many tries"},
			{requested, "$holder's claim on $task ran out, and the task was reopened, asked for by $by"},
		},
	},

	// What is mended on the board.
	claim.KindWithdrawn: {
		line: "an attempt was taken back out of Notion", sentence: "$agent's unverified claim on $task was withdrawn", own: true,
	},
	claim.KindConflict: {
		line: "a claim was overwritten, and was repaired", sentence: "$agent's claim on $task was overwritten and repaired", own: true,
	},
	claim.KindCleared: {
		line: "what an ended claim had left was taken off its task", level: debug, sentence: "What was left of $agent's claim was taken off $task", own: true,
		variants: []variant{{nobody, "A copy of a claim was taken off $task"}},
	},
	claim.KindContested: {
		line: "claims were denied while somebody had the task", level: debug, sentence: "$count requests for $task were refused while $agent held it", own: true,
		variants: []variant{{once, "One request for $task was refused while $agent held it"}},
		details:  func(f claim.Fact) []string { return f.Names },
	},

	// Offers.
	claim.KindOffered:  {line: "a task was offered", sentence: "$agent offered $task to $holder"},
	claim.KindAccepted: {line: "an offer was accepted", sentence: "$agent accepted $task from $holder"},
	claim.KindDeclined: {line: "a task was declined", sentence: "$agent declined $task"},
	claim.KindExpired: {
		line: "an offer was not answered in time", sentence: "$holder did not answer in time when $agent offered $task", own: true,
	},

	// What is done to tasks without a claim.
	claim.KindAdded: {line: "a task was made", level: debug, sentence: "$who made $task"},
	claim.KindReopened: {
		line: "a task was reopened", sentence: "$who reopened $task", seen: "$task was reopened",
		// An old record, from before users were recorded.
		variants: []variant{{anonymous, "$task was reopened"}},
	},
	claim.KindCancelled: {line: "a task was cancelled", sentence: "$who cancelled $task", seen: "$task was cancelled"},
	claim.KindCommented: {line: "a task was commented on", level: debug, sentence: "$who wrote a comment on $task"},

	// Messages, reservations, pauses.
	claim.KindMessage: {line: "a message was sent", level: debug, sentence: "$message", details: nothing},
	claim.KindReserved: {
		line: "something was reserved", level: debug, sentence: "$agent reserved $detail", details: nothing,
		variants: []variant{{many, "$agent made $count more reservations"}},
	},
	claim.KindUnreserved: {line: "a reservation is over", level: debug, sentence: "$agent's reservation is over: $detail", details: nothing},
	claim.KindPaused:     {line: "grants were paused", sentence: "$holder paused $whom$until"},
	claim.KindResumed:    {line: "grants go on", sentence: "$holder let $whom go on"},

	// What is only seen on the board.
	claim.KindCreated:    {seen: "$task appeared on the board"},
	claim.KindReady:      {seen: "$task can be claimed", own: true},
	claim.KindClaimed:    {sentence: "$agent has $task now"},
	claim.KindReassigned: {sentence: "$task went from $agent to $holder", mark: "given to $holder"},
	claim.KindUnblocked:  {seen: "$task is no longer blocked"},
	claim.KindTrashed:    {seen: "$task was taken off the board"},
	claim.KindRestored:   {seen: "$task is back on the board"},
	claim.KindEdited:     {sentence: "$task was edited: $changed", mark: "edited: $changed"},
}

// stuck is how a comment is told that says why its task can never become ready.
var stuck = telling{
	line: "a task was told that it can never become ready", sentence: "$who wrote a comment on $task", notice: "“$title” stands still",
}

// question takes the place of the sentence in a notice of a fact that asks people something.
const question = "$agent asks about “$title”"

func hasHolder(f claim.Fact) bool { return f.Holder != "" }
func nobody(f claim.Fact) bool    { return f.Agent == "" }
func anonymous(f claim.Fact) bool { return f.Agent == "" && f.By == "" }
func requested(f claim.Fact) bool { return f.By != "" }
func once(f claim.Fact) bool      { return f.Count == 1 }
func many(f claim.Fact) bool      { return f.Count > 1 }
func tooOften(f claim.Fact) bool  { return f.Tried == claim.TriedOver }

// takenBack reports whether f says that Holder took a task back from Agent through dibs.
func takenBack(f claim.Fact) bool { return f.Kind == claim.KindLost && f.By != "" }

func nothing(claim.Fact) []string { return nil }

// Stuck reports whether a fact is that a card was told why its task can never become ready.
func Stuck(f claim.Fact) bool { return f.Kind == claim.KindCommented && f.By == claim.Sweeper }

// tell returns how a fact is told.
func tell(f claim.Fact) telling {
	if Stuck(f) {
		return stuck
	}
	return tellings[f.Kind]
}

// part returns the part of a fact for which a name in a phrase stands; task is what the task is
// called.
func part(f claim.Fact, name, task string) string {
	switch name {
	case "task":
		return task
	case "title":
		return oneLine(f.Title)
	case "agent":
		return f.Agent
	case "holder":
		return f.Holder
	case "by":
		return f.By
	case "who":
		return cmp.Or(f.Agent, f.By)
	case "whom":
		return cmp.Or(f.Agent, "everybody")
	case "detail":
		return oneLine(f.Detail)
	case "changed":
		return strings.Join(f.Changed, ", ")
	case "count":
		return strconv.Itoa(f.Count)
	case "refusal":
		return refusal(f)
	case "until":
		return until(f)
	case "message":
		return messageTitle(f)
	}
	return "$" + name
}

// words fills in a phrase. Nothing in the parts of a fact is taken for a name.
func words(phrase string, f claim.Fact, task string) string {
	return os.Expand(phrase, func(name string) string { return part(f, name, task) })
}

func oneLine(s string) string { return task.OneLine(s, -1) }

// title describes in one line what happened.
func title(f claim.Fact) string {
	// Quoted, so that a task's title cannot pose as a sentence of the log.
	about := "“" + oneLine(f.Title) + "”"
	if f.Title == "" {
		about = "task " + string(f.Task)
	}
	return sentence(f, about)
}

// sentence says in one line what happened to a task that it names as about.
func sentence(f claim.Fact, about string) string {
	t := tell(f)
	if f.Seen && t.seen != "" {
		return words(t.seen, f, about)
	}
	for _, v := range t.variants {
		if v.when(f) {
			return words(v.sentence, f, about)
		}
	}
	if t.sentence == "" {
		return string(f.Kind) + ": " + f.Agent + " on " + about
	}
	return words(t.sentence, f, about)
}

// Notice says to people outside of Notion what happened, and why.
func Notice(f claim.Fact) string {
	t := tell(f)
	what := title(f)
	if f.Asked {
		what = words(question, f, "")
	}
	if t.notice != "" {
		what = words(t.notice, f, "")
	}
	if why := cmp.Or(details(f)...); why != "" {
		what += ": " + why
	}
	return what
}

// Mark says what happened on a timeline, in the lane of whoever it is about.
func Mark(f claim.Fact) string {
	if mark := tell(f).mark; mark != "" {
		return words(mark, f, "")
	}
	return strings.ReplaceAll(string(f.Kind), "_", " ")
}

// details returns why it happened, as far as the sentence does not say it.
func details(f claim.Fact) []string {
	all := []string{f.Summary, f.Detail}
	if of := tell(f).details; of != nil {
		all = slices.Clone(of(f))
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
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

// Lines writes facts into the daemon's log, a line each.
type Lines struct{ log *slog.Logger }

// NewLines returns lines for a log.
func NewLines(log *slog.Logger) Lines { return Lines{log} }

// Want reports whether the log has a line for a fact, at the level that it has now.
func (l Lines) Want(f claim.Fact) bool {
	t := tell(f)
	return t.line != "" && l.log.Enabled(context.Background(), t.level)
}

// Write writes the line of a fact.
func (l Lines) Write(f claim.Fact) {
	t := tell(f)
	l.log.LogAttrs(context.Background(), t.level, t.line, attrs(f)...)
}

// attrs returns the attributes of a fact's line: those that have a value, always in the same order.
func attrs(f claim.Fact) []slog.Attr {
	out := []slog.Attr{slog.String(claim.AttrEvent, string(f.Kind))}
	text := func(key, value string) {
		if value = claim.Brief(value); value != "" {
			out = append(out, slog.String(key, value))
		}
	}
	text(claim.AttrKey, f.Key)
	text(claim.AttrTitle, f.Title)
	text(claim.AttrAgent, f.Agent)
	if f.Holder != f.Agent {
		text(claim.AttrHolder, f.Holder)
	}
	text(claim.AttrBy, f.By)
	text(claim.AttrTask, string(f.Task))
	text(claim.AttrClaim, string(f.Claim))
	text(claim.AttrFormer, string(f.Former))
	if f.Fence != 0 {
		out = append(out, slog.Int64(claim.AttrFence, f.Fence))
	}
	if f.Assigned {
		out = append(out, slog.Bool(claim.AttrAssigned, true))
	}
	if !f.Expires.IsZero() {
		text(claim.AttrUntil, f.Expires.UTC().Format(time.RFC3339)) // the same in every format of a log
	}
	text(claim.AttrCode, string(f.Code))
	if f.Count > 0 {
		out = append(out, slog.Int(claim.AttrCount, f.Count))
	}
	text(claim.AttrReason, f.Detail)
	text(claim.AttrSummary, f.Summary)
	return out
}
