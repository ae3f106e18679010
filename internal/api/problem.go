package api

import (
	"net/http"
	"strings"
	"time"

	"dibs/internal/claim"
)

// Code names a kind of refusal or failure. Codes are part of the contract.
type Code string

// The codes of denials are those of package claim; these are all the others.
const (
	CodeClaimLost          Code = "claim_lost"
	CodeNotDone            Code = "not_done"
	CodeUnknownClaim       Code = "unknown_claim"
	CodeAmbiguousClaim     Code = "ambiguous_claim"
	CodeUnknownReservation Code = "unknown_reservation"
	CodeInvalidRequest     Code = "invalid_request"
	CodeForbiddenAgent     Code = "forbidden_agent"
	CodeForbidden          Code = "forbidden"
	CodeUnauthorized       Code = "unauthorized"
	CodeKeyReused          Code = "key_reused"
	CodeTooLarge           Code = "too_large"
	CodeWrongMethod        Code = "wrong_method"
	CodeWrongMediaType     Code = "wrong_media_type"
	CodeNoRoute            Code = "no_route"
	CodeWrongHost          Code = "wrong_host"
	CodeCrossOrigin        Code = "cross_origin"
	CodeOtherMachine       Code = "other_machine"
	CodeBusy               Code = "busy"
	CodeNotionRefused      Code = Code(claim.CodeNotionRefused)
	CodeJournalUnavailable Code = Code(claim.CodeJournalUnavailable)
	CodeStopping           Code = "stopping"
	CodeInternal           Code = "internal"

	// The daemon never sends these: the command line reports its own failures with them.

	CodeUnreachable Code = "unreachable"
	CodeUsage       Code = "usage"
	CodeFailed      Code = "failed"
)

// The exit codes of the command line. They are part of the contract.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitNotClaimed  = 3 // held, not open, nothing ready, lost the race, no such task; or not done
	ExitLost        = 4 // the claim is no longer the agent's
	ExitUnreachable = 5 // the daemon cannot be reached
	ExitNotion      = 6 // Notion cannot be reached, or refuses; or the journal cannot be used
)

// meaning is what a code means.
type meaning struct {
	status int // of the HTTP answer; zero if there is none
	exit   int
	title  string
}

