package notion

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"dibs/internal/claim"
)

// APIError is an answer other than a good one, whatever form it had: Notion's
// JSON, a page of HTML from the edge in front of it, or nothing.
type APIError struct {
	Method string
	Path   string
	Status int
	// Code is Notion's, and stable; empty if the answer was not Notion's.
	Code string
	// Message is Notion's wording, or what the answer was instead.
	Message string
	// RequestID is what Notion's support asks for; that of the edge if the answer was its.
	RequestID string
	// AdditionalData is what else Notion said.
	AdditionalData map[string]any
	// RetryAfter is how long Notion asked to be left alone; zero if it did not say.
	RetryAfter time.Duration
	// Landed says whether a write took effect all the same. Of a read it says nothing.
	Landed claim.Landed
}

func (e *APIError) Error() string {
	s := fmt.Sprintf("%s %s: %d", e.Method, e.Path, e.Status)
	if e.Code != "" {
		s += " " + e.Code
	}
	s += ": " + e.Message
	if e.RequestID != "" {
		s += " (request " + e.RequestID + ")"
	}
	return s
}

// The codes and reasons that something depends on.
const (
	codeValidation = "validation_error"
	// reasonBlocked is the rate limit reason of a connection that Notion has shut
	// out; asking again does not help and is not wanted.
	reasonBlocked = "public_api_request_blocked"
	// multipleSources is the error type of a database that has several data sources,
	// where version 2022-06-28 knows of one only.
	multipleSources = "multiple_data_sources_for_database"
)

// several reports whether a database has several data sources, and none was named.
func (e *APIError) several() bool { return e.data("error_type") == multipleSources }

func (e *APIError) data(key string) string {
	s, _ := e.AdditionalData[key].(string)
	return s
}

// rateLimited reports whether Notion asked for a pause.
func (e *APIError) rateLimited() bool {
	return e.Status == http.StatusTooManyRequests || e.Status == statusOverload
}

func (e *APIError) blocked() bool { return e.data("rate_limit_reason") == reasonBlocked }

// statusOverload is Notion's 529, service_overload, which net/http has no name for.
const statusOverload = 529

// newAPIError reads an answer. The status decides: an answer of the edge has
// nothing else to go by.
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
		e.Code, e.Message = oneLine(said.Code), oneLine(said.Message)
		e.RequestID, e.AdditionalData = said.RequestID, said.AdditionalData
	} else {
		e.Message = describe(resp, body)
		e.RequestID = resp.Header.Get("X-Notion-Request-Id")
		if e.RequestID == "" {
			e.RequestID = resp.Header.Get("Cf-Ray")
		}
	}
	e.RequestID = oneLine(e.RequestID)
	e.RetryAfter = retryAfter(resp.Header, e.AdditionalData)
	e.Landed = e.landed()
	return e
}

// describe says what an answer is that is not Notion's.
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

// oneLine folds a message into one line of a length that a log can bear, of
// characters that do nothing to a terminal.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || unicode.IsSpace(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 500 {
		s = string(r[:500]) + "…"
	}
	return s
}

// landed says what the answer says about a write.
func (e *APIError) landed() claim.Landed {
	switch {
	case e.Status >= 500 && e.saved():
		return claim.LandedYes
	case e.rateLimited():
		return claim.LandedNo
	case e.Status >= 500, e.Status < 300,
		e.Status == http.StatusRequestTimeout,
		// A conflict has been answered to writes that landed.
		e.Status == http.StatusConflict:
		return claim.LandedUnknown
	default:
		return claim.LandedNo
	}
}

// saved reports whether Notion says that it saved the write and only could not
// build the answer. Guidance on retrying alone does not say so: a query gets some, too.
func (e *APIError) saved() bool {
	if e.data("committed_resource_id") != "" {
		return true
	}
	guidance, ok := e.AdditionalData["retry_guidance"].([]any)
	return ok && wasSaved.MatchString(fmt.Sprint(e.Message, guidance))
}

var wasSaved = regexp.MustCompile(`(?i)\b(was|has been) saved\b|\bthe saved change\b`)

// retryAfter reads how long to wait from the header, in seconds or as a date, or
// else from the answer's body.
func retryAfter(h http.Header, data map[string]any) time.Duration {
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
