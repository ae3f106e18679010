package emulator

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// call is one request being carried out.
type call struct {
	*tx
	params  map[string]string // of the path
	query   url.Values
	body    node
	version version
	// past is how old the data is that a query returns.
	past time.Duration
	// created is the id of the object that the call made.
	created string
}

// render returns the body of an answer. It is called after the transaction is committed or rolled
// back, with the lock still held.
type render func() map[string]any

// answer is what goes back to the client.
type answer struct {
	status int
	header http.Header
	body   []byte
	// cut closes the connection instead of answering.
	cut bool
}

func jsonAnswer(status int, header http.Header, requestID string, body map[string]any) *answer {
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("X-Notion-Request-Id", requestID)
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return &answer{status: status, header: header, body: compact(body)}
}

func errorAnswer(err error) *answer {
	e, isE := errors.AsType[*apiError](err)
	if !isE {
		e = &apiError{status: http.StatusInternalServerError, code: "internal_server_error", message: err.Error()}
	}
	id := newID()
	return jsonAnswer(e.status, e.header(), id, e.body(id))
}

// maxRead is how much of a body is read: more than is accepted, so that a client that sends too
// much can still read the refusal.
const maxRead = 32 * maxBody

// maxUnauthorized is how much is read of a body without the token.
const maxUnauthorized = 64 << 10

// knows reports whether a request has the token.
func (e *Emulator) knows(r *http.Request) bool {
	return r.Header.Get("Authorization") == "Bearer "+e.token
}

// ServeHTTP answers a request of Notion's API, or of the emulator's own API below /_emulator/.
func (e *Emulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	most := int64(maxRead)
	if !e.knows(r) {
		most = maxUnauthorized
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, most))
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	if strings.HasPrefix(r.URL.Path, controlPath) {
		e.control(w, r, body)
		return
	}
	before, after := e.latencyOf(r)
	if !e.wait(r, before) {
		panic(http.ErrAbortHandler)
	}
	logged := e.arrived(r, body)
	a := e.serve(r, body)
	if !a.cut && !e.wait(r, after) {
		a = &answer{cut: true}
	}
	e.answered(logged, a)
	if a.cut {
		panic(http.ErrAbortHandler)
	}
	for key, values := range a.header {
		w.Header()[key] = values
	}
	w.WriteHeader(a.status)
	w.Write(a.body) // an error means that the client is gone
}

func (e *Emulator) latencyOf(r *http.Request) (before, after time.Duration) {
	e.mu.Lock()
	f := e.latency
	e.mu.Unlock()
	if f == nil {
		return 0, 0
	}
	return f(r)
}

// serve carries out a request. It checks in Notion's order: JSON, path, token, version, rate limit.
func (e *Emulator) serve(r *http.Request, body []byte) *answer {
	c, route, err := e.parse(r, body)
	if err == nil {
		err = e.admit()
	}
	if err != nil {
		return errorAnswer(err)
	}
	f := e.strike(r, body, route)
	if f == nil {
		return e.apply(c, route)
	}
	return e.faulty(f, r, c, route)
}

func (e *Emulator) parse(r *http.Request, body []byte) (*call, *route, error) {
	c := &call{query: r.URL.Query(), body: node{path: "body"}}
	if len(body) > maxBody {
		return nil, nil, invalid("body failed validation: body.length should be ≤ `%d`.", maxBody)
	}
	if len(body) == maxUnauthorized && !e.knows(r) {
		return nil, nil, unauthorized(r.Header) // the rest was not read
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &c.body.value); err != nil {
			return nil, nil, invalidJSON()
		}
		c.body.present = true
	}
	route, params := findRoute(r.Method, r.URL.EscapedPath())
	if route == nil {
		return nil, nil, invalidURL()
	}
	if !e.knows(r) {
		return nil, nil, unauthorized(r.Header)
	}
	var err error
	if c.version, err = e.parseVersion(r.Header); err != nil {
		return nil, nil, err
	}
	if c.version < route.since || route.until != "" && c.version >= route.until {
		return nil, nil, invalidURL()
	}
	c.params, err = parseParams(params)
	return c, route, err
}

// parseParams converts the ids of a path to their canonical form.
func parseParams(params map[string]string) (map[string]string, error) {
	for name, v := range params {
		if name == propertyParam {
			continue
		}
		id, err := node{path: "path." + name, value: v, present: true}.id()
		if err != nil {
			return nil, err
		}
		params[name] = id
	}
	return params, nil
}

// apply carries out a call as one transaction, saved before the answer.
func (e *Emulator) apply(c *call, route *route) *answer {
	return e.run(c, route, true)
}

// dryRun carries out a call and rolls it back: the answer shows the old state.
func (e *Emulator) dryRun(c *call, route *route) *answer {
	return e.run(c, route, false)
}

func (e *Emulator) run(c *call, route *route, keep bool) *answer {
	a, changed := e.runLocked(c, route, keep)
	if changed {
		if err := e.save(); err != nil {
			e.log.Error("state not saved", "err", err)
			return errorAnswer(err)
		}
	}
	return a
}

func (e *Emulator) runLocked(c *call, route *route, keep bool) (a *answer, changed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.tx = e.begin(botID)
	c.oneSource = !c.version.hasSources()
	show, err := route.handle(c)
	changed = e.end(c.tx, err == nil && keep)
	if err != nil {
		return errorAnswer(err), changed
	}
	id := newID()
	body := show()
	body["request_id"] = id
	return jsonAnswer(http.StatusOK, nil, id, body), changed
}
