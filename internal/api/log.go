package api

import (
	"dibs/internal/claim"
	"dibs/internal/task"
)

// LogEntry is an entry of the local record of what happened to claims.
type LogEntry struct {
	ID       string     `json:"id"`
	At       Time       `json:"at"`
	Kind     claim.Kind `json:"kind"`
	Task     task.ID    `json:"task,omitempty"`
	Key      string     `json:"key,omitempty" doc:"What people call the task, such as T-3"`
	Title    string     `json:"title,omitempty"`
	URL      string     `json:"url,omitempty"`
	Agent    string     `json:"agent,omitempty"`
	By       string     `json:"by,omitempty" doc:"The user who asked for it in no agent's name, such as user ada"`
	Claim    claim.ID   `json:"claim,omitempty"`
	Code     claim.Code `json:"code,omitempty" doc:"Why an attempt was denied"`
	Holder   string     `json:"holder,omitempty" doc:"The other party: who has the task, had it, or took it"`
	Against  claim.ID   `json:"against,omitempty" doc:"The claim that a denial ran into"`
	Remote   bool       `json:"remote,omitempty" doc:"Notion was asked or written to"`
	Detail   string     `json:"detail,omitempty"`
	Started  Time       `json:"started_at,omitzero"`
	Finished Time       `json:"finished_at,omitzero"`
	Summary  string     `json:"summary,omitempty"`
	Usage    *Usage     `json:"usage,omitempty" doc:"What was used for work that ended, as the agent reported"`
	Count    int        `json:"count,omitempty" doc:"How many attempts were refused"`
	Names    []string   `json:"names,omitempty" doc:"Who was refused"`
	Expires  Time       `json:"expires_at,omitzero" doc:"When the holder's lease ended, or the claim's own"`
	Former   claim.ID   `json:"former,omitempty" doc:"The holder's claim, if it was taken over"`
	Changed  []string   `json:"changed,omitempty" doc:"What was edited on the board"`
	Seen     bool       `json:"seen,omitempty" doc:"It was only seen on the board, and is not on record"`
}

// Log is a part of the local record, oldest entry first.
type Log struct {
	Entries []LogEntry `json:"events" nullable:"false"`
}
