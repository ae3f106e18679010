package task

import (
	"encoding/json"
	"fmt"
)

// Priority ranks tasks; a lower value is more urgent.
type Priority int

// The priorities, most urgent first.
const (
	Critical Priority = iota
	High
	Medium
	Low
	None
)

var priorityNames = [...]string{"critical", "high", "medium", "low", "none"}

// Priorities lists the priorities, most urgent first.
var Priorities = []Priority{Critical, High, Medium, Low, None}

func (p Priority) String() string {
	if p < Critical || p > None {
		return priorityNames[None]
	}
	return priorityNames[p]
}

// MarshalJSON writes the priority's name.
func (p Priority) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// UnmarshalJSON reads a priority's name.
func (p *Priority) UnmarshalJSON(data []byte) error {
	var name string
	if err := json.Unmarshal(data, &name); err != nil {
		return err
	}
	for i, known := range priorityNames {
		if name == known {
			*p = Priority(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a priority: want one of %v", name, priorityNames)
}
