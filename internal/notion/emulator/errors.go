package emulator

import (
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