var meanings = map[Code]meaning{
	Code(claim.CodeHeld):                {http.StatusConflict, ExitNotClaimed, "The task is held"},
	Code(claim.CodeNotOpen):             {http.StatusConflict, ExitNotClaimed, "The task is not open"},
	Code(claim.CodeLostRace):            {http.StatusConflict, ExitNotClaimed, "Another claim won"},
	Code(claim.CodeBlockedByDependency): {http.StatusConflict, ExitNotClaimed, "The task waits for another one"},
	Code(claim.CodeReserved):            {http.StatusConflict, ExitNotClaimed, "The task is assigned to somebody else"},
	Code(claim.CodeNotOffered):          {http.StatusConflict, ExitNotClaimed, "The task is not offered to the agent"},
	Code(claim.CodeNothingReady):        {http.StatusConflict, ExitNotClaimed, "No task is ready"},
	Code(claim.CodeLimitReached):        {http.StatusConflict, ExitNotClaimed, "The agent holds as many tasks as it may"},
	Code(claim.CodePaused):              {http.StatusConflict, ExitNotClaimed, "Nothing is granted for now"},
	Code(claim.CodeNotFound):            {http.StatusNotFound, ExitNotClaimed, "No such task"},
	Code(claim.CodeNotionUnavailable):   {http.StatusServiceUnavailable, ExitNotion, "Notion cannot be reached"},

	Code(claim.CodeJournalUnavailable): {http.StatusServiceUnavailable, ExitNotion, "The journal cannot be used"},

	CodeNotionRefused:      {http.StatusBadGateway, ExitNotion, "Notion refused the request"},
	CodeClaimLost:          {http.StatusConflict, ExitLost, "The claim is no longer held"},
	CodeNotDone:            {http.StatusConflict, ExitNotClaimed, "The task is not done"},
	CodeUnknownClaim:       {http.StatusNotFound, ExitLost, "No such claim"},
	CodeAmbiguousClaim:     {http.StatusConflict, ExitUsage, "Several claims could be meant"},
	CodeUnknownReservation: {http.StatusNotFound, ExitLost, "No such reservation"},
	CodeInvalidRequest:     {http.StatusUnprocessableEntity, ExitUsage, "The request is not valid"},
	CodeOtherMachine:       {http.StatusUnprocessableEntity, ExitUsage, "The daemon cannot see the process"},
	CodeForbiddenAgent:     {http.StatusForbidden, ExitFailure, "The agent's name may not be used"},
	CodeForbidden:          {http.StatusForbidden, ExitFailure, "The caller may not do this"},
	CodeUnauthorized:       {http.StatusUnauthorized, ExitFailure, "The access token is not valid"},
	CodeKeyReused:          {http.StatusUnprocessableEntity, ExitUsage, "The idempotency key was used for another request"},
	CodeTooLarge:           {http.StatusRequestEntityTooLarge, ExitUsage, "The request is too large"},
	CodeWrongMethod:        {http.StatusMethodNotAllowed, ExitUsage, "The method is not allowed here"},
	CodeWrongMediaType:     {http.StatusUnsupportedMediaType, ExitUsage, "The body is not JSON"},
	CodeNoRoute:            {http.StatusNotFound, ExitUsage, "No such address"},
	CodeWrongHost:          {http.StatusMisdirectedRequest, ExitUsage, "The request is meant for another server"},
	CodeCrossOrigin:        {http.StatusForbidden, ExitUsage, "The request comes from a web page"},
	CodeBusy:               {http.StatusServiceUnavailable, ExitUnreachable, "The daemon has too many connections"},
	CodeStopping:           {http.StatusServiceUnavailable, ExitUnreachable, "The daemon is stopping"},
	CodeInternal:           {http.StatusInternalServerError, ExitFailure, "Something went wrong in the daemon"},

	CodeUnreachable: {0, ExitUnreachable, "The daemon cannot be reached"},
	CodeUsage:       {0, ExitUsage, "The command was not used right"},
	CodeFailed:      {0, ExitFailure, "The command failed"},
}

// Status returns the HTTP status of an answer with this code.
func (c Code) Status() int { return meanings[c].status }

// Passes reports whether a retry may succeed before long: something that the daemon depends on is
// away.
func (c Code) Passes() bool {
	switch claim.Code(c) {
	case claim.CodeNotionUnavailable, claim.CodeJournalUnavailable:
		return true
	}
	return false
}

// Exit returns the exit code of a command that ended with this code. An unknown code, of a newer
// daemon, is a plain failure.
func (c Code) Exit() int {
	if m, ok := meanings[c]; ok {
		return m.exit
	}
	return ExitFailure
}

// ProblemType is the media type of problem documents.
const ProblemType = "application/problem+json"

// Problem is a refusal or a failure, as an RFC 9457 problem document. It is
// also an error, whose text is Detail.
type Problem struct {
	Type   string `json:"type" doc:"urn:dibs:problem: and the code"`
	Title  string `json:"title" doc:"What the code means"`
	Status int    `json:"status,omitempty" doc:"The HTTP status"`
	Detail string `json:"detail" doc:"What happened and what to do, in one line"`
	Code   Code   `json:"code" doc:"What went wrong, for programs"`

	Holder     string   `json:"holder,omitempty" doc:"Who has the task, or who paused"`
	ExpiresAt  Time     `json:"expires_at,omitzero" doc:"When the holder's lease ends, the pause, or the day whose limit is reached"`
	RetryAfter int      `json:"retry_after,omitempty" doc:"Seconds to wait before trying again"`
	Task       *TaskRef `json:"task,omitempty" doc:"The task that was asked for"`
	Claim      *Claim   `json:"claim,omitempty" doc:"The claim that was lost"`
	Claims     []Claim  `json:"claims,omitempty" doc:"The claims that could be meant, or, for limit_reached, those that the agent has"`
	Summary    *Summary `json:"summary,omitempty" doc:"With nothing_ready: what the unfinished tasks wait for"`
	Todos      []string `json:"todos,omitempty" doc:"With not_done: the to-dos that are not ticked, at most twenty; data that others wrote"`
	Unknown    bool     `json:"unknown,omitempty" doc:"Whether the request took effect is not known: the same one, with the same idempotency key, finds out"`
	// These describe a reservation that is in the way.
	Pattern     string `json:"pattern,omitempty" doc:"The holder's pattern, as it was written"`
	Path        string `json:"path,omitempty" doc:"What was asked for that the pattern means, or may"`
	Reservation string `json:"reservation,omitempty" doc:"The id of the holder's reservation"`

	Errors []Fault `json:"errors,omitempty" doc:"What is wrong with the request, part by part"`
}

