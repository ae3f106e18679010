package emulator

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Inject adds a fault after those in force. A request is struck by the first fault that matches,
// and only by that. remove ends the fault and lets the requests that wait for it go on. Inject
// panics if the kind is unknown, or strikes only events and Event is empty, or the other way round.
func (e *Emulator) Inject(f Fault) (remove func()) {
	if err := f.check(); err != nil {
		panic("emulator: " + err.Error())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	in := &injected{Fault: f, removed: make(chan struct{})}
	e.faultSeq++
	in.id = e.faultSeq
	e.faults = append(e.faults, in)
	return func() { e.remove(in) }
}

func (e *Emulator) remove(f *injected) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = slices.DeleteFunc(e.faults, func(g *injected) bool { return g == f })
	if !f.gone {
		f.gone = true
		close(f.removed)
	}
}

// strike returns the fault that strikes a request, or nil.
func (e *Emulator) strike(r *http.Request, body []byte, route *route) *injected {
	for _, f := range e.inForce() {
		// Match runs without the lock, so that it may call the emulator.
		if f.matches(r, body, route) && e.count(f) {
			return f
		}
	}
	return nil
}

func (e *Emulator) inForce() []*injected {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.faults)
}

// count records a match and reports whether the fault strikes. A fault that has struck Times
// requests stays, because some may still wait for its removal.
func (e *Emulator) count(f *injected) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.gone {
		return false
	}
	f.matched++
	return f.matched > f.Skip && (f.Times == 0 || f.matched <= f.Skip+f.Times)
}

// faulty carries out a request that the fault strikes.
func (e *Emulator) faulty(f *injected, r *http.Request, c *call, route *route) *answer {
	cut := &answer{cut: true}
	switch f.Kind {
	case Delay:
		if !e.wait(r, f.Delay) {
			return cut
		}
		return e.apply(c, route)
	case DelayAnswer:
		a := e.apply(c, route)
		if !e.wait(r, f.Delay) {
			return cut
		}
		return a
	case Stop:
		if !e.stall(f, r) {
			return cut
		}
		return e.apply(c, route)
	case StopAfter:
		a := e.apply(c, route)
		if !e.stall(f, r) {
			return cut
		}
		return a
	case WrongDate:
		return e.apply(c, route).dated(time.Now().Add(f.Off).UTC().Format(http.TimeFormat))
	case NoDate:
		return e.apply(c, route).dated()
	case StuckDate:
		a := e.apply(c, route)
		e.mu.Lock()
		defer e.mu.Unlock()
		f.date = cmp.Or(f.date, a.header.Get("Date"))
		return a.dated(f.date)
	case RoundedDate:
		c.step = f.Off
		return e.apply(c, route)
	case AppendedFirst:
		c.first = true
		return e.apply(c, route)
	case TrashedAgain:
		c.again = true
		return e.apply(c, route)
	case DropRequest:
		return cut
	case DropAnswer:
		e.apply(c, route)
		return cut
	case NotApplied:
		return e.dryRun(c, route)
	case LateWrite200, LostWrite:
		c.early = true
		a := e.dryRun(c, route)
		if c.early = false; f.Kind == LateWrite200 {
			e.applyLater(f.Late, c, route)
		}
		return a
	case TakenBack:
		return e.takenBack(f.Late, c, route)
	case Unanswered:
		e.applyLater(f.Late, c, route)
		e.stall(f, r)
		return cut
	case LateWrite:
		e.applyLater(f.Late, c, route)
		return cut
	case LateWrite503:
		e.applyLater(f.Late, c, route)
		return f.refusal()
	case StaleQuery, StaleRead:
		c.past = f.Delay
		return e.apply(c, route)
	case SavedBut503:
		if a := e.apply(c, route); a.status != http.StatusOK {
			return a
		}
		return savedBut503(c)
	case Conflict409Saved:
		if a := e.apply(c, route); a.status != http.StatusOK {
			return a
		}
	}
	return f.refusal()
}

// dated replaces an answer's Date, or removes it.
func (a *answer) dated(date ...string) *answer {
	a.header["Date"] = date // net/http adds no Date if the key exists with nil
	return a
}

// stall waits until the fault is removed; it returns false if the connection or the emulator closed
// first.
func (e *Emulator) stall(f *injected, r *http.Request) bool {
	select {
	case <-f.removed:
		return true
	case <-r.Context().Done():
	case <-e.stopping():
	}
	return false
}

// applyLater carries out a call after its answer. Its result is only logged.
func (e *Emulator) applyLater(after time.Duration, c *call, route *route) {
	e.later(after, func() {
		a := e.apply(c, route)
		e.log.Info("late write", "path", route.pattern, "status", a.status)
	})
}

// takenBack carries out a change of a page, and undoes it later.
func (e *Emulator) takenBack(after time.Duration, c *call, route *route) *answer {
	id := c.params["page_id"]
	e.mu.Lock()
	was := e.world.Pages[id]
	e.mu.Unlock()
	a := e.apply(c, route)
	if was != nil {
		e.later(after, func() { _ = e.change(id, func(p *page) { p.Values = maps.Clone(was.Values) }) })
	}
	return a
}

