package notion

import (
	"sync"
	"time"

	"dibs/internal/task"
)

// writes remembers when pages were written last. It is safe for concurrent use.
type writes struct {
	mu sync.Mutex
	at lately[task.ID, time.Time]
}

// note records a write of a page that is sent now, or was just answered.
func (w *writes) note(page task.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at.put(page, time.Now())
}

// Wrote reports whether this client wrote the page of a task, or a comment on it, at since or
// later, by this machine's clock.
func (c *Client) Wrote(page task.ID, since time.Time) bool {
	c.writes.mu.Lock()
	defer c.writes.mu.Unlock()
	at, ok := c.writes.at.get(page)
	return ok && !at.Before(since)
}
