package arbiter

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Settings are those that all members should have alike: a line of key=value for each. Members
// of different versions may know different ones.
type Settings string

// SettingsOf puts settings into a text, in the order of their keys.
func SettingsOf(values map[string]string) Settings {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, key+"="+strings.Join(strings.Fields(values[key]), " "))
	}
	return Settings(strings.Join(lines, "\n"))
}

func (s Settings) values() map[string]string {
	values := make(map[string]string)
	for line := range strings.SplitSeq(string(s), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok {
			values[key] = value
		}
	}
	return values
}

// Against says in a line for each setting how s differs from here. What only one of them
// knows is left out.
func (s Settings) Against(here Settings) []string {
	var differ []string
	ours, theirs := here.values(), s.values()
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		if value, ok := theirs[key]; ok && value != ours[key] {
			differ = append(differ, fmt.Sprintf("%s %s, and %s here", key, named(value), named(ours[key])))
		}
	}
	return differ
}

func named(value string) string {
	if value == "" {
		return "empty"
	}
	return value
}
