package claim

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// Kind is the kind of event that a fact records. Kinds are part of the contract.
type Kind string

// What agents and the daemon do with claims, messages and reservations.
const (
	KindGranted    Kind = "granted"    // an attempt won
	KindAccepted   Kind = "accepted"   // an attempt won a task that Holder had offered to Agent
	KindOffered    Kind = "offered"    // Agent gave the task up for Holder, which answers until Expires
	KindDeclined   Kind = "declined"   // Agent refused what Holder had offered, or a person had assigned
	KindExpired    Kind = "expired"    // Holder did not answer Agent's offer in time
	KindDenied     Kind = "denied"     // an attempt did not; Code says why
	KindWithdrawn  Kind = "withdrawn"  // an abandoned attempt was taken back out of Notion
	KindRenewed    Kind = "renewed"    // the lease was written anew
	KindOrphaned   Kind = "orphaned"   // work finished for a claim that had been lost
	KindLost       Kind = "lost"       // somebody else took, cleared or finished the task
	KindOverridden Kind = "overridden" // a stale claim, taken over by Agent from Holder
	KindSwept      Kind = "swept"      // a stale claim of Holder, reopened
	KindConflict   Kind = "conflict"   // a live claim was found overwritten and was repaired
	KindContested  Kind = "contested"  // the refusals decided here against one claim, summed up at its end
	KindExpiring   Kind = "expiring"   // the lease is about to end, and was not renewed
	KindCleared    Kind = "cleared"    // the remains of an ended claim were taken off a page
	KindMessage    Kind = "message"    // from Agent to Holder, or to all: Detail says what
	KindReserved   Kind = "reserved"   // files or other things were reserved: Detail says which
	KindUnreserved Kind = "unreserved" // a reservation is over: Detail says which, and why
	KindAdded      Kind = "added"      // the task was made, by Agent or By
	KindCommented  Kind = "commented"  // Agent, or By, said something on the task's page: Summary
	KindPaused     Kind = "paused"     // Holder paused Agent, or everybody, until Expires: Detail says why
	KindResumed    Kind = "resumed"    // Holder ended the pause of Agent, or of everybody
)

// Grants reports whether facts of the kind say that an attempt won.
func (k Kind) Grants() bool { return k == KindGranted || k == KindAccepted }

// What an agent does with its task, and what is then seen on the board, whoever did it. Those
// are two facts: the second may come later, or alone.
const (
	KindReleased  Kind = "released"  // given back, and the work is not done
	KindCompleted Kind = "completed" // the work is done, or By has approved it
	KindFailed    Kind = "failed"    // the work was tried and failed
	KindBlocked   Kind = "blocked"   // the work cannot go on, or By says that it has to wait
	KindReview    Kind = "review"    // the work is done, and a person is to decide
	KindReopened  Kind = "reopened"  // put back to OPEN by Agent, or by a person, By, if that is empty
)

// What is only seen on the board.
const (
	KindCreated    Kind = "created"    // new to the daemon: made, moved here, or shared
	KindReady      Kind = "ready"      // OPEN, without a name, and no longer waiting for anything
	KindClaimed    Kind = "claimed"    // Agent has it now
	KindReassigned Kind = "reassigned" // from Agent to Holder
	KindCancelled  Kind = "cancelled"  // also recorded where By did it through dibs
	KindUnblocked  Kind = "unblocked"
	KindTrashed    Kind = "trashed"  // or archived, moved away, or no longer shared
	KindRestored   Kind = "restored" // after having been trashed
	KindEdited     Kind = "edited"   // Changed names the parts
)

