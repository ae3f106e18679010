package notion

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
)

// codeValidation is the code of an answer that refuses a request for its content.
const codeValidation = "validation_error"

// storeError returns the error of a request as a StoreError, however the library wrapped it. If
// a person must act, the error says how.
func storeError(err error) *claim.StoreError {
	if already, ok := errors.AsType[*claim.StoreError](err); ok {
		return already
	}
	if answered, ok := errors.AsType[*APIError](err); ok {
		kind, advice := sorted(answered)
		err := error(answered)
		if advice != "" {
			err = fmt.Errorf("%s: %w", advice, answered)
		}
		return &claim.StoreError{Kind: kind, Landed: answered.Landed, RetryAfter: answered.RetryAfter, Err: err}
	}
	if failed, ok := errors.AsType[*transport.SendError](err); ok {
		return &claim.StoreError{Kind: claim.Unavailable, Landed: failed.Landed, RetryAfter: failed.RetryAfter, Err: failed}
	}
	// The answer was good, but not what the library expects.
	return claim.Errorf(claim.Unavailable, claim.LandedUnknown, "Notion's answer cannot be read: %w", err)
}

// notSent returns the error of a failed wait for permits.
func notSent(err error) *claim.StoreError {
	return &claim.StoreError{Kind: claim.Unavailable, Landed: claim.LandedNo, RetryAfter: transport.RetryAfter(err), Err: err}
}

// Advice returns what a person can do about an answer; empty if only Notion can act.
func Advice(e *APIError) string {
	_, advice := sorted(e)
	return advice
}

// inTrash matches Notion's message about a page that cannot be written because it is in the
// trash. The answer has no code of its own.
var inTrash = regexp.MustCompile(`(?i)\bedit\b.*\b(archived|in (the )?trash)\b|\bunarchive\b`)

// Notion's messages about an id that is not that of a usable database have no code of their own
// either.
var (
	unshownSources = regexp.MustCompile(`(?i)\bnot contain any data sources\b|\blinked databases?\b`)
	otherKind      = regexp.MustCompile(`(?i)\bis a (page|block), not a database\b`)
	badID          = regexp.MustCompile(`(?i)^path failed validation: .*\bshould be a valid uuid\b`)
)

// hidden is the advice for a database without a data source.
const hidden = "that is a linked view of another database, or a database whose data source is not shared: open the original database in Notion, share it with the connection, and use its id"

// sorted returns the kind of failure, and what a person can do about it.
func sorted(e *APIError) (kind claim.StoreErrorKind, advice string) {
	switch {
	case e.Blocked():
		return claim.Refused, "Notion has blocked this connection: see the connection's page in Notion, or ask Notion's support"
	case e.Status == http.StatusUnauthorized:
		return claim.Refused, "the token was refused: check notion.token"
	case e.Data("block_limit") != "":
		return claim.Refused, "the workspace has no blocks left: make room or upgrade its plan"
	case e.Status == http.StatusForbidden && e.Code == "":
		return claim.Unavailable, "the edge in front of Notion turned the request away, not Notion itself: see whether a proxy, a VPN or a firewall is on the way, or try from another network"
	case e.Status == http.StatusForbidden:
		return claim.Refused, "the connection may not do this: check its capabilities in Notion"
	case e.Status == http.StatusNotFound:
		return claim.NotFound, "no such object, or it is not shared: share the database with the connection"
	case e.Status == http.StatusBadRequest && e.Code == codeValidation && unshownSources.MatchString(e.Message):
		return claim.Refused, hidden
	case e.Status == http.StatusBadRequest && e.Code == codeValidation && otherKind.MatchString(e.Message):
		return claim.Refused, "that is the id of something else, not of a database: open the database as a page of its own, and copy the id from its URL"
	case e.Status == http.StatusBadRequest && e.Code == codeValidation && badID.MatchString(e.Message):
		return claim.NotFound, "that is no id of Notion's, though it looks like one: copy it anew from the URL of the database or page"
	case e.Status == http.StatusBadRequest && e.Code == codeValidation && inTrash.MatchString(e.Message):
		return claim.Trashed, ""
	case e.Status == http.StatusRequestTimeout, e.Status == http.StatusConflict, e.RateLimited(), e.Status >= 500:
		return claim.Unavailable, ""
	case e.Status < 300:
		return claim.Unavailable, "the server does not answer like Notion: check notion.base_url"
	case e.Status < 400:
		return claim.Refused, "the server sends requests elsewhere: check notion.base_url"
	default:
		return claim.Refused, ""
	}
}
