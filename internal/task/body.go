package task

import "time"

// Body is the JSON form in which a task is stored and passed on: complete, unlike the JSON of a
// Task, but for Unblocks, which is counted anew.
type Body struct {
	Task
	Token   string        `json:"token,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Editor  string        `json:"edited_by,omitempty"`
}

// BodyOf returns the body of t.
func BodyOf(t Task) Body {
	return Body{Task: t, Token: t.Token, Timeout: t.Timeout, Editor: t.EditedBy}
}

// Whole is the inverse of BodyOf.
func (b Body) Whole() Task {
	b.Task.Token, b.Task.Timeout, b.Task.EditedBy = b.Token, b.Timeout, b.Editor
	return b.Task
}
