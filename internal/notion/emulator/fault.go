package emulator

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
)

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of faults. With "applied", the request takes effect as usual; otherwise it has no
// effect.
const (
	Delay            FaultKind = "Delay"            // applied after Fault.Delay
	DelayAnswer      FaultKind = "DelayAnswer"      // applied at once, answered after Fault.Delay
	SavedBut503      FaultKind = "SavedBut503"      // applied; a 503 says so
	DropAnswer       FaultKind = "DropAnswer"       // applied; the connection is cut
	DropRequest      FaultKind = "DropRequest"      // the connection is cut; net/http repeats a GET by itself
	NotApplied       FaultKind = "NotApplied"       // 200 with the old values
	LateWrite        FaultKind = "LateWrite"        // the connection is cut at once; applied after Fault.Late
	LateWrite503     FaultKind = "LateWrite503"     // 503 service_unavailable at once; applied after Fault.Late
	LateWrite200     FaultKind = "LateWrite200"     // 200 with the new values at once; applied after Fault.Late
	LostWrite        FaultKind = "LostWrite"        // 200 with the new values, and no effect
	TakenBack        FaultKind = "TakenBack"        // applied; a page has its old values again after Fault.Late
	Unanswered       FaultKind = "Unanswered"       // never answered; applied after Fault.Late
	StaleQuery       FaultKind = "StaleQuery"       // a query answers as of Fault.Delay ago
	StaleRead        FaultKind = "StaleRead"        // a page is shown as of Fault.Delay ago
	Conflict409      FaultKind = "Conflict409"      // 409 conflict_error
	Conflict409Saved FaultKind = "Conflict409Saved" // applied; 409 conflict_error
	RateLimited429   FaultKind = "RateLimited429"   // 429 with Fault.RetryAfter and Fault.Reason
	Overload529      FaultKind = "Overload529"      // 529 with Fault.RetryAfter
	Blocked429       FaultKind = "Blocked429"       // 429 public_api_request_blocked
	Forbidden403     FaultKind = "Forbidden403"     // 403 restricted_resource: the connection lacks the capability
	HTML502          FaultKind = "HTML502"          // a 502 of the proxy in front of Notion
	Error500         FaultKind = "Error500"         // 500 internal_server_error
	Error503         FaultKind = "Error503"         // 503 service_unavailable
	Error504         FaultKind = "Error504"         // 504 gateway_timeout
	Stop             FaultKind = "Stop"             // waits until the fault is removed, then applied; dropped if the connection closes
	StopAfter        FaultKind = "StopAfter"        // applied; answered when the fault is removed
	WrongDate        FaultKind = "WrongDate"        // applied; the Date of the answer is off by Fault.Off
	NoDate           FaultKind = "NoDate"           // applied; the answer has no Date
	StuckDate        FaultKind = "StuckDate"        // applied; the Date of the answer is that of the first one struck
	RoundedDate      FaultKind = "RoundedDate"      // applied; dates in properties are rounded up to Fault.Off
	AppendedFirst    FaultKind = "AppendedFirst"    // applied; appended blocks come before the others
	TrashedAgain     FaultKind = "TrashedAgain"     // applied; 200 also if the object is in the trash already

	// Of events alone. Delay and Stop let others overtake an event; after DropRequest and
	// DropAnswer it is sent again, as after any attempt that failed.
	LoseEvent   FaultKind = "LoseEvent"   // never sent, and not tried again
	RepeatEvent FaultKind = "RepeatEvent" // sent twice in one attempt
)