// Fact is one event in the life of a task, a claim, an attempt or a reservation. It is recorded
// once, together with the change that makes it true. What people and agents see are views of
// facts: the local record (`dibs log`), entries of the Notion logs, events, triggers, history.
type Fact struct {
	// ID is a ULID, and the entry id in Notion's logs.
	ID string `json:"id"`
	// Told numbers the facts that agents are told, in order. Numbers grow across restarts, and
	// none is used twice. It is zero for facts that agents are not told.
	Told int64 `json:"-"`
	// Seen is set on facts that were only seen on the board, and are not on record.
	Seen bool      `json:"-"`
	At   time.Time `json:"at"` // Notion's time
	Kind Kind      `json:"kind"`

	Task  task.ID `json:"task"`
	Key   string  `json:"key,omitempty"` // see task.Task.Key
	Title string  `json:"title,omitempty"`
	URL   string  `json:"url,omitempty"`
	// Status and Priority are the task's after the event, in facts that agents are told.
	Status   task.Status   `json:"status,omitempty"`
	Priority task.Priority `json:"priority,omitempty"`

	// Agent is the agent that the fact is mainly about: it did it, or it has or had the task.
	Agent string `json:"agent,omitempty"`
	// Claim is Agent's claim, if known, and Fence its number.
	Claim ID    `json:"claim,omitempty"`
	Fence int64 `json:"fence,omitempty"`
	// Assigned is set if the task was assigned or offered to Agent when it claimed it.
	Assigned bool `json:"assigned,omitempty"`
	// By is the user of this machine who asked for it without an agent's name, as the kernel
	// names it: task.UserSignature. It is empty for what dibs does by itself. Of a loss, it is
	// who asked dibs to take the task, in the name of Holder.
	By string `json:"by,omitempty"`

	// Code says why an attempt was denied.
	Code Code `json:"code,omitempty"`
	// Holder is the other party: it has the task, had it, or took it.
	Holder string `json:"holder,omitempty"`
	// Former is Holder's claim, if it was overridden, or came back.
	Former ID `json:"former,omitempty"`
	// Against is the claim held here that caused a local denial.
	Against ID `json:"against,omitempty"`
	// Remote is set if Notion was asked or written to.
	Remote bool `json:"remote,omitempty"`
	// Detail says why, in one line.
	Detail string `json:"detail,omitempty"`
	// Changed names the parts of a task that were edited, or the files that the work changed which ended.
	Changed []string `json:"changed,omitempty"`

	// Started, Finished, Summary and Evidence describe finished work.
	Started  time.Time `json:"started_at,omitzero"`
	Finished time.Time `json:"finished_at,omitzero"`
	Summary  string    `json:"summary,omitempty"`
	// Used is what was used for finished work, as the agent reported.
	Used     Usage    `json:"used,omitzero"`
	Evidence []string `json:"evidence,omitempty"`
	// Tried says how the fact changes the list of tries at the task, see Try.
	Tried Tried `json:"tried,omitempty"`
	// Comment and Mention are copied from the Finish.
	Comment bool   `json:"comment,omitempty"`
	Mention string `json:"mention,omitempty"`
	// Returned is set if the task was opened again that was up for review. Holder is the agent that had
	// put it up, and Summary what was said to that.
	Returned bool `json:"returned,omitempty"`
	// Asked is set if Summary is a question to people, and the agent wants to be told the
	// answer.
	Asked bool `json:"asked,omitempty"`
	// Expires is when something ends: the lease of a claim that was granted, renewed or is expiring, the
	// lease of the claim that caused a denial, an offer, or a reservation.
	Expires time.Time `json:"expires_at,omitzero"`

	// Reservation is the id of a reservation. Patterns are what it reserves, and Shared says
	// whether others may share that.
	Reservation string   `json:"reservation,omitempty"`
	Patterns    []string `json:"patterns,omitempty"`
	Shared      bool     `json:"shared,omitempty"`

	// Count and Names sum up the refusals of a contested claim. For a denial, Count is how
	// often it happened, if more than once; for reservations, how many the fact sums up.
	Count int      `json:"count,omitempty"`
	Names []string `json:"names,omitempty"`
}

// FactFilter selects facts; its zero value selects all. A fact has to meet every part of it.
type FactFilter struct {
	Task  task.ID
	Agent string // who did it, or whom it happened to; in the feed also the other party
	Claim ID
	Since time.Time // only what happened at this time or later; zero for all
	// After is the id of a fact: only facts stored after it are selected. If it was pruned, they
	// begin with the first one stored with a later id. Told is the same for the feed, see Fact.Told.
	After string
	Told  int64
	// Seen selects what was only seen on the board, too: the facts of the feed that are not on
	// record.
	Seen  bool
	Limit int // 0 for no limit
	// Newest puts the newest first, so that Limit cuts off the oldest.
	Newest bool
}

// NewFactID returns a new fact id that carries the millisecond of now.
func NewFactID(now time.Time) string {
	return ulid.MustNew(ulid.Timestamp(now), ulid.DefaultEntropy()).String()
}

// IsNamed reports whether a fact that is found out again has the same id: it was not made with
// NewFactID, but from a request's key, or a claim that was finished.
func (e Fact) IsNamed() bool {
	id, err := ulid.Parse(e.ID)
	return err == nil && id.Time() != ulid.Timestamp(e.At)
}

// Log names a place where facts become entries: a Notion log database, or the comments of the
// tasks.
type Log string