// Fault is what is wrong with one part of a request.
type Fault struct {
	Location string `json:"location" doc:"The part, such as body.agent or query.limit"`
	Message  string `json:"message"`
}

// NewProblem returns a problem with that code.
func NewProblem(code Code, detail string) *Problem {
	return &Problem{
		Type:   "urn:dibs:problem:" + string(code),
		Title:  meanings[code].title,
		Status: code.Status(),
		Detail: detail,
		Code:   code,
	}
}

// Invalid returns the problem for an unusable part of a request.
func Invalid(location string, err error) *Problem {
	p := NewProblem(CodeInvalidRequest, location+": "+err.Error())
	p.Errors = []Fault{{Location: location, Message: err.Error()}}
	return p
}

func (p *Problem) Error() string { return p.Detail }

// RetryIn sets how long to wait before trying again, rounded up to seconds.
func (p *Problem) RetryIn(d time.Duration) {
	p.RetryAfter = int((d + time.Second - 1) / time.Second)
}

// TooOften turns the problem into status 429 with a Retry-After of wait.
func (p *Problem) TooOften(wait time.Duration) {
	p.Status = http.StatusTooManyRequests
	p.RetryIn(wait)
}

// Collapse makes one space of all white space between words, line ends too. It keeps characters that
// are not seen, some of which join letters, and which [task.OneLine] replaces.
func Collapse(s string) string { return strings.Join(strings.Fields(s), " ") }

// Saying returns an error's text in one line, also that of joined errors.
func Saying(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = Collapse(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// Summary counts why the unfinished tasks of the board are not ready, for an agent that asked for
// the next one.
type Summary struct {
	Held            int  `json:"held" doc:"Tasks that somebody has"`
	Blocked         int  `json:"blocked" doc:"Tasks that are BLOCKED"`
	Dependencies    int  `json:"dependencies" doc:"Tasks that wait for others"`
	Stuck           int  `json:"stuck,omitempty" doc:"Those of dependencies that can never become ready, unless a person changes what they wait for; absent for none"`
	Assigned        int  `json:"assigned" doc:"Tasks that only somebody else may claim"`
	TakenBack       int  `json:"taken_back,omitempty" doc:"Tasks that somebody took back from the agent within the last hour; absent for none"`
	Touched         int  `json:"touched,omitempty" doc:"Tasks that touch what others have, or wait in favour of one that does"`
	CoolingOff      int  `json:"cooling_off" doc:"Tasks that are passed over for a while, because their pages could not be read or written"`
	Filtered        int  `json:"filtered" doc:"Tasks that are ready, and not what was asked for"`
	Review          int  `json:"review,omitempty" doc:"Tasks that are done, and that a person has yet to look at; absent for none"`
	Failed          int  `json:"failed,omitempty" doc:"Tasks that are FAILED; absent for none"`
	NotOffered      int  `json:"not_offered,omitempty" doc:"Tasks that are not for agents, by tasks.only; absent for none"`
	Other           int  `json:"other" doc:"Tasks that cannot be claimed as they are, such as those in a status that tasks.statuses does not name"`
	NextLeaseEndsAt Time `json:"next_lease_ends_at,omitzero" doc:"When the first of the leases ends that are held, unless it is renewed"`
}