// Fault is something that goes wrong with the requests it matches, or, with Event, with attempts to
// send events. Requests that are refused for their path, token, version or rate do not count.
type Fault struct {
	// Event is a pattern of path.Match for types of events: "*" is any, "page.*" any of pages. Method
	// and Path are then those of the webhook.
	Event string
	// Method is the HTTP method, "" for any.
	Method string
	// Path is a pattern of path.Match ("/v1/pages/*" is every page, but not what is below one), or
	// a path and everything below it ("/v1/pages"); "" for any.
	Path string
	// Match, if set, must return true, too.
	Match func(r *http.Request, body []byte) bool
	// Skip is how many matches pass first; Times is how many are struck then, 0 for all.
	Skip, Times int

	Kind FaultKind
	// Delay is for Delay, DelayAnswer, StaleQuery and StaleRead, Late for LateWrite and its kin, TakenBack
	// and Unanswered.
	Delay, Late time.Duration
	// Off is for WrongDate, where negative means the past, and RoundedDate.
	Off time.Duration
	// RetryAfter is for RateLimited429 and Overload529, zero for a minute, and for Blocked429, zero
	// for none.
	RetryAfter time.Duration
	// Reason is the rate_limit_reason of RateLimited429; empty for the limit per connection.
	Reason string
}

// faultKinds maps each kind to the requests it can strike.
var faultKinds = map[FaultKind]func(effect) bool{
	Delay: anything, DropAnswer: anything, DropRequest: anything, Stop: anything,
	LoseEvent: onlyEvents, RepeatEvent: onlyEvents,
	DelayAnswer: onlyRequests, Conflict409: onlyRequests, RateLimited429: onlyRequests, Overload529: onlyRequests, Blocked429: onlyRequests, HTML502: onlyRequests, Forbidden403: onlyRequests,
	Error500: onlyRequests, Error503: onlyRequests, Error504: onlyRequests, StopAfter: onlyRequests,
	WrongDate: onlyRequests, NoDate: onlyRequests, StuckDate: onlyRequests,
	RoundedDate: onlyWrites, AppendedFirst: onlyWrites, TrashedAgain: onlyWrites,
	LateWrite200: onlyWrites, LostWrite: onlyWrites, TakenBack: onlyWrites, Unanswered: onlyWrites,
	SavedBut503: onlyWrites, NotApplied: onlyWrites, LateWrite: onlyWrites, LateWrite503: onlyWrites, Conflict409Saved: onlyWrites,
	StaleQuery: func(e effect) bool { return e == queries }, StaleRead: func(e effect) bool { return e == reads },
}

func anything(effect) bool       { return true }
func onlyRequests(e effect) bool { return e != events }
func onlyEvents(e effect) bool   { return e == events }
func onlyWrites(e effect) bool   { return e == writes }

// injected is a fault in force.
type injected struct {
	Fault
	id      int
	matched int
	removed chan struct{} // closed when the fault is removed
	gone    bool
	date    string // of the first answer that StuckDate struck
}

// check returns an error if the fault can strike nothing.
func (f *Fault) check() error {
	strikes := faultKinds[f.Kind]
	switch {
	case strikes == nil:
		return fmt.Errorf("unknown kind of fault %q", f.Kind)
	case f.Event == "" && !strikes(reads) && !strikes(queries) && !strikes(writes):
		return fmt.Errorf("the fault %s is one of events: name their types in event", f.Kind)
	case f.Event != "" && !strikes(events):
		return fmt.Errorf("the fault %s is none of events: leave event out", f.Kind)
	}
	return nil
}

func (f *Fault) matches(r *http.Request, body []byte, route *route) bool {
	isEvent := route.effect == events
	return faultKinds[f.Kind](route.effect) && (f.Event != "") == isEvent && (!isEvent || matchPath(f.Event, route.pattern)) &&
		(f.Method == "" || strings.EqualFold(f.Method, r.Method)) &&
		(f.Path == "" || matchPath(f.Path, r.URL.Path)) &&
		(f.Match == nil || f.Match(r, body))
}

func matchPath(pattern, p string) bool {
	if ok, err := path.Match(pattern, p); ok && err == nil {
		return true
	}
	dir := strings.TrimSuffix(pattern, "/")
	return p == dir || strings.HasPrefix(p, dir+"/")
}
