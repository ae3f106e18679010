// Package api defines the daemon's API: the JSON of requests and answers, and the codes of refusals
// with the HTTP status and the exit code of each. Package server translates the broker into it;
// package client speaks it. One table lists the operations (operations.go). It is a contract: add
// to it, and change nothing in it.
package api

import (
	"net/http"

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
