package task

import (
	"encoding/json"
	"fmt"
	"strings"
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
	known, err := ParsePriority(name)
	if err == nil {
		*p = known
	}
	return err
}

// ParsePriority returns the priority with that name.
func ParsePriority(name string) (Priority, error) {
	for _, known := range Priorities {
		if name == known.String() {
			return known, nil
		}
	}
	names := make([]string, len(Priorities))
	for i, known := range Priorities {
		names[i] = known.String()
	}
	return None, fmt.Errorf("%q is not a priority: want one of %s", name, strings.Join(names, ", "))
}
