package inbox

import (
	"time"

	"dibs/internal/task"
)

// Offer is a task that waits for one agent to accept or decline it. Times are Notion's.
type Offer struct {
	// ID is the id of its trigger.
	ID   string    `json:"id"`
	Task task.ID   `json:"task"`
	From string    `json:"from"`
	To   string    `json:"to"`
	At   time.Time `json:"at"`
	// Until is when the offer ends.
	Until time.Time `json:"until"`
}
