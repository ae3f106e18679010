package setup

import (
	"slices"
	"strings"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// priorityKeys are the keys below tasks.priorities, the most urgent first.
var priorityKeys = []string{"critical", "high", "medium", "low"}

// prioritiesByKey returns pointers to the names of priorities, by key.
func prioritiesByKey(p *config.Priorities) map[string]*[]string {
	return map[string]*[]string{"critical": &p.Critical, "high": &p.High, "medium": &p.Medium, "low": &p.Low}
}

// chosenPriorities uses the names that the user gave, with commas between several. What is given
// to one priority is not another's.
func (p *Plan) chosenPriorities(col notion.Column, given map[string]string) {
	names := prioritiesByKey(&p.Config.Tasks.Priorities)
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
	names, means := prioritiesByKey(&p.Config.Tasks.Priorities), scale(col.Options)
	found := make(map[string][]string) // the options of each priority
	guessed := make(map[string]bool)
	var left []string
	for _, name := range col.Options {
		i := slices.IndexFunc(priorityKeys, func(key string) bool { return has(*names[key], name) })
		key := means[name].String()
		_, said := given[key]
		switch o := understood(name); {
		case i >= 0: // as the configuration says
			key = priorityKeys[i]
			if _, said := given[key]; !said && !slices.Contains(*names[key], name) {
				p.Adopted = append(p.Adopted, Guess{Key: key, Name: name})
			}
		case means[name] != task.None && !said:
			guessed[key] = true
			p.Guesses = append(p.Guesses, Guess{Key: key, Name: name})
		default:
			if key = ""; !o.named || o.rank != task.None {
				left = append(left, name)
			}
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
