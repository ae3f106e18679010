package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Names interns names, so that each is allocated once.
type Names map[string]Name

// Add adds the numbers in a JSON object of numbers by name. It has a fast path, because a week
// has fifty thousand numbers, and encoding/json takes five times as long.
func (c Counts) Add(object []byte, met Names) error {
	if rest, ok := bytes.CutPrefix(object, []byte("{")); !ok || !c.addPlain(rest, met) {
		var counts Counts
		if err := json.Unmarshal(object, &counts); err != nil {
			return fmt.Errorf("the counts of a span: %w", err)
		}
		for name, n := range counts {
			c[name] += n
		}
	}
	return nil
}

// addPlain is Add for the rest of an object after its opening brace, in the form that
// json.Marshal writes. For any other form it adds nothing and returns false.
func (c Counts) addPlain(rest []byte, met Names) bool {
	type one struct {
		name Name
		n    int
	}
	var room [64]one
	all := room[:0]
	for {
		quoted, after, ok := bytes.Cut(rest, []byte(`":`))
		end := bytes.IndexAny(after, ",}")
		if !ok || end < 0 || len(quoted) < 2 || quoted[0] != '"' || bytes.ContainsAny(quoted[1:], `"\`) {
			return false
		}
		n, err := strconv.Atoi(string(after[:end]))
		if err != nil {
			return false
		}
		name, ok := met[string(quoted[1:])]
		if !ok {
			name = Name(quoted[1:])
			met[string(name)] = name
		}
		all = append(all, one{name, n})
		if rest = after[end+1:]; after[end] == '}' {
			break
		}
	}
	if len(rest) > 0 {
		return false
	}
	for _, of := range all {
		c[of.name] += of.n
	}
	return true
}
