package setup

import (
	"fmt"
	"slices"
	"strings"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// Question asks about the options of the status. Only a person can answer it, in Options.Map.
type Question struct {
	Key      string // below tasks.statuses
	Property string
	// Among are the options that the answer may be, besides a new one.
	Among []string
	// Taken is the one of them that is used until there is an answer; empty if the plan cannot do
	// without one.
	Taken string
}

func (q Question) String() string {
	asked := fmt.Sprintf("which option of %q is %s?", q.Property, strings.ToUpper(q.Key))
	switch among := strings.Join(q.Among, ", "); {
	case q.Taken != "":
		return fmt.Sprintf("%s %s is taken, of %s; another: --map %s=NAME", asked, q.Taken, among, q.Key)
	case among == "":
		return fmt.Sprintf("%s Give --map %s=NAME: a new one, in the board's language", asked, q.Key)
	default:
		return fmt.Sprintf("%s Give --map %s=NAME: one of %s, or a new one in the board's language", asked, q.Key, among)
	}
}

// groupOf is the group of each status in a property of that type, in every language.
var groupOf = map[task.Status]string{
	task.Open: "To-do", task.InProgress: "In progress", task.Blocked: "In progress",
	task.Review: "In progress", task.Failed: "In progress",
	task.Completed: "Complete", task.Cancelled: "Complete",
}

// keyOf returns the key of a status below tasks.statuses.
func keyOf(s task.Status) string { return strings.ToLower(string(s)) }

// chosenStatuses uses the names that the user gave. One that the board lacks is added.
func (p *Plan) chosenStatuses(given map[string]string) {
	for key, to := range config.ByKey[string](&p.Config.Tasks.Statuses) {
		name, said := given[key]
		switch {
		case !said:
		case name == "" && key == keyOf(task.Cancelled): // the board does without it
			p.unnamed = append(p.unnamed, *to)
		case name == "" && slices.Contains(task.Statuses, task.Status(strings.ToUpper(key))):
			p.problem("--map %s=: every board has this status: name an option", key)
		case strings.Contains(name, ","):
			p.problem("--map %s=%s: Notion takes no comma in the name of an option", key, name)
		default:
			*to = name
		}
	}
}

// guessStatuses finds out which options of a team's own status are meant: by their groups, and by
// their words where these do not say. A board in plain English gets dibs's own words for what it
// lacks. On any other, only a person knows the word, and CANCELLED may be missing.
func (p *Plan) guessStatuses(status notion.Column, given map[string]string) {
	if len(status.Options) == 0 {
		return
	}
	names := config.ByKey[string](&p.Config.Tasks.Statuses)
	free := slices.Clone(status.Options)
	for _, used := range names {
		free = slices.DeleteFunc(free, func(name string) bool { return name == *used })
	}
	var lacks, foreign []task.Status
	for _, s := range task.Statuses {
		key := keyOf(s)
		if _, said := given[key]; !said && !slices.Contains(status.Options, *names[key]) {
			name, among := pick(s, status, free)
			if name == "" {
				lacks = append(lacks, s)
				continue
			}
			*names[key] = name
			free = slices.DeleteFunc(free, func(other string) bool { return other == name })
			p.Guesses = append(p.Guesses, Guess{Key: key, Name: name})
			if len(among) > 1 {
				p.Questions = append(p.Questions, Question{key, status.Name, among, name})
			}
		}
		if !inEnglish(s, *names[key]) {
			foreign = append(foreign, s)
		}
	}
	if len(foreign) == 0 && len(lacks) < len(task.Statuses) {
		return
	}
	for _, s := range lacks {
		p.unnamed = append(p.unnamed, *names[keyOf(s)])
		if s != task.Cancelled {
			p.Questions = append(p.Questions, Question{Key: keyOf(s), Property: status.Name, Among: free})
		}
	}
}

// pick returns the option that means s, of those that are free; empty if that is not certain. If only
// its group says so, or a word of several in the group, among are all that the group has.
func pick(s task.Status, status notion.Column, free []string) (name string, among []string) {
	in := slices.DeleteFunc(slices.Clone(free), func(name string) bool { return status.Groups[name] != groupOf[s] })
	if s == task.Blocked || s == task.Cancelled { // the group is another's, too
		return firstWord(s, append(in, free...)), nil
	}
	among = slices.DeleteFunc(slices.Clone(in), func(name string) bool {
		return slices.ContainsFunc(task.Statuses, func(other task.Status) bool { return other != s && firstWord(other, []string{name}) != "" })
	})
	if name = firstWord(s, among); name == "" && len(among) > 0 {
		name = among[0]
	}
	if name == "" {
		return firstWord(s, free), nil
	}
	return name, among
}

// firstWord returns the option that the likeliest word for s names; empty if none does.
func firstWord(s task.Status, options []string) string {
	words := statusWords[s]
	return firstOf(string(s)+", "+words.english+", "+words.others, options)
}

// inEnglish reports whether a name for s is plain English, beside which dibs's own words look like the
// team's.
func inEnglish(s task.Status, name string) bool {
	plain := !strings.ContainsFunc(name, func(r rune) bool { return r > 0x7f })
	return plain && firstOf(string(s)+", "+statusWords[s].english, []string{name}) != ""
}
