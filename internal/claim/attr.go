package claim

import "dibs/internal/task"

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
