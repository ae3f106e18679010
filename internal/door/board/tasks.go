package board

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"dibs/internal/task"
)

// taskFilter selects the cards of a page. It is kept in the address. Modules filter alike.
type taskFilter struct {
	Words, Agent, Priority string
	Field                  string // a line of card.Fields
	Group                  string // what cards are grouped by: agent, priority, or a field's name; empty for nothing
	// The choices.
	Agents, Priorities, Fields, Groups []string
}

// maxChoices limits the choices of a filter.
const maxChoices = 200

func taskFilterOf(q url.Values) taskFilter {
	return taskFilter{Words: q.Get("q"), Agent: q.Get("agent"), Priority: q.Get("priority"), Field: q.Get("field"), Group: q.Get("group")}
}

// query returns the filter as it stands in an address, with further values in pairs.
func (f taskFilter) query(more ...string) string {
	q := make(url.Values)
	for i, pairs := 0, append([]string{"q", f.Words, "agent", f.Agent, "priority", f.Priority, "field", f.Field, "group", f.Group}, more...); i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q.Encode()
}

func (f taskFilter) selects(c card) bool {
	return (f.Agent == "" || c.Agent == f.Agent) && (f.Priority == "" || c.Word == f.Priority) &&
		(f.Field == "" || slices.Contains(strings.Split(c.Fields, "\n"), f.Field)) && c.matches(f.Words)
}

// choose collects the choices that cards give.
func (f *taskFilter) choose(cards []card) {
	urgencies, agents, fields := make(map[string]task.Priority), make(map[string]bool), make(map[string]bool)
	f.Groups = []string{"agent", "priority"}
	for _, c := range cards {
		agents[c.Agent] = true
		if c.Word != "" {
			urgencies[c.Word] = priorityOf(c.Priority)
			f.Priorities = append(f.Priorities, c.Word)
		}
		if c.Fields == "" {
			continue
		}
		for _, line := range strings.Split(c.Fields, "\n") {
			if name, _, _ := strings.Cut(line, "="); !fields[line] {
				fields[line] = true
				f.Groups = append(f.Groups, name)
			}
		}
	}
	f.Agents, f.Fields = some(agents, f.Agent), some(fields, f.Field)
	f.Priorities = choices(f.Priorities, f.Priority)
	slices.SortStableFunc(f.Priorities, func(a, b string) int { return cmp.Compare(urgencies[a], urgencies[b]) })
	f.Groups = choices(f.Groups, f.Group)
}

func some(of map[string]bool, chosen string) []string {
	all := make([]string, 0, len(of)+1)
	for value := range of {
		all = append(all, value)
	}
	if all = choices(all, chosen); len(all) > maxChoices {
		all = choices(all[:maxChoices], chosen)
	}
	return all
}

// group returns the name of a card's group.
func (f taskFilter) group(c card) string {
	switch f.Group {
	case "":
		return ""
	case "agent":
		return cmp.Or(c.Agent, "nobody")
	case "priority":
		return cmp.Or(c.Word, "no priority")
	}
	var values []string
	for _, line := range strings.Split(c.Fields, "\n") {
		if name, value, _ := strings.Cut(line, "="); name == f.Group {
			values = append(values, value)
		}
	}
	return cmp.Or(strings.Join(values, ", "), "no "+f.Group)
}

// lane is a column with its first cards.
type lane struct {
	column
	Count  int
	Groups []group
	Shown  int    // how many cards it has
	More   string // the URL of the list of the others
	Folded bool
	Fold   string // the URL of the page with the column unfolded, or folded again
}

// group is a part of a column. Without grouping, a column is one group without a name.
type group struct {
	Name  string
	Cards []card
}

// fill puts those of the cards into the column that f selects: at most so many, from the one with
// that number on.
func (l *lane) fill(cards []card, f taskFilter, from, most int) {
	var own []card
	for _, c := range cards {
		if c.Column == l.Key && f.selects(c) {
			own = append(own, c)
		}
	}
	l.Count = len(own)
	if f.Group != "" {
		first := make(map[string]int) // groups come in the order of their first cards
		for i, c := range own {
			if _, ok := first[f.group(c)]; !ok {
				first[f.group(c)] = i
			}
		}
		slices.SortStableFunc(own, func(a, b card) int { return cmp.Compare(first[f.group(a)], first[f.group(b)]) })
	}
	own = own[min(from, l.Count):min(from+most, l.Count)]
	l.Shown = len(own)
	for _, c := range own {
		name := f.group(c)
		if n := len(l.Groups); n == 0 || l.Groups[n-1].Name != name {
			l.Groups = append(l.Groups, group{Name: name})
		}
		last := &l.Groups[len(l.Groups)-1]
		last.Cards = append(last.Cards, c)
	}
	if next := from + l.Shown; next < l.Count {
		l.More = "/list?" + f.query("status", l.Key, "from", strconv.Itoa(next))
	}
}

func (b *Board) tasksPage(w http.ResponseWriter, r *http.Request) {
	g, f, open := b.state.current(), taskFilterOf(r.URL.Query()), r.URL.Query()["open"]
	f.choose(g.Cards)
	var lanes []lane
	for _, c := range columns {
		l := lane{column: g.called(c), Folded: c.Over && !slices.Contains(open, c.Key)}
		l.fill(g.Cards, f, 0, firstCards)
		if c.Over && l.Folded {
			l.Fold = "/tasks?" + f.query("open", c.Key)
		} else if c.Over {
			l.Fold = "/tasks?" + f.query()
		}
		lanes = append(lanes, l)
	}
	render(w, http.StatusOK, "tasks.html", b.page("tasks", "Tasks", g, struct {
		Filter taskFilter
		Lanes  []lane
		Open   []string
	}{f, lanes, open}))
}

// listPage lists the tasks of one column, for browsers without JavaScript.
func (b *Board) listPage(w http.ResponseWriter, r *http.Request) {
	g, q := b.state.current(), r.URL.Query()
	from, err := strconv.Atoi(cmp.Or(q.Get("from"), "0"))
	if !slices.ContainsFunc(columns, func(c column) bool { return c.Key == q.Get("status") }) || err != nil || from < 0 {
		b.say(w, http.StatusNotFound, "There is no such list", "Lists have a column, such as OPEN, and begin at a number.")
		return
	}
	l := lane{column: g.called(columnOf(q.Get("status")))}
	l.fill(g.Cards, taskFilterOf(q), from, listCards)
	render(w, http.StatusOK, "list.html", b.page("tasks", l.Name, g, l))
}
