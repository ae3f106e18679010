package api

// PauseRequest asks that nothing be granted for a while.
type PauseRequest struct {
	Agent      string  `json:"agent,omitempty" doc:"Whom to pause, an agent or a pattern such as agent-*; without it, everybody"`
	ForSeconds float64 `json:"for_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"How long; without it, until somebody resumes"`
	Reason     string  `json:"reason,omitempty" fit:"exact" maxLength:"1000" doc:"Why, for those who are refused"`
	By         string  `json:"by,omitempty" doc:"Who asks, as the daemon's user or root says; of anybody else, and without it, it is the caller's user"`
}

// ResumeRequest ends a pause.
type ResumeRequest struct {
	Agent string `json:"agent,omitempty" doc:"Whose pause: as it was given; without it, that of everybody, and the breaker's. Only the daemon's user and root end their own"`
	By    string `json:"by,omitempty" doc:"As in a PauseRequest"`
}

// Pause is a time without grants.
type Pause struct {
	Agent     string `json:"agent,omitempty" doc:"Who is paused, an agent or a pattern; absent: everybody"`
	By        string `json:"by" doc:"Who paused; dibs if claim.breaker did"`
	Reason    string `json:"reason,omitempty"`
	At        Time   `json:"at"`
	ExpiresAt Time   `json:"expires_at,omitzero" doc:"When it ends; absent if somebody has to end it, or the task that claim.breaker let through"`
}

// Paused answers a PauseRequest and a ResumeRequest.
type Paused struct {
	Changed bool    `json:"changed" doc:"Something was paused or resumed"`
	Pauses  []Pause `json:"pauses" nullable:"false" doc:"What is paused now"`
}
