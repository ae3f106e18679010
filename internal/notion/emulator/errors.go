package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// apiError is Notion's refusal of a request. Its codes are stable, its wording is not; known
// wording is used.
type apiError struct {
	status     int
	code       string
	message    string
	additional map[string]any
	retryAfter time.Duration
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.status, e.code, e.message)
}

// header returns the headers of the error. Retry-After is in whole seconds, rounded up.
func (e *apiError) header() http.Header {
	h := http.Header{}
	if e.retryAfter > 0 {
		h.Set("Retry-After", wholeSeconds(e.retryAfter))
	}
	return h
}

func (e *apiError) body(requestID string) map[string]any {
	b := map[string]any{
		"object":     "error",
		"status":     e.status,
		"code":       e.code,
		"message":    e.message,
		"request_id": requestID,
	}
	if len(e.additional) > 0 {
		b["additional_data"] = e.additional
	}
	return b
}

// wholeSeconds formats a duration for Retry-After.
func wholeSeconds(d time.Duration) string {
	return strconv.Itoa(int((d + time.Second - 1) / time.Second))
}

// invalid is the most common refusal: 400 validation_error.
func invalid(format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, code: "validation_error", message: fmt.Sprintf(format, args...)}
}

func invalidURL() *apiError {
	return &apiError{status: http.StatusBadRequest, code: "invalid_request_url", message: "Invalid request URL."}
}

func invalidJSON() *apiError {
	return &apiError{status: http.StatusBadRequest, code: "invalid_json", message: "Error parsing JSON body."}
}

// unauthorized distinguishes an unknown token from a header without one.
func unauthorized(h http.Header) *apiError {
	message := "API token is invalid."
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || strings.TrimSpace(token) == "" {
		message = `Authorization header must use the format "Bearer <token>".`
	}
	return &apiError{status: http.StatusUnauthorized, code: "unauthorized", message: message}
}

// notFound says that an object does not exist or is not shared: Notion does not say which.
func notFound(what, id string) *apiError {
	return &apiError{
		status: http.StatusNotFound,
		code:   "object_not_found",
		message: fmt.Sprintf("Could not find %s with ID: %s. Make sure the relevant pages and databases are shared with your integration %q.",
			what, id, botName),
		additional: map[string]any{"integration_id": integrationID},
	}
}

// restricted is Notion's answer once a free workspace has used its blocks.
func restricted() *apiError {
	return &apiError{
		status: http.StatusForbidden,
		code:   "restricted_resource",
		message: "This workspace has used all of its free blocks. Upgrade its plan in Notion to create more content. " +
			"Learn more: https://www.notion.com/help/understanding-block-usage",
		additional: map[string]any{"block_limit": "block_creation"},
	}
}

func rateLimited(reason string, after time.Duration) *apiError {
	return &apiError{
		status:  http.StatusTooManyRequests,
		code:    "rate_limited",
		message: "You have been rate limited. Please try again in a few minutes.",
		additional: map[string]any{
			"rate_limit_reason": reason,
			"retry_after":       wholeSeconds(after),
		},
		retryAfter: after,
	}
}

// Built-in ids of every workspace: the integration of the token, and the person who makes changes
// that bypass the API.
const (
	botName       = "dibs"
	botID         = "6d2f5c1e-94a3-4c0b-8b53-0f7c2f1d9a10"
	workspaceName = "Workspace"
	integrationID = "b7c0a0f4-3f5e-4d0e-9a57-1f2f4a6e8c21"
	workspaceID   = "1a8ef6b2-5d3c-4e1f-a6b7-3c9d8e0f1a2b"
	personID      = "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a01"

	// homeID is the page that contains the databases.
	homeID = "9c1f0b6e-2a47-81d0-b3c5-7e6d5f4a3b21"
)

// orList formats alternatives as Notion's messages do.
func orList[T ~string](all []T) string {
	var quoted []string
	for _, v := range all {
		quoted = append(quoted, fmt.Sprintf("`%q`", v))
	}
	if last := len(quoted) - 1; last > 1 {
		return strings.Join(quoted[:last], ", ") + ", or " + quoted[last]
	}
	return strings.Join(quoted, " or ")
}

// compact returns v as JSON, without HTML escapes.
func compact(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Only maps, slices and plain values of this package get here.
		panic(fmt.Sprintf("emulator: encoding %T: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
