package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// whole is an answer's body that has been read. It keeps its bytes, so that each part of the
// chain can read them without a copy.
type whole struct {
	bytes.Reader
	data []byte
	at   Moment // when the answer was made; zero until hear has looked at it
}

// Close implements io.Closer.
func (*whole) Close() error { return nil }

// Body returns the whole body of an answer. Callers must not change the bytes. The body of an
// answer that a Transport returned can be read again; any other body is read and closed.
func Body(resp *http.Response) ([]byte, error) {
	if body, ok := resp.Body.(*whole); ok {
		return body.data, nil
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// Moment is when an answer was made, in Notion's time.
type Moment struct {
	// At is the Date of the answer, cut to the second; or, if there was no Date or it is
	// doubted, the estimated time at which the answer was received.
	At time.Time
	// Sure is set if there was a Date and it is believed, see clock.Clock.
	Sure bool
}

// MomentOf returns when an answer that a Transport returned was made; zero for any other answer.
func MomentOf(resp *http.Response) Moment {
	if body, ok := resp.Body.(*whole); ok {
		return body.at
	}
	return Moment{}
}

// WithBody replaces the body of an answer, and returns the answer.
func WithBody(resp *http.Response, data []byte) *http.Response {
	body := &whole{data: data, at: MomentOf(resp)}
	body.Reset(data)
	resp.Body, resp.ContentLength = body, int64(len(data))
	return resp
}

// closeBody closes the body of a request that is not passed on, as a RoundTripper must.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// SendError is the error of a request without a readable answer: it was not sent, the answer
// did not come, or it made no sense.
type SendError struct {
	Method string
	// Server is the host that was asked, if known.
	Server string
	Path   string
	// Landed says whether a write took effect all the same. It means nothing for a read.
	Landed claim.Landed
	// RetryAfter is how long to wait before a retry; zero if that is not known.
	RetryAfter time.Duration
	Err        error
}

func (e *SendError) Error() string {
	return fmt.Sprintf("%s %s%s: %v", e.Method, e.Server, e.Path, e.Err)
}

func (e *SendError) Unwrap() error { return e.Err }

func (e *SendError) retryAfter() time.Duration { return e.RetryAfter }

// Unsent returns the error of a request that was not sent.
func Unsent(req *http.Request, err error) *SendError {
	return &SendError{Method: req.Method, Path: req.URL.Path, Landed: claim.LandedNo, RetryAfter: RetryAfter(err), Err: err}
}

// Unread returns the error of a request whose answer was good but cannot be read.
func Unread(req *http.Request, err error) *SendError {
	return &SendError{Method: req.Method, Path: req.URL.Path, Landed: claim.LandedUnknown, Err: err}
}

// RetryAfter returns how long to wait before a retry, according to the error of a request or of
// a wait for permits; zero if it does not say.
func RetryAfter(err error) time.Duration {
	type later interface {
		error
		retryAfter() time.Duration
	}
	if later, ok := errors.AsType[later](err); ok {
		return later.retryAfter()
	}
	return 0
}

// typed passes good answers on, and turns all others into an *APIError or a *SendError.
type typed struct {
	next   http.RoundTripper
	server string // the host that is asked
}

func (t *typed) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := context.Cause(req.Context()); err != nil {
		closeBody(req)
		return nil, Unsent(req, err)
	}
	ctx, fate := traced(req.Context())
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, &SendError{Method: req.Method, Server: t.server, Path: req.URL.Path, Landed: fate.landed(), Err: err}
	}
	body, err := Body(resp)
	if err != nil {
		return nil, Unread(req, err)
	}
	if resp.StatusCode != http.StatusOK || !json.Valid(body) {
		failed := newAPIError(req, resp, body)
		failed.Server = t.server
		return nil, failed
	}
	return WithBody(resp, body), nil
}

// fate records how far a request gets.
type fate struct{ asked, connected atomic.Bool }

func traced(ctx context.Context) (context.Context, *fate) {
	f := new(fate)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { f.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { f.connected.Store(true) },
	}), f
}

// landed returns whether the write of a failed request may have landed. It cannot have if there
// never was a connection. If the transport does not report connections, the fate is unknown.
func (f *fate) landed() claim.Landed {
	if f.asked.Load() && !f.connected.Load() {
		return claim.LandedNo
	}
	return claim.LandedUnknown
}

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

// Refused reports whether Notion would answer the same request the same way again. It is false for
// what passes: pauses, conflicts, and requests that took too long.
func (e *APIError) Refused() bool {
	switch {
	case e.Status == http.StatusConflict, e.Status == http.StatusRequestTimeout, e.RateLimited(), e.Blocked():
		return false
	}
	return e.Status >= 400 && e.Status < 500
}

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
	var failure struct {
		Object         string         `json:"object"`
		Code           string         `json:"code"`
		Message        string         `json:"message"`
		RequestID      string         `json:"request_id"`
		AdditionalData map[string]any `json:"additional_data"`
	}
	if err := json.Unmarshal(body, &failure); err == nil && failure.Object == "error" {
		e.Code, e.Message = Excerpt(failure.Code), Excerpt(failure.Message)
		e.RequestID, e.AdditionalData = failure.RequestID, failure.AdditionalData
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

// longestPause is the longest pause that Notion is believed to ask for.
const longestPause = 15 * time.Minute

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

// ears keep Notion's time from its answers.
type ears struct {
	clock   *clock.Clock
	started time.Time // the origin of monotonic readings
	log     *slog.Logger
	undated sync.Once // logs once that answers have no Date
}

func newEars(log *slog.Logger) *ears {
	started := time.Now()
	return &ears{clock: clock.New(clock.Local(started)), started: started, log: log}
}

func (e *ears) local() clock.Instant { return clock.Local(e.started) }

func (e *ears) now() time.Time { return e.clock.Now(e.local()) }

// hear passes the time of every answer to the ears, and notes on the answer when it was made.
type hear struct {
	next http.RoundTripper
	ears *ears
}

type datesKey struct{}

// Heard gets the Date header of an answer as it came, and how long the request took.
type Heard func(date string, took time.Duration)

// WithDates returns a context with whose requests heard is called at each answer, good or not.
// Concurrent requests call it concurrently.
func WithDates(ctx context.Context, heard Heard) context.Context {
	return context.WithValue(ctx, datesKey{}, heard)
}

func (t *hear) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := t.ears.local()
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	moment := t.ears.hear(resp.Header.Get("Date"), sent)
	if heard, ok := req.Context().Value(datesKey{}).(Heard); ok {
		heard(resp.Header.Get("Date"), t.ears.local().Since(sent))
	}
	if body, ok := resp.Body.(*whole); ok {
		body.at = moment
	}
	return resp, nil
}

// hear records the Date of an answer to a request that was sent at that moment.
func (e *ears) hear(header string, sent clock.Instant) Moment {
	received := e.local()
	date, err := http.ParseTime(header)
	if err != nil {
		e.undated.Do(func() {
			e.log.Warn("an answer of Notion's has no date: have the proxy on the way pass the Date header; until then nothing is claimed, renewed or swept", "date", header)
		})
		return Moment{At: e.clock.Now(received)}
	}
	if !e.clock.Hear(date, sent, received) {
		now := e.clock.Now(received)
		e.log.Warn("the date of an answer is far from Notion's time as it is known: it counts once another answer agrees",
			"date", date, "known", now, "off", date.Sub(now).Round(time.Second))
		return Moment{At: now}
	}
	return Moment{At: date.UTC(), Sure: true}
}
