package task

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Priority ranks tasks; a lower value is more urgent.
type Priority int

// The priorities, most urgent first. The zero value means none.
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
	i := slices.IndexFunc(Priorities, func(known Priority) bool { return known.String() == name })
	if i < 0 {
		return fmt.Errorf("%q is not a priority", name)
	}
	*p = Priorities[i]
	return nil
}
