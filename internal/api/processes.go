package api

// ProcessesPath is where members ask each other for processes. It is not for callers.
const ProcessesPath = "/v1/processes"

// ProcessesRequest asks for processes of another member's machine.
type ProcessesRequest struct {
	PIDs []int `json:"pids"`
}

// Processes are those that are alive.
type Processes struct {
	Processes []Process `json:"processes"`
}

// Process is one of them. Unknown says why it cannot be watched.
type Process struct {
	PID     int    `json:"pid"`
	Began   string `json:"began,omitempty"`
	UID     int    `json:"uid"`
	Unknown string `json:"unknown,omitempty"`
}
