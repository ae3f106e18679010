package daemon_test

import (
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"dibs/internal/notion/emulator"
)

// storms are what goes wrong with requests to Notion for a while.
var storms = []emulator.Fault{
	{Kind: emulator.Delay, Delay: 300 * time.Millisecond},
	{Kind: emulator.DelayAnswer, Delay: time.Second},
	{Kind: emulator.SavedBut503}, {Kind: emulator.DropAnswer}, {Kind: emulator.DropRequest},
	// A log entry that Notion says it made, and did not, is lost.
	{Kind: emulator.NotApplied, Method: http.MethodPatch},
	{Kind: emulator.Conflict409}, {Kind: emulator.Conflict409Saved}, {Kind: emulator.Error500}, {Kind: emulator.HTML502},
	{Kind: emulator.Error503}, {Kind: emulator.Error504},
	{Kind: emulator.RateLimited429, RetryAfter: 2 * time.Second}, {Kind: emulator.Overload529, RetryAfter: time.Second},
	{Kind: emulator.StaleQuery, Delay: 8 * time.Second},
	// Two answers in a row with the same wrong date would be believed.
	{Kind: emulator.WrongDate, Off: time.Hour, Times: 1}, {Kind: emulator.WrongDate, Off: -20 * time.Second, Times: 1},
	{Kind: emulator.NoDate},
}

// gales are what goes wrong for longer. A daemon may not get through to Notion meanwhile.
var gales = []emulator.Fault{
	{Kind: emulator.RateLimited429, RetryAfter: time.Minute}, {Kind: emulator.Overload529, RetryAfter: 20 * time.Second},
	{Kind: emulator.StaleQuery, Delay: 2 * time.Minute},
	{Kind: emulator.Delay, Delay: 4 * time.Second}, {Kind: emulator.DelayAnswer, Delay: 12 * time.Second},
}

// weather is what befalls Notion.
type weather struct {
	*mesh
	random *rand.Rand
}

// work has Notion fail now and then, until the troubles end.
func (w *weather) work() {
	for w.pause(w.random, 0, 3*time.Minute) {
		f, lasts := one(w.random, storms...), 20*time.Second
		if !w.late {
			lasts = time.Minute
			switch draw := w.random.IntN(6); {
			case draw == 0:
				f = emulator.Fault{Kind: one(w.random, emulator.DropRequest, emulator.Error503, emulator.HTML502)}
				w.outage(f, upTo(w.random, 10*time.Minute))
				continue
			case draw < 3:
				f, lasts = one(w.random, gales...), 3*time.Minute
			}
		}
		if f.Times == 0 {
			f.Times = 1 + w.random.IntN(6)
		}
		w.outage(f, upTo(w.random, lasts))
	}
}

// outage has a fault strike for that long.
func (w *weather) outage(f emulator.Fault, lasts time.Duration) {
	w.trace.add("weather", "%s %v %v, %d times in %v", f.Kind, f.Delay, f.RetryAfter, f.Times, lasts)
	w.count("faults: " + string(f.Kind))
	from := time.Now()
	lift := w.notion.Inject(f)
	time.Sleep(lasts)
	lift()
	if !w.late {
		w.book.wasAway(0, from)
	}
}

// strew has faults befall single requests, each some of those that it is for, until they are
// lifted.
func (m *mesh) strew() (lift func()) {
	var lifts []func()
	claims := firsts{seen: make(map[string]bool)}
	for i, lot := range []struct {
		kind    emulator.FaultKind
		percent uint64
		late    time.Duration
		strikes func(*http.Request, []byte) bool
		always  bool
	}{
		// Only the writes of claims may land after their senders gave them up, see package
		// claim, and the entries of the logs.
		{emulator.Delay, 10, 700 * time.Millisecond, isWrite, true},
		{emulator.Delay, 6, 1600 * time.Millisecond, claims.are, false},
		{emulator.Delay, 4, 3 * time.Second, claims.are, false},
		{emulator.DelayAnswer, 4, 1600 * time.Millisecond, claims.are, false},
		{emulator.DropAnswer, 4, 0, claims.are, true},
		{emulator.LateWrite, 4, 1200 * time.Millisecond, claims.are, false},
		{emulator.LateWrite503, 4, 3 * time.Second, claims.are, false},
		{emulator.LateWrite, 4, 7 * time.Second, claims.are, false},
		{emulator.LateWrite, 4, time.Second, isEntry, true},
		{emulator.LateWrite, 4, 8 * time.Second, isEntry, true},
		{emulator.DropAnswer, 4, 0, isEntry, true},
		{emulator.DropAnswer, 2, 0, isWrite, true},
		{emulator.StaleQuery, 10, 5 * time.Second, isAny, true},
	} {
		if !lot.always && !m.late {
			continue
		}
		lifts = append(lifts, m.notion.Inject(emulator.Fault{
			Kind: lot.kind, Delay: lot.late, Late: lot.late,
			Match: func(r *http.Request, body []byte) bool {
				if !lot.strikes(r, body) || chance(m.seed, i, r.Host, r.Method, r.URL.Path, len(body))%100 >= lot.percent {
					return false
				}
				if id, ok := strings.CutPrefix(r.URL.Path, "/v1/pages/"); ok && !lot.always {
					m.book.heldUp(id)
				}
				m.trace.add("weather", "%s %s %s %s", lot.kind, r.Host, r.Method, r.URL.Path)
				m.count("lots: " + string(lot.kind))
				return true
			},
		}))
	}
	return func() {
		for _, lift := range lifts {
			lift()
		}
	}
}

var written = regexp.MustCompile(`"content":"([0-9A-HJKMNP-TV-Z]{26})"`)

// firsts knows which claims have been written before.
type firsts struct {
	mu   sync.Mutex
	seen map[string]bool
	last *http.Request
}

// are matches the writes of claims that are new.
func (f *firsts) are(r *http.Request, body []byte) bool {
	if r.Method != http.MethodPatch || !strings.Contains(string(body), `"IN_PROGRESS"`) {
		return false
	}
	token := written.FindSubmatch(body)
	if token == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r != f.last && f.seen[string(token[1])] {
		return false
	}
	f.last, f.seen[string(token[1])] = r, true
	return true
}

// isEntry matches the writes of log entries.
func isEntry(r *http.Request, _ []byte) bool {
	return r.Method == http.MethodPost && r.URL.Path == "/v1/pages"
}

func isWrite(r *http.Request, _ []byte) bool { return r.Method == http.MethodPatch }

func isAny(*http.Request, []byte) bool { return true }
