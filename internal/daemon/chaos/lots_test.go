package chaos_test

import (
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"dibs/internal/notion/emulator"
)

// lots injects faults into single requests during a run: each fault strikes a share of its
// requests.
type lots struct {
	*chaos
	mu     sync.Mutex
	random *rand.Rand
	first  map[string]*http.Request // the first to write a token
}

// begin activates the faults.
func (l *lots) begin() {
	l.first = make(map[string]*http.Request)
	for _, lot := range []struct {
		kind    emulator.FaultKind
		percent int
		late    time.Duration
		strikes func(*http.Request, []byte) bool
	}{
		// Only claim writes and log entries may land after their senders gave them up, see package
		// claim.
		{emulator.Delay, 5, l.window / 2, l.isClaim},
		{emulator.Delay, 5, l.window, l.isClaim},
		{emulator.Delay, 3, 2 * l.window, l.isClaim},
		{emulator.DelayAnswer, 2, l.window, l.isClaim},
		{emulator.DropAnswer, 2, 0, l.isClaim},
		{emulator.LateWrite, 3, l.window, l.isClaim},
		{emulator.LateWrite503, 3, 2 * l.window, l.isClaim},
		{emulator.LateWrite, 3, 4 * l.settle, l.isClaim},
		{emulator.LateWrite, 4, time.Second, isEntry},
		{emulator.LateWrite, 4, 8 * time.Second, isEntry},
		{emulator.DropAnswer, 4, 0, isEntry},
		{emulator.StaleQuery, 10, 3 * time.Second, isAny},
	} {
		if l.long > 0 && lot.kind != emulator.StaleQuery {
			// A daemon that stands still cannot repair a covered claim in time.
			continue
		}
		l.notion.Inject(emulator.Fault{Kind: lot.kind, Delay: lot.late, Late: lot.late, Match: func(r *http.Request, body []byte) bool {
			if !lot.strikes(r, body) || !l.roll(lot.percent) {
				return false
			}
			if id, ok := strings.CutPrefix(r.URL.Path, "/v1/pages/"); ok {
				l.heldUp(id)
			}
			l.count("lots: " + string(lot.kind))
			return true
		}})
	}
}

// roll returns true with that probability in percent.
func (l *lots) roll(percent int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(100) < percent
}

var tokenWritten = regexp.MustCompile(`"content":"([0-9A-HJKMNP-TV-Z]{26})"`)

// isClaim matches the writes of new claims.
func (l *lots) isClaim(r *http.Request, body []byte) bool {
	if r.Method != http.MethodPatch || !strings.Contains(string(body), `"IN_PROGRESS"`) {
		return false
	}
	m := tokenWritten.FindSubmatch(body)
	if m == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first[string(m[1])] == nil {
		l.first[string(m[1])] = r
	}
	return l.first[string(m[1])] == r
}

// isEntry matches the writes of log entries.
func isEntry(r *http.Request, _ []byte) bool {
	return r.Method == http.MethodPost && r.URL.Path == "/v1/pages"
}

func isAny(*http.Request, []byte) bool { return true }