// later calls f after a time, unless the emulator is closed before.
func (e *Emulator) later(after time.Duration, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isClosed {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(after, func() {
		e.mu.Lock()
		due := e.late[t]
		delete(e.late, t)
		e.mu.Unlock()
		if due {
			f()
		}
	})
	e.late[t] = true
}

// savedBut503 returns a 503 that says the write was saved.
func savedBut503(c *call) *answer {
	additional := map[string]any{
		"from":        "publicApi.pageObjectPointerToPageObject.beforePreload",
		"elapsed_ms":  "55012",
		"deadline_ms": "55000",
		"retry_guidance": []string{
			"Read the object again to confirm the saved change.",
			"Do not repeat the write.",
		},
	}
	if c.created != "" {
		additional["committed_resource_id"] = c.created
	}
	return errorAnswer(&apiError{
		status: http.StatusServiceUnavailable, code: "service_unavailable",
		message: "The change was saved, but the response could not be built in time. " +
			"Read the object again instead of repeating the write.",
		additional: additional,
	})
}

// refusal returns the error answer of a fault.
func (f *Fault) refusal() *answer {
	after := f.RetryAfter
	if after == 0 {
		after = windowLength
	}
	reason := f.Reason
	if reason == "" {
		reason = "public_api_request_rate_limit"
	}
	switch f.Kind {
	case RateLimited429:
		return errorAnswer(rateLimited(reason, after))
	case Blocked429:
		return errorAnswer(&apiError{
			status: http.StatusTooManyRequests, code: "rate_limited", message: "This request has been blocked.",
			additional: map[string]any{"rate_limit_reason": "public_api_request_blocked"}, retryAfter: f.RetryAfter,
		})
	case HTML502:
		return htmlAnswer()
	}
	e := *refusals[f.Kind]
	if f.Kind == Overload529 {
		e.retryAfter = after
	}
	return errorAnswer(&e)
}

// refusals are the errors that faults answer with.
var refusals = map[FaultKind]*apiError{
	Conflict409:      conflict,
	Conflict409Saved: conflict,
	Forbidden403:     {status: http.StatusForbidden, code: "restricted_resource", message: "Insufficient permissions for this endpoint."},
	Overload529:      {status: 529, code: "service_overload", message: "Notion is overloaded. Please try again later."},
	Error500:         {status: http.StatusInternalServerError, code: "internal_server_error", message: "Unexpected error occurred."},
	Error503:         unavailable,
	LateWrite503:     unavailable,
	Error504:         {status: http.StatusGatewayTimeout, code: "gateway_timeout", message: "Notion encountered a gateway timeout."},
}

var conflict = &apiError{status: http.StatusConflict, code: "conflict_error", message: "Conflict occurred while saving. Please try again."}

var unavailable = &apiError{
	status: http.StatusServiceUnavailable, code: "service_unavailable",
	message: "Notion is unavailable. Please try again later.",
}

// htmlAnswer is the answer of the proxy in front of Notion when it cannot reach Notion: HTML
// without Notion's request id.
func htmlAnswer() *answer {
	const page = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n" +
		"<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>cloudflare</center>\r\n</body>\r\n</html>\r\n"
	h := http.Header{}
	h.Set("Content-Type", "text/html; charset=UTF-8")
	h.Set("Server", "cloudflare")
	h.Set("Cf-Ray", strings.ToLower(newID()[:8])+newID()[:8]+"-AMS")
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return &answer{status: http.StatusBadGateway, header: h, body: []byte(page)}
}

// controlPath begins the paths by which other processes control the emulator.
const controlPath = "/_emulator/"

// faultJSON is a Fault on the wire; durations look like "1.5s".
type faultJSON struct {
	Event      string    `json:"event"`
	Method     string    `json:"method"`
	Path       string    `json:"path"`
	Skip       int       `json:"skip"`
	Times      int       `json:"times"`
	Kind       FaultKind `json:"kind"`
	Delay      duration  `json:"delay"`
	Late       duration  `json:"late"`
	Off        duration  `json:"off"`
	RetryAfter duration  `json:"retry_after"`
	Reason     string    `json:"reason"`
}

type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(v)
	return err
}

// control answers the emulator's own requests: POST and DELETE of faults, GET and DELETE of the
// request log. They need the token. They are not logged or counted, and faults do not apply to
// them.
func (e *Emulator) control(w http.ResponseWriter, r *http.Request, body []byte) {
	if !e.knows(r) {
		http.Error(w, "the token is wrong", http.StatusUnauthorized)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "POST " + controlPath + "faults":
		var f faultJSON
		err := json.Unmarshal(body, &f)
		fault := Fault{
			Event: f.Event, Method: f.Method, Path: f.Path, Skip: f.Skip, Times: f.Times, Kind: f.Kind,
			Delay: time.Duration(f.Delay), Late: time.Duration(f.Late), Off: time.Duration(f.Off), RetryAfter: time.Duration(f.RetryAfter), Reason: f.Reason,
		}
		if err == nil {
			err = fault.check()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		e.Inject(fault)
		w.WriteHeader(http.StatusNoContent)
	case "DELETE " + controlPath + "faults":
		e.removeAll()
		w.WriteHeader(http.StatusNoContent)
	case "GET " + controlPath + "requests":
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Write(compact(e.Requests()))
	case "DELETE " + controlPath + "requests":
		e.ResetRequests()
		w.WriteHeader(http.StatusNoContent)
	default:
		http.Error(w, "no such request: want POST or DELETE faults, GET or DELETE requests", http.StatusNotFound)
	}
}

// removeAll removes every fault.
func (e *Emulator) removeAll() {
	for _, f := range e.inForce() {
		e.remove(f)
	}
}
