package claim

import "time"

// Barred says why an agent is granted nothing for now, whatever the task.
type Barred struct {
	Code   Code
	By     string    // who asked for it; empty for a limit
	Until  time.Time // zero if that is not known
	Detail string    // why, in one line
}

// deny returns the denial of the claim c.
func (b Barred) deny(c Hold) *Denied {
	return &Denied{Code: b.Code, Task: c.Task, Holder: b.By, ExpiresAt: b.Until, Local: true, Barred: true, Detail: b.Detail}
}
