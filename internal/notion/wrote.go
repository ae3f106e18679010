package notion

import (
	"sync"
	"time"

	"dibs/internal/task"
)

// writes remembers when pages were written last, in Notion's time. It is safe for concurrent use.
type writes struct {
	mu sync.Mutex
	at lately[task.ID, time.Time]
}

// writing records that a page is written now.
func (c *Client) writing(page task.ID) {
	c.writes.mu.Lock()
	defer c.writes.mu.Unlock()
	c.writes.at.put(page, c.Now())
}

// Wrote reports whether this client wrote the page of a task, or a comment on it, at since or later,
// in Notion's time.
func (c *Client) Wrote(page task.ID, since time.Time) bool {
	c.writes.mu.Lock()
	defer c.writes.mu.Unlock()
	at, ok := c.writes.at.get(page)
	return ok && !at.Before(since)
}
