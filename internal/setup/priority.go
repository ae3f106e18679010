package setup

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// priorityKeys are the keys below tasks.priorities, the most urgent first.
var priorityKeys = []string{"critical", "high", "medium", "low"}

// chosenPriorities uses the names that the user gave, with commas between several. What is given
// to one priority is not another's.
func (p *Plan) chosenPriorities(col notion.Column, given map[string]string) {
	names := config.ByKey[[]string](&p.Config.Tasks.Priorities)
	keyOf := make(map[string]string) // of the given names
	for _, key := range priorityKeys {
		value, said := given[key]
		if !said {
			continue
		}
		*names[key] = []string{}
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			switch other, twice := keyOf[strings.ToLower(name)]; {
			case twice:
				p.problem("--map gives %q as %s and as %s: give it once", name, other, key)
			case len(col.Options) > 0 && !has(col.Options, name):
				p.problem("property %q has no option %q, which --map gives as %s: its options are %s", col.Name, name, key, strings.Join(col.Options, ", "))
			}
			*names[key], keyOf[strings.ToLower(name)] = append(*names[key], name), key
		}
	}
	for key, list := range names {
		*list = slices.DeleteFunc(slices.Clone(*list), func(name string) bool {
			owner, said := keyOf[strings.ToLower(name)]
			return said && owner != key
		})
	}
}

// guessPriorities finds out what the options of the column of priorities mean. A board that is in
// use already is left as it is.
func (p *Plan) guessPriorities(db notion.Database, given map[string]string) {
	col := db.Columns[p.Config.Tasks.Properties.Priority]
	p.chosenPriorities(col, given)
	if len(col.Options) == 0 || string(db.ID) == p.saved.Databases.Tasks {
		return
	}
	names, means := config.ByKey[[]string](&p.Config.Tasks.Priorities), ranks(col.Options)
	found := make(map[string][]string) // the options of each priority
	guessed := make(map[string]bool)
	var left []string
	for _, name := range col.Options {
		rank, known := means[name]
		key := rank.String()
		_, said := given[key]
		switch i := slices.IndexFunc(priorityKeys, func(key string) bool { return has(*names[key], name) }); {
		case i >= 0: // as the configuration says
			key = priorityKeys[i]
			if _, said := given[key]; !said && !slices.Contains(*names[key], name) {
				p.Adopted = append(p.Adopted, Guess{Key: key, Name: name})
			}
		case !known || said:
			left = append(left, name)
			continue
		case rank != task.None:
			guessed[key] = true
			p.Guesses = append(p.Guesses, Guess{Key: key, Name: name})
		}
		found[key] = append(found[key], name)
	}
	for key := range guessed {
		*names[key] = found[key]
	}
	if len(left) > 0 {
		p.note("database %q: nothing says what priority %s is, so tasks with it are offered last: give --map KEY=NAME, with one of these as KEY: %s",
			db.Title, strings.Join(left, ", "), strings.Join(priorityKeys, ", "))
	}
}

// has reports whether the name is among the names, in any case.
func has(names []string, name string) bool {
	return slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(other, name) })
}

// ranks returns what the options of a column of priorities mean by their words. Of those that say
// more than none it returns nothing, rather than something wrong, if one option says what another does
// and more, such as Urgent beside Not urgent, or if most say nothing.
func ranks(options []string) map[string]task.Priority {
	means, different := make(map[string]task.Priority), make(map[task.Priority]bool)
	unknown, doubtful := false, false
	for _, name := range options {
		words := rankingWords(name)
		if p, ok := rankOf(strings.Join(words, " ")); ok {
			means[name], different[p] = p, true
			continue
		}
		unknown = true
		doubtful = doubtful || slices.ContainsFunc(words, func(word string) bool { _, ok := rankOf(word); return ok })
	}
	delete(different, task.None)
	if doubtful || unknown && len(different) < 2 {
		maps.DeleteFunc(means, func(_ string, p task.Priority) bool { return p != task.None })
	}
	return means
}

// level is what may stand before the words of an option: 1 – High, P2 (medium).
var level = regexp.MustCompile(`^p?[0-9]+$`)

// rankingWords returns the words of an option that may say its rank.
func rankingWords(name string) []string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	words = slices.DeleteFunc(words, saysPriority)
	if len(words) > 1 {
		words = slices.DeleteFunc(words, level.MatchString)
	}
	return words
}

// rankOf returns the priority that the words mean.
func rankOf(words string) (task.Priority, bool) {
	for p, list := range rankWords {
		if firstOf(list, []string{words}) != "" {
			return p, true
		}
	}
	return task.None, false
}
