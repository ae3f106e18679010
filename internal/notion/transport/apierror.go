package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// APIError is a failed answer. It may be Notion's JSON, a page of HTML from the edge in front
// of Notion, or empty.
type APIError struct {
	Method string
	// Server is the host of the request.
	Server string
	Path   string
	Status int
	// Code is Notion's stable code; empty if the answer was not Notion's.
	Code string
	// Message is Notion's wording, or a description of an answer that was not Notion's.
	Message string
	// RequestID is the id that Notion's support asks for, or the edge's own id for an answer of
	// the edge.
	RequestID string
	// AdditionalData is the rest of Notion's error.
	AdditionalData map[string]any
	// RetryAfter is the pause that Notion asked for; zero if it asked for none.
	RetryAfter time.Duration
	// Landed says whether a write took effect all the same. It means nothing for a read.
	Landed claim.Landed
}

func (e *APIError) Error() string {
	s := fmt.Sprintf("%s %s%s: %d", e.Method, e.Server, e.Path, e.Status)
	if e.Code != "" {
		s += " " + e.Code
	}
	s += ": " + e.Message
	if e.RequestID != "" {
		s += " (request " + e.RequestID + ")"
	}
	return s
}

// reasonBlocked is the rate limit reason of a connection that Notion has blocked. Retries do
// not help and are unwelcome.
const reasonBlocked = "public_api_request_blocked"

// Data returns the text of a key in AdditionalData; empty if there is none.
func (e *APIError) Data(key string) string {
	s, _ := e.AdditionalData[key].(string)
	return s
}

// RateLimited reports whether Notion asked for a pause.
func (e *APIError) RateLimited() bool {
	return e.Status == http.StatusTooManyRequests || e.Status == statusOverload
}

// Blocked reports whether Notion has blocked this connection.
func (e *APIError) Blocked() bool { return e.Data("rate_limit_reason") == reasonBlocked }

// rateLimited reports whether a request failed because Notion asked for a pause.
func rateLimited(err error) bool {
	answered, isAnswered := errors.AsType[*APIError](err)
	return isAnswered && answered.RateLimited()
}

func (e *APIError) retryAfter() time.Duration { return e.RetryAfter }

// statusOverload is Notion's 529, service_overload, which net/http has no name for.
const statusOverload = 529

// newAPIError returns the error of a failed answer.
func newAPIError(req *http.Request, resp *http.Response, body []byte) *APIError {
	e := &APIError{Method: req.Method, Path: req.URL.Path, Status: resp.StatusCode}
	var said struct {
		Object         string         `json:"object"`
		Code           string         `json:"code"`
		Message        string         `json:"message"`
		RequestID      string         `json:"request_id"`
		AdditionalData map[string]any `json:"additional_data"`
	}
	if err := json.Unmarshal(body, &said); err == nil && said.Object == "error" {
		e.Code, e.Message = Excerpt(said.Code), Excerpt(said.Message)
		e.RequestID, e.AdditionalData = said.RequestID, said.AdditionalData
	} else {
		e.Message = describe(resp, body)
		e.RequestID = resp.Header.Get("X-Notion-Request-Id")
		if e.RequestID == "" {
			e.RequestID = resp.Header.Get("Cf-Ray")
		}
	}
	e.RequestID = Excerpt(e.RequestID)
	e.RetryAfter = askedToWait(resp.Header, e.AdditionalData)
	e.Landed = e.landed()
	return e
}

// describe describes an answer that is not Notion's.
func describe(resp *http.Response, body []byte) string {
	what := "an answer that is not Notion's JSON"
	switch text := strings.TrimSpace(string(body)); {
	case text == "":
		what = "an empty answer"
	case strings.HasPrefix(text, "<"):
		what = "a page of HTML"
	}
	if resp.Header.Get("Cf-Ray") != "" {
		what += " from the edge"
	}
	if name := http.StatusText(resp.StatusCode); name != "" && resp.StatusCode != http.StatusOK {
		return name + ", " + what
	}
	return what
}

// Excerpt makes a server's text safe for an error: one line of at most 500 characters, none of
// which controls a terminal.
func Excerpt(s string) string {
	s = task.OneLine(s, unicode.ReplacementChar)
	if r := []rune(s); len(r) > 500 {
		s = string(r[:500]) + "…"
	}
	return s
}

// landed returns what the answer says about a write.
func (e *APIError) landed() claim.Landed {
	switch {
	case e.Status >= 500 && e.saved():
		return claim.LandedYes
	case e.Status == http.StatusTooManyRequests, e.RateLimited() && e.Code != "": // without a code, the edge is overloaded
		return claim.LandedNo
	case e.Status >= 500, e.Status < 300,
		e.Status == http.StatusRequestTimeout,
		// Notion has been seen to answer 409 to a write that landed.
		e.Status == http.StatusConflict:
		return claim.LandedUnknown
	default:
		return claim.LandedNo
	}
}

// saved reports whether Notion says that it saved the write and only failed to build the
// answer. Guidance on retrying is not enough: queries get some, too.
func (e *APIError) saved() bool {
	if e.Data("committed_resource_id") != "" {
		return true
	}
	guidance, ok := e.AdditionalData["retry_guidance"].([]any)
	return ok && wasSaved.MatchString(fmt.Sprint(e.Message, guidance))
}

var wasSaved = regexp.MustCompile(`(?i)\b(was|has been) saved\b|\bthe saved change\b`)

// askedToWait returns the pause that Notion asked for; zero if it asked for none. The header
// gives it in seconds or as a date. Without the header, the body may give it.
func askedToWait(h http.Header, data map[string]any) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		value, _ = data["retry_after"].(string)
	}
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if !(seconds > 0) {
			return 0
		}
		return time.Duration(math.Ceil(min(seconds, longestPause.Seconds()))) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	from, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		from = time.Now()
	}
	return min(max(0, until.Sub(from)), longestPause)
}
