package claim

import (
	"time"

	"dibs/internal/kit/backoff"
)

// retries are the waits before a step owed to Notion is retried.
var retries = backoff.Backoff{First: 3 * time.Second, Longest: 5 * time.Minute}

// maxAsked is the longest wait where the store named the time.
const maxAsked = 30 * time.Minute

// leastHeldBack is the shortest wait before a retry while the store sends nothing. Hasten is
// called when the store sends again.
const leastHeldBack = 15 * time.Second

// laterThan returns when to retry a step that has been owed since then. If the store named a
// time, that decides, up to maxAsked, because it knows best when Notion will be back. Otherwise
// the waits grow with the time for which the step has been owed. A clock that was ahead may have
// set since.
func laterThan(now, since time.Time, cause error) time.Time {
	if wait := RetryAfter(cause); wait > 0 {
		return now.Add(min(max(wait, leastHeldBack), maxAsked))
	}
	return now.Add(retries.Since(now.Sub(since)))
}

// longestWait is longer than the wait for any step. What is due later was put off by a clock that
// was ahead.
func longestWait(p Policy) time.Duration { return max(maxAsked, p.Grace) + time.Minute }
