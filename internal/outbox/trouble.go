package outbox

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
)

// The wait after a failure, of one intent or of all: it doubles from minBackoff to maxBackoff.
const (
	minBackoff = 15 * time.Second
	maxBackoff = 10 * time.Minute
)

// trouble is an intent that failed, and has not arrived.
type trouble struct {
	Intent
	failed int       // how often it failed
	why    error     // the last failure
	until  time.Time // when it is tried again; zero while it is in doubt
}

// troubles keeps the failures of one queue.
type troubles struct {
	mu      sync.Mutex
	intents map[string]*trouble // by id

	failing map[string]bool // the intents that failed since the last success
	pauses  int             // how often all have waited since then
	until   time.Time       // until when all wait
	why     error           // why all wait; nil if Notion as a whole asked for it
	holding bool            // all wait for more, see Queue.holds
	tally   Tally
}

// backoff returns the wait after that many earlier failures.
func backoff(earlier int) time.Duration {
	return min(minBackoff<<min(max(earlier, 0), 10), maxBackoff)
}

// waits reports whether all intents wait.
func (t *troubles) waits(now time.Time) bool { return now.Before(t.waitsUntil()) }

func (t *troubles) waitsUntil() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until
}

// goOn ends the wait of all intents.
func (t *troubles) goOn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until, t.why = time.Time{}, nil
}

// taken notes that an intent is in Notion.
func (t *troubles) taken(in Intent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, in := range in.All() {
		delete(t.intents, in.ID)
		t.tally.Sent++
	}
	clear(t.failing)
	t.pauses, t.until, t.why = 0, time.Time{}, nil
}

// fails notes that an intent failed, and returns its trouble.
func (t *troubles) fails(in Intent, why error) *trouble {
	known := t.intents[in.ID]
	if known == nil {
		known = &trouble{Intent: in}
		t.intents[in.ID] = known
	}
	known.failed++
	known.why = why
	t.failing[in.ID] = true
	return known
}

// refused notes that Notion did not take an intent, or could not look it up, and returns when to
// try again. An intent that fails alone waits alone, however often it fails. If several fail
// without a success in between, all wait.
func (q *Queue) refused(in Intent, why error) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	q.tally.Failed++
	if asked := claim.RetryAfter(why); asked > 0 {
		// Notion as a whole asks to be left alone, and says for how long. That is no failure
		// of the intent.
		q.until, q.why = later(q.until, now.Add(asked)), nil
		if q.config.To != nil {
			q.why, q.holding = why, true
		}
		return now
	}
	known := q.fails(in, why)
	known.until = now.Add(backoff(max(len(q.failing), known.failed) - 1))
	q.heed(in, why, q.crowd()-1)
	return known.until
}

// crowd is how many intents have to fail for all to wait: a receiver fails as a whole.
func (q *Queue) crowd() int {
	if q.config.To != nil {
		return 1
	}
	return parallel
}

// unanswered notes that an intent's fate is unknown. The intent itself is looked up as usual; but
// if this happens to several without a success in between, all wait.
func (q *Queue) unanswered(in Intent, why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fails(in, why).until = time.Time{}
	q.heed(in, why, 0)
}

// missing notes that an intent in doubt did not arrive, and returns when to send it again: at once
// the first time, because the connection may have been cut by chance.
func (q *Queue) missing(in Intent) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.intents[in.ID]
	if known == nil || known.failed < 2 {
		return q.now()
	}
	known.until = q.now().Add(backoff(known.failed - 2))
	return known.until
}

// heed makes all intents wait once enough of them have failed. The wait gets longer each time; the
// first is as long as after that many earlier failures.
func (q *Queue) heed(in Intent, why error, earlier int) {
	if n := len(q.failing); q.config.To != nil {
		q.config.Log.Warn("notices wait for their receiver", "receiver", q.config.To.Name, claim.AttrError, why)
	} else if n == 1 || n%10 == 0 {
		id, _ := q.config.Entries.Name(in)
		q.config.Log.Warn("a log entry waits in the outbox", "log", q.config.Kind, "entry", id, claim.AttrError, why)
	}
	if len(q.failing) < q.crowd() {
		return
	}
	now := q.now()
	if !now.Before(q.until) { // else it was sent before the wait began
		q.pauses++
	}
	q.until, q.why = later(q.until, now.Add(backoff(earlier+q.pauses-1))), why
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// named is how many entries Troubles names.
const named = 3

// Troubles describes why intents do not arrive, and when they are tried again: in one line if all
// wait, else in a line for each. It does not report that Notion as a whole cannot be reached.
func (q *Queue) Troubles() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	in := func(until time.Time) string {
		if left := until.Sub(now).Round(time.Second); left > 0 {
			return "in " + left.String()
		}
		return "now"
	}
	var lines []string
	if n := q.tally.GivenUp; n > 0 {
		lines = append(lines, fmt.Sprintf("notices given up since the daemon's start, because %s had not taken them after %.0f hours: %d; dibs log has what happened", q.config.To.Name, q.config.To.Keep.Hours(), n))
	}
	if q.why != nil {
		what := fmt.Sprintf("the %s log takes no entries", q.config.Kind)
		switch {
		case q.config.To != nil:
			what = q.config.To.Name + " takes no notices"
		case q.config.Kind == Comment:
			what = "no comments can be made"
		}
		return append(lines, fmt.Sprintf("%s: %v: they are kept, and tried again %s", what, q.why, in(q.until)))
	}
	more := 0
	for _, key := range slices.Sorted(maps.Keys(q.intents)) {
		t := q.intents[key]
		switch {
		case t.until.IsZero() && t.failed < 2:
			// being sent, or looked for after it was sent once, as any may be
		case len(lines) == named:
			more++
		default:
			id, title := q.config.Entries.Name(t.Intent)
			what := fmt.Sprintf("entry %s of the %s log", id, q.config.Kind)
			if q.config.Kind == Comment {
				what = "the comment for"
			}
			lines = append(lines, fmt.Sprintf("%s, %q, is not taken: %v: it is kept, and tried again %s",
				what, title, t.why, in(cmp.Or(t.until, now))))
		}
	}
	if more > 0 {
		what := fmt.Sprintf("entries of the %s log", q.config.Kind)
		if q.config.Kind == Comment {
			what = "comments"
		}
		lines = append(lines, fmt.Sprintf("%d more %s are not taken either", more, what))
	}
	return lines
}
