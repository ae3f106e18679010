package task

import "time"

// Body is the JSON form in which a task is stored and passed on: complete, unlike the JSON of a
// Task, but for Unblocks, which is counted anew.
type Body struct {
	Task
	Token   string        `json:"token,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Odd     bool          `json:"odd_timeout,omitempty"`
	Lost    Lost          `json:"lost,omitzero"`
	Editor  string        `json:"edited_by,omitempty"`
}

// BodyOf returns the body of t.
func BodyOf(t Task) Body {
	return Body{Task: t, Token: t.Token, Timeout: t.Timeout, Odd: t.OddTimeout, Lost: t.Lost, Editor: t.EditedBy}
}

// Whole is the inverse of BodyOf.
func (b Body) Whole() Task {
	b.Task.Token, b.Task.Timeout, b.Task.OddTimeout, b.Task.Lost, b.Task.EditedBy = b.Token, b.Timeout, b.Odd, b.Lost, b.Editor
	return b.Task
}

// Lost says which values of a claim on a page are empty because their column in Notion, or the
// option for IN_PROGRESS, was deleted and made again, and nobody has edited the page since: no person
// took them off.
type Lost struct {
	Status bool `json:"status,omitempty"`
	Holder bool `json:"holder,omitempty"`
	Token  bool `json:"token,omitempty"`
}
