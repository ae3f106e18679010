package worklog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
)

// An entry that was not taken, or a log that takes none, is tried again after these,
// doubling.
const (
	minBackoff = 15 * time.Second
	maxBackoff = 10 * time.Minute
)

// trouble is what befell an entry that has not arrived.
type trouble struct {
	title  string
	failed int       // how often it was not taken, or did not arrive
	why    error     // the last time
	until  time.Time // when it is tried again, if it waits; zero while it is looked for
}

// troubles is what keeps the entries of one log from arriving.
type troubles struct {
	mu      sync.Mutex
	entries map[string]*trouble // by their ids

	failing map[string]bool // the entries that failed since one was taken
	pauses  int             // how often the whole log has waited since then
	until   time.Time       // until when it does
	why     error           // and why; nil if it is not for the log's own sake
}

// backoff is the wait after that many earlier failures.
func backoff(earlier int) time.Duration {
	return min(minBackoff<<min(max(earlier, 0), 10), maxBackoff)
}

// waits reports whether the whole log waits.
func (t *troubles) waits(now time.Time) bool { return now.Before(t.waitsUntil()) }

func (t *troubles) waitsUntil() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until
}

// taken notes that an entry is in the log.
func (t *troubles) taken(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, id)
	clear(t.failing)
	t.pauses, t.until, t.why = 0, time.Time{}, nil
}

// failed notes that an entry was not taken, and returns what is known of it.
func (t *troubles) failed(e Entry, why error) *trouble {
	known := t.entries[e.ID]
	if known == nil {
		known = &trouble{title: e.Title}
		t.entries[e.ID] = known
	}
	known.failed++
	known.why = why
	t.failing[e.ID] = true
	return known
}

// refused notes that an entry was not taken, or could not be looked for, and returns
// when to try again. An entry that fails alone waits alone, however often it fails; when
// several fail and none is taken in between, the whole log waits.
func (d *Drainer) refused(e Entry, why error) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if asked := claim.RetryAfter(why); asked > 0 {
		// It is Notion as a whole that is not to be asked, and who says so knows best
		// when it will be there. The entry has no part in it.
		d.until, d.why = later(d.until, now.Add(asked)), nil
		return now
	}
	known := d.failed(e, why)
	known.until = now.Add(backoff(max(len(d.failing), known.failed) - 1))
	d.heed(e, why, parallel-1)
	return known.until
}

// unanswered notes that what became of an entry is not known. It is looked for in any
// case; but when that happens to several and none is taken, the whole log waits.
func (d *Drainer) unanswered(e Entry, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed(e, why).until = time.Time{}
	d.heed(e, why, 0)
}

// missing notes that an entry of unknown fate did not arrive, and returns when to send
// it again: at once the first time, for the connection may have been cut by chance.
func (d *Drainer) missing(e Entry) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.entries[e.ID]
	if known == nil || known.failed < 2 {
		return d.now()
	}
	known.until = d.now().Add(backoff(known.failed - 2))
	return known.until
}

// heed has the whole log wait if so many entries have failed: longer each time, and the
// first time as after that many earlier failures.
func (d *Drainer) heed(e Entry, why error, earlier int) {
	if n := len(d.failing); n == 1 || n%10 == 0 {
		d.logger.Warn("a log entry waits in the outbox", "log", d.log, "entry", e.ID, "error", why)
	}
	if len(d.failing) < parallel {
		return
	}
	now := d.now()
	if !now.Before(d.until) { // else it is one more of those that were on their way
		d.pauses++
	}
	d.until, d.why = later(d.until, now.Add(backoff(earlier+d.pauses-1))), why
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Hasten has nothing wait any longer that waits because it, or the log, failed: Notion is
// back. It is to be followed by a run.
func (d *Drainer) Hasten(ctx context.Context) error {
	d.mu.Lock()
	d.until, d.why = time.Time{}, nil
	d.mu.Unlock()
	return d.outbox.Hurry(ctx, d.now(), d.log)
}

// named is how many entries Troubles names.
const named = 3

// Troubles says in a line each what keeps entries of the log from arriving, and when
// they are tried again: the log as a whole, if it waits, else entries one by one. That
// Notion as a whole cannot be reached is not said here.
func (d *Drainer) Troubles() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	in := func(until time.Time) string {
		if left := until.Sub(now).Round(time.Second); left > 0 {
			return "in " + left.String()
		}
		return "now"
	}
	if d.why != nil {
		what := fmt.Sprintf("the %s log takes no entries", d.log)
		if d.log == claim.Comments {
			what = "no comments can be made"
		}
		return []string{fmt.Sprintf("%s: %v: they are kept, and tried again %s", what, d.why, in(d.until))}
	}
	var lines []string
	more := 0
	for _, id := range slices.Sorted(maps.Keys(d.entries)) {
		e := d.entries[id]
		switch {
		case e.until.IsZero() && e.failed < 2:
			// being sent, or looked for after it was sent once, as any may be
		case len(lines) == named:
			more++
		default:
			what := fmt.Sprintf("entry %s of the %s log", id, d.log)
			if d.log == claim.Comments {
				what = "the comment for"
			}
			lines = append(lines, fmt.Sprintf("%s, %q, is not taken: %v: it is kept, and tried again %s",
				what, e.title, e.why, in(cmp.Or(e.until, now))))
		}
	}
	if more > 0 {
		what := fmt.Sprintf("entries of the %s log", d.log)
		if d.log == claim.Comments {
			what = "comments"
		}
		lines = append(lines, fmt.Sprintf("%d more %s are not taken either", more, what))
	}
	return lines
}
