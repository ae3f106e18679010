package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/door/access"
	"dibs/internal/outbox"

	"github.com/danielgtaylor/huma/v2"
)

// problemHeader returns the header fields that go with a problem.
func problemHeader(p *api.Problem) http.Header {
	if p.Status == http.StatusUnauthorized {
		return http.Header{"Www-Authenticate": {`Bearer realm="dibs", error="invalid_token"`}} // RFC 6750, 3
	}
	if p.Status != http.StatusServiceUnavailable && p.Status != http.StatusTooManyRequests || p.RetryAfter == 0 {
		return nil
	}
	h := http.Header{"Retry-After": {strconv.Itoa(p.RetryAfter)}}
	if p.Code == api.CodeStopping {
		h.Set(standbyHeader, "1")
	}
	return h
}

// doorRetry is the Retry-After of a door that reached no leader.
const doorRetry = 2 * time.Second

// cutOff is the answer to a request that was interrupted.
func cutOff(ctx context.Context) *api.Problem {
	if errors.Is(context.Cause(ctx), errStopping) {
		return stopping()
	}
	for _, why := range []*api.Problem{errSilent, errRevoked, errExpired} {
		if errors.Is(context.Cause(ctx), why) {
			return why
		}
	}
	return api.NewProblem(api.CodeInternal, "the caller went away") // which will not read this
}

func stopping() *api.Problem {
	p := api.NewProblem(api.CodeStopping, errStopping.Error())
	p.RetryIn(time.Second)
	return p
}

func silent(says string) *api.Problem {
	p := api.NewProblem(api.CodeJournalUnavailable, says)
	p.RetryIn(broker.RetryUnavailable)
	return p
}

// errSilent is why a stream is given up before it has begun.
var errSilent = silent("the journal has not answered for a second: ask again")

// These end what is open under an access token.
var (
	errRevoked = access.Unauthorized("the access token was revoked: have another one made with dibs token new")
	errExpired = access.Unauthorized("the access token has expired: ask again with another one")
)

// requestProblem converts findings about a request.
func requestProblem(status int, detail string, found ...error) *api.Problem {
	p := api.NewProblem(api.CodeInvalidRequest, detail)
	p.Status = status // 400 if it is not JSON at all
	var details []string
	for _, err := range found {
		e := err.(*huma.ErrorDetail)
		p.Errors = append(p.Errors, api.Fault{Location: e.Location, Message: e.Message})
		details = append(details, e.Location+": "+e.Message)
	}
	if len(details) > 0 {
		p.Detail = api.Collapse(strings.Join(details, "; "))
	}
	return p
}

// writeProblem answers with a problem.
func writeProblem(w http.ResponseWriter, p *api.Problem) {
	for name, values := range problemHeader(p) {
		w.Header()[name] = values
	}
	writeJSON(w, p.Status, p)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	var body bytes.Buffer
	if err := encode(&body, value); err != nil {
		panic(err) // values of package api can be written
	}
	writeAnswer(w, outbox.Answer{Status: status, Body: body.Bytes()})
}

func writeAnswer(w http.ResponseWriter, a outbox.Answer) {
	media := "application/json"
	if a.Status >= http.StatusBadRequest {
		media = api.ProblemType
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(a.Status)
	w.Write(a.Body) // no use for an error: the caller is gone
}

// encode writes a value as JSON and ends the line.
func encode(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

// recordedAnswer buffers an answer, which is stored before it is sent. Header fields go straight to
// the answer that will be sent.
type recordedAnswer struct {
	http.ResponseWriter
	outbox.Answer
}

func (r *recordedAnswer) WriteHeader(status int) { r.Status = status }

func (r *recordedAnswer) Write(data []byte) (int, error) {
	r.Status = cmp.Or(r.Status, http.StatusOK)
	r.Body = append(r.Body, data...)
	return len(data), nil
}

// observedWriter remembers the status of an answer, and limits the time that the caller takes to
// read each piece: a caller that reads nothing must not keep its connection for ever.
type observedWriter struct {
	http.ResponseWriter
	connection *http.ResponseController
	status     int // zero until there is one
}

func (w *observedWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.connection.SetWriteDeadline(time.Now().Add(writeTimeout))
	w.ResponseWriter.WriteHeader(status)
}

func (w *observedWriter) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.connection.SetWriteDeadline(time.Now().Add(writeTimeout))
	return w.ResponseWriter.Write(data)
}

// Unwrap gives http.ResponseController the connection.
func (w *observedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// discarded keeps only the header of an answer.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header            { return d.header }
func (d *discarded) Write(data []byte) (int, error) { return len(data), nil }
func (d *discarded) WriteHeader(int)                {}

// begunWriter notes that an answer has begun.
type begunWriter struct {
	http.ResponseWriter
	begun atomic.Bool
}

func (w *begunWriter) WriteHeader(status int) {
	w.begun.Store(true)
	w.ResponseWriter.WriteHeader(status)
}

func (w *begunWriter) Write(data []byte) (int, error) {
	w.begun.Store(true)
	return w.ResponseWriter.Write(data)
}

// Unwrap gives http.ResponseController the connection.
func (w *begunWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

const (
	maxBody       = 64 << 10
	maxAdded      = 512 << 10 // of a request for a new task, with its content
	maxMistake    = 1 << 20   // how much is read beyond maxBody
	maxHeader     = 16 << 10
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// writeTimeout limits how long a caller takes to read each piece of an answer.
	writeTimeout = 30 * time.Second
	// flushTimeout is for answering the requests that a shutdown cut off.
	flushTimeout = time.Second
)

var errStopping = errors.New("the daemon is stopping: ask again once it runs")

// standbyHeader marks the answer of a member that does not lead, or no longer does. The door then
// asks the new leader, which knows from the key what was done already.
const standbyHeader = "Dibs-Standby"
