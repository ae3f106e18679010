package api

// ProcessesPath is where members ask each other about processes. It is not for callers.
const ProcessesPath = "/v1/processes"

// ProcessesRequest asks about processes of another member's machine.
type ProcessesRequest struct {
	PIDs []int `json:"pids"`
}

// Processes are the processes that live.
type Processes struct {
	Processes []Process `json:"processes"`
}

// Process is a living process. Unknown says why it cannot be watched.
type Process struct {
	PID     int    `json:"pid"`
	Began   string `json:"began,omitempty"`
	UID     int    `json:"uid"`
	Unknown string `json:"unknown,omitempty"`
}
