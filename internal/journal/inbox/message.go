package inbox

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// mention matches an @ and a name in a title.
var mention = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`@[\p{L}\p{N}_][\p{L}\p{N}_.-]*`)
})

// Addressed returns the agents that a row of the mesh log is for: those in its column "to", or
// else those that its title names with an @. everybody is set if it is for all agents. known are
// the known agents, whose names may have spaces. A daemon's entries about claims are for nobody.
func Addressed(r wording.Row, known []string) (names []string, everybody bool) {
	if _, message := wording.ParseMessageID(r.EntryID); r.EntryID != "" && !message {
		return nil, false
	}
	add := func(name string) {
		name = strings.TrimSpace(name)
		if strings.EqualFold(name, Everybody) {
			everybody = true
		} else if task.ValidateAgent(name) == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if to := strings.TrimSpace(r.To); to != "" {
		if slices.Contains(known, to) {
			add(to)
			return names, everybody
		}
		for _, name := range strings.FieldsFunc(to, func(r rune) bool { return r == ',' || r == ';' || r == '\n' }) {
			add(strings.TrimPrefix(strings.TrimSpace(name), "@"))
		}
		return names, everybody
	}
	for _, at := range mention().FindAllStringIndex(r.Title, -1) {
		if before, _ := utf8.DecodeLastRuneInString(r.Title[:at[0]]); at[0] > 0 && (unicode.IsLetter(before) || unicode.IsDigit(before)) {
			continue // a mail address
		}
		// A known name may contain spaces.
		rest := r.Title[at[0]+1:]
		if name := longest(known, rest); name != "" {
			add(name)
			continue
		}
		add(strings.TrimRight(r.Title[at[0]+1:at[1]], ".-"))
	}
	return names, everybody
}

// longest returns the longest of the names that text begins with, as a whole word; empty for
// none.
func longest(names []string, text string) (found string) {
	for _, name := range names {
		rest, ok := strings.CutPrefix(text, name)
		next, _ := utf8.DecodeRuneInString(rest)
		if ok && len(name) > len(found) && (rest == "" || !unicode.IsLetter(next) && !unicode.IsDigit(next) && next != '_') {
			found = name
		}
	}
	return found
}

// Messages returns the triggers for a row of the mesh log: one for each agent that it is for,
// except its author. known are the agents here.
func Messages(r wording.Row, known []string) []Trigger {
	names, everybody := Addressed(r, known)
	if everybody {
		for _, name := range known {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var out []Trigger
	for _, name := range names {
		if name == r.From {
			continue
		}
		text := r.Text
		if strings.TrimSpace(text) == "" {
			text = r.Title
		}
		out = append(out, Trigger{
			Type: Message, Agent: name, At: r.Created, From: task.OneLine(r.From, -1), Text: text, Key: "row " + string(r.Page),
		})
	}
	return out
}