// The logs.
const (
	MeshLog Log = "mesh" // Mesh Communication Log: claim attempts, messages between agents
	TaskLog Log = "task" // Agent Task Log: finished work
	// Comments are the comments on the tasks' pages: what agents say to people.
	Comments Log = "comments"
)

// Logs returns the Notion logs in which the fact becomes an entry. Local refusals, renewals and
// warnings stay in the local record.
func (e Fact) Logs() []Log {
	logs := e.databases()
	if e.Comment {
		logs = append(logs, Comments)
	}
	return logs
}

// databases returns those logs that are databases.
func (e Fact) databases() []Log {
	switch e.Kind {
	case KindCompleted, KindReview, KindOrphaned:
		if e.By != "" { // it is no agent's work
			return []Log{MeshLog}
		}
		return []Log{TaskLog}
	case KindFailed:
		return []Log{MeshLog, TaskLog}
	case KindRenewed, KindExpiring, KindAdded, KindCommented, KindPaused, KindResumed:
		return nil
	case KindDenied, KindReserved, KindUnreserved:
		if !e.Remote {
			return nil
		}
	}
	return []Log{MeshLog}
}

// Contested returns the fact that sums up the local denials against h: how many there were, and
// the agents' names, each once.
func Contested(h Hold, at time.Time, count int, names []string) Fact {
	e := h.fact(KindContested, at)
	e.Count, e.Names = count, names
	return e
}

// fact returns a new fact about c.
func (c Hold) fact(kind Kind, at time.Time) Fact {
	return Fact{
		ID: NewFactID(at), At: at, Kind: kind,
		Task: c.Task.ID, Key: c.Task.Key, Title: c.Task.Title, URL: c.Task.URL,
		Agent: c.Agent, Claim: c.ID, Fence: c.Fence,
	}
}

// Try returns the try that a fact with TriedAgain records.
func (e Fact) Try() Try {
	t := Try{Agent: e.Agent, At: e.At, Failed: e.Kind == KindFailed, Why: e.Summary}
	if e.Kind == KindOverridden || e.Kind == KindSwept {
		t.Agent = e.Holder
	}
	return t
}

// lost returns the fact that somebody took h's task from its agent, and why. user is as in
// Fact.By.
func (h Hold) lost(at time.Time, holder, detail, user string) Fact {
	e := h.fact(KindLost, at)
	e.Holder, e.Detail, e.By, e.Remote = holder, detail, user, true
	return e
}

// orphaned returns the fact of work that was finished for a lost claim.
func (h Hold) orphaned(f Finish, at time.Time, holder, detail string) Fact {
	e := h.fact(KindOrphaned, at)
	e.ID = string(h.ID)
	e.Holder, e.Detail, e.Remote = holder, detail, true
	e.Started, e.Finished, e.Summary, e.Evidence, e.Changed, e.Used = h.Started, f.At, f.Summary, f.Evidence, f.Files, h.Used
	return e
}

