package task

import (
	"encoding/json"
	"fmt"
)

// Priority ranks tasks; a lower value is more urgent.
type Priority int

// The priorities, most urgent first. The zero value is that of a task without one.
const (
	Critical Priority = iota - 4
	High
	Medium
	Low
	None
)

var priorityNames = map[Priority]string{
	Critical: "critical", High: "high", Medium: "medium", Low: "low", None: "none",
}

// Priorities lists the priorities, most urgent first.
var Priorities = []Priority{Critical, High, Medium, Low, None}

func (p Priority) String() string { return priorityNames[p] }

// MarshalJSON writes the priority's name.
func (p Priority) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// UnmarshalJSON reads a priority's name.
func (p *Priority) UnmarshalJSON(data []byte) error {
	var name string
	if err := json.Unmarshal(data, &name); err != nil {
		return err
	}
	for known, n := range priorityNames {
		if name == n {
			*p = known
			return nil
		}
	}
	return fmt.Errorf("%q is not a priority: want one of %v", name, Priorities)
}