// Try is an attempt at the work on a task that failed while the task stayed claimable: the
// agent reported failure and the task was to be tried again, or its claim went stale.
type Try struct {
	Agent string    `json:"agent"`
	At    time.Time `json:"at"` // when it was over, in Notion's time
	// Failed is set if the agent reported failure; otherwise its lease ran out.
	Failed bool   `json:"failed,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Tried says how a fact changes the list of tries at its task, which a Ledger keeps.
type Tried string

// The meanings of facts for the tries. Most facts have none.
const (
	// TriedAgain: one more try, see Fact.Try.
	TriedAgain Tried = "again"
	// TriedOver: the tries so far are forgotten. The task is done, waits for a person, or was
	// reopened.
	TriedOver Tried = "over"
)

// The limits of a history, which must fit into a line of a note.
const (
	mostTries  = 6
	longestWhy = 100
)

// historyOf describes tries in one line.
func historyOf(tries []Try) string {
	text := fmt.Sprintf("tried %d times", len(tries))
	if len(tries) == 1 {
		text = "tried once"
	}
	if len(tries) > mostTries {
		tries = tries[len(tries)-mostTries:]
		text += fmt.Sprintf(", the last %d", mostTries)
	}
	parts := make([]string, len(tries))
	for i, t := range tries {
		what := "the claim of " + t.Agent + " ran out"
		if t.Failed {
			what = t.Agent + " failed"
		}
		parts[i] = what + " at " + noteTime(t.At)
		if why := task.OneLine(t.Why, longestWhy); why != "" {
			parts[i] += " (" + why + ")"
		}
	}
	return text + ": " + strings.Join(parts, ", ")
}

// Earlier is what became of an earlier claim on a task.
type Earlier struct {
	Claim   ID // empty if it is not known
	Agent   string
	At      time.Time // when it was over, in Notion's time
	Outcome Outcome
	// Text says what was done, or why it ended, in the words of whoever ended it.
	Text string
	// Files are those that it changed, as far as is known.
	Files []string
}

// Outcome is how an earlier claim ended, as agents are told.
type Outcome string

// Returned is the outcome of a claim that ended with a review, after its end: the task came back.
const Returned Outcome = "returned"

// MostEarlier is how many earlier claims a claim comes with: the newest.
const MostEarlier = 10

// outcomes are the outcomes of the claims whose ends facts record.
var outcomes = map[Kind]Outcome{
	KindCompleted: "completed", KindReview: "completed", KindFailed: "failed", KindBlocked: "blocked",
	KindReleased: "released", KindOffered: "released", KindDeclined: "released", KindLost: "lost", KindOverridden: "stale", KindSwept: "swept",
}

// Precedes reports whether e is earlier than the claim of that id on the same task.
func (e Earlier) Precedes(id ID) bool {
	if e.Claim != "" {
		return e.Claim < id // by the time at which they were made
	}
	made, _ := id.Minted()
	return !e.At.Truncate(time.Millisecond).After(made)
}

// Earlier returns the claim whose end the fact records; false if it records none.
func (e Fact) Earlier() (Earlier, bool) {
	f := Earlier{Claim: e.Claim, Agent: e.Agent, At: e.At, Outcome: outcomes[e.Kind], Text: cmp.Or(e.Summary, e.Detail), Files: e.Changed}
	if e.Kind == KindOverridden {
		f.Claim, f.Agent = e.Former, e.Holder
	}
	if e.Returned { // after the end of the claim
		return Earlier{Claim: e.Former, Agent: e.Holder, At: e.At, Outcome: Returned, Text: e.Summary}, e.Holder != ""
	}
	if (e.Kind == KindOffered || e.Kind == KindDeclined) && e.Started.IsZero() { // it was claimed to be handed on
		return f, false
	}
	// A sweep without an agent is that of a copied page, to whose claim nothing happened.
	return f, f.Outcome != "" && f.Agent != "" && (e.Claim != "" || e.Kind == KindSwept)
}

// The keys of attributes in the daemon's log. They are part of the contract: whoever looks
// for what happened goes by them, so a thing has the same key in every line.
const (
	// AttrEvent is what happened: the kind of a fact, or one of the events below.
	AttrEvent = "event"

	AttrTask  = "task"  // the task's id
	AttrKey   = "key"   // the task's name for people, such as T-3
	AttrTitle = "title" // the task's title
	AttrAgent = "agent" // who did it, or whom it happened to
	AttrClaim = "claim" // the agent's claim
	AttrFence = "fence" // the claim's number, see Hold.Fence
	AttrBy    = "by"    // the user of the machine who asked for it

	AttrHolder   = "holder"   // the other party: it has the task, had it, or took it
	AttrFormer   = "former"   // the holder's claim
	AttrAssigned = "assigned" // the task was assigned to the agent before
	AttrUntil    = "until"    // when the lease, the offer or the reservation ends
	AttrCode     = "code"     // why an attempt was denied, or what Notion calls its refusal
	AttrReason   = "reason"   // why, in one line
	AttrSummary  = "summary"  // what the agent said at the end of its work
	AttrCount    = "count"    // how often it happened, if a line says that of several

	AttrRequest = "request" // the kind of a request to Notion, such as pages.update
	AttrStatus  = "status"  // the HTTP status of its answer

	AttrError = "error" // what failed, in the words of whoever says so
)

// What happens to a daemon, besides the kinds of facts.
const (
	EventLeadership    = "leadership"     // who leads has changed, or cannot be asked
	EventNotionDown    = "notion_down"    // nothing is sent until Notion answers again
	EventNotionBack    = "notion_back"    // it does
	EventNotionPaused  = "notion_paused"  // Notion asked for a pause
	EventNotionRefused = "notion_refused" // Notion refused a request, and would again
	EventGivenUp       = "given_up"       // a log entry or a notice will never arrive
)

// longestLogged is the most characters of a text in the daemon's log.
const longestLogged = 240

// Brief returns a text that others wrote as the daemon's log has it: one short line, of visible
// characters.
func Brief(s string) string { return task.Brief(s, longestLogged) }
