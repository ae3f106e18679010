package board

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/internal/task"
)

// How many cards a column has, and a part of one that is folded, and how many a list.
const (
	columnCards = 25
	partCards   = 10
	listCards   = 200
	maxChoices  = 60 // of a filter
)

// The fields that every task has, for filters.
const (
	agentField    = "agent"
	priorityField = "priority"
)

// taskFilter selects the cards of a page. It is kept in the address.
type taskFilter struct {
	at    url.Values
	Words string
	Where []want
	Group string // the field by which cards are grouped; empty for none
	By    string // the field whose values are to be chosen from
	Only  bool   // only tasks for agents
}

func taskFilterOf(q url.Values) taskFilter {
	f := taskFilter{at: q, Words: q.Get("q"), Group: q.Get("group"), By: q.Get("by"), Only: q.Get("for") == "agents"}
	for _, name := range []string{agentField, priorityField} {
		if value := q.Get(name); value != "" {
			f.Where = append(f.Where, want{name, value})
		}
	}
	for _, line := range q["field"] {
		if name, value, ok := strings.Cut(line, "="); ok {
			f.Where = append(f.Where, want{name, value})
		}
	}
	return f
}

// values returns what a card has for a field.
func (c card) values(name string) (all []string) {
	switch name {
	case agentField:
		all = []string{c.Agent}
	case priorityField:
		all = []string{c.Word}
	default:
		for line := range strings.Lines(c.Fields) {
			if value, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), name+"="); ok {
				all = append(all, value)
			}
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

func (f taskFilter) selects(c card) bool {
	for _, w := range f.Where {
		if !slices.Contains(c.values(w.Name), w.Value) {
			return false
		}
	}
	return !(f.Only && (c.Outside || c.Column == people)) && c.matches(f.Words)
}

// Any reports whether the filter leaves anything out.
func (f taskFilter) Any() bool { return len(f.Where) > 0 || f.Words != "" || f.Only }

// group returns the name of a card's group.
func (f taskFilter) group(c card) string {
	if f.Group == "" {
		return ""
	}
	return cmp.Or(strings.Join(c.values(f.Group), ", "), "no "+f.Group)
}

// to returns the address of the board with some parameters changed, in pairs; an empty value takes
// one out.
func (f taskFilter) to(path string, pairs ...string) string {
	q := make(url.Values)
	for name, values := range f.at {
		if !slices.Contains(passing, name) && name != "from" && name != "status" && values[0] != "" {
			q[name] = values
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if q.Del(pairs[i]); pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// having returns the address of the board under other conditions.
func (f taskFilter) having(where []want) string {
	other := taskFilter{at: make(url.Values)}
	for name, values := range f.at {
		if !slices.Contains([]string{agentField, priorityField, "field", "by"}, name) {
			other.at[name] = values
		}
	}
	for _, w := range where {
		if w.Name == agentField || w.Name == priorityField {
			other.at.Set(w.Name, w.Value)
		} else {
			other.at.Add("field", w.Name+"="+w.Value)
		}
	}
	return other.to("/tasks")
}

// with returns the address of the board under one more condition.
func (f taskFilter) with(name, value string) string {
	return f.having(append(slices.Clone(f.Where), want{name, value}))
}

// Chips are the conditions, each with the address without it.
func (f taskFilter) Chips() (all []choice) {
	for _, w := range f.Where {
		rest := slices.DeleteFunc(slices.Clone(f.Where), func(other want) bool { return other == w })
		all = append(all, choice{Name: w.Name + ": " + w.Value, URL: f.having(rest)})
	}
	return all
}

// Switch is the link that shows only tasks for agents, or all again.
func (f taskFilter) Switch() choice {
	if f.Only {
		return choice{URL: f.to("/tasks", "for", ""), On: true}
	}
	return choice{URL: f.to("/tasks", "for", "agents")}
}

// Kept are the parameters that a form keeps, beside its own.
func (f taskFilter) Kept(own ...string) (all []want) {
	for name, values := range f.at {
		if slices.Contains(own, name) || slices.Contains(passing, name) {
			continue
		}
		for _, value := range values {
			all = append(all, want{name, value})
		}
	}
	slices.SortFunc(all, func(a, b want) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value)) })
	return all
}

// names returns the fields that cards have.
func names(cards []card) []string {
	all := []string{agentField, priorityField}
	known := make(map[string]bool)
	for _, c := range cards {
		for line := range strings.Lines(c.Fields) {
			if name, _, _ := strings.Cut(line, "="); !known[name] {
				known[name] = true
				all = append(all, name)
			}
		}
	}
	slices.Sort(all[2:])
	return all
}

// values returns the values to choose from, with how many tasks each leaves.
func (f taskFilter) values(cards []card) (all []choice) {
	if f.By == "" {
		return nil
	}
	n, rank := make(map[string]int), make(map[string]task.Priority)
	for _, c := range cards {
		if !f.selects(c) {
			continue
		}
		for _, value := range c.values(f.By) {
			n[value]++
			if f.By == priorityField {
				rank[value] = priorityOf(c.Priority)
			}
		}
	}
	for value, count := range n {
		one := choice{Name: value, N: count, On: slices.Contains(f.Where, want{f.By, value}), URL: f.with(f.By, value)}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b choice) int {
		return cmp.Or(cmp.Compare(rank[a.Name], rank[b.Name]), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), maxChoices)]
}

// lane is a column with its first cards.
type lane struct {
	column
	Word   string // what the board calls it
	Count  int
	Groups []group
	Folded bool
	Fold   string // the address with the column unfolded, or folded again; empty if it always is open
	Tab    string // the address with the column in front, where there is room for one
	Front  bool
}

// group is a part of a column. A column without parts is one group without a name.
type group struct {
	Name   string
	Cards  []card
	Count  int
	Folded bool   // it opens with a click
	More   string // the address of a list with the others
}

// Others is how many cards are not shown.
func (g group) Others() int { return g.Count - len(g.Cards) }

// The parts of the open tasks.
var openParts = []struct{ key, name string }{{"ready", "Ready"}, {"waits", "Waits"}, {"people", "For people"}, {"outside", "Not for agents"}}

// partOf returns the part of an open task. agents are the names that agents go by.
func partOf(c card, agents map[string]bool) string {
	switch {
	case c.Outside:
		return "outside"
	case c.Ready:
		return "ready"
	case c.Assigned && c.OfferedTo == "" && !agents[c.Agent]:
		return "people"
	}
	return "waits"
}

// agentNames are the names of those that acted, as far as the board remembers.
func (g glance) agentNames() map[string]bool {
	names := make(map[string]bool)
	for _, e := range g.Events {
		if e.Claimed {
			names[e.Agent] = true
		}
	}
	for _, c := range g.Cards {
		if c.Claim != "" {
			names[c.Agent] = true
		}
	}
	return names
}

// own returns the cards of a column, or of a part or a group of it, that f selects, in the daemon's order: but
// of those that are held, that whose lease ends first comes first.
func (g glance) own(key, part string, f taskFilter) (own []card) {
	agents := g.agentNames()
	of := func(c card) string {
		if f.Group != "" {
			return f.group(c)
		}
		return partOf(c, agents)
	}
	for _, c := range g.Cards {
		if c.Column == key && f.selects(c) && (part == "" || of(c) == part) {
			own = append(own, c)
		}
	}
	if key == string(task.InProgress) {
		slices.SortStableFunc(own, func(a, b card) int { return cmp.Compare(a.Until, b.Until) })
	}
	return own
}

// laneOf fills a column.
func (g glance) laneOf(col column, f taskFilter) lane {
	l := lane{column: col, Word: g.word(col)}
	if col.Key == people {
		l.Word += ": people"
	}
	cut := func(name, part string, own []card, most int) {
		one := group{Name: name, Cards: own[:min(most, len(own))], Count: len(own)}
		if one.Others() > 0 {
			one.More = f.to("/list", "status", col.Key, "part", part, "from", strconv.Itoa(most))
		}
		l.Count += len(own)
		l.Groups = append(l.Groups, one)
	}
	switch {
	case f.Group != "":
		of, order := make(map[string][]card), []string(nil)
		for _, c := range g.own(col.Key, "", f) { // groups come in the order of their first cards
			name := f.group(c)
			if of[name] == nil {
				order = append(order, name)
			}
			of[name] = append(of[name], c)
		}
		for _, name := range order {
			cut(name, name, of[name], partCards)
		}
	case col.Status == task.Open:
		for i, p := range openParts {
			own := g.own(col.Key, p.key, f)
			if len(own) == 0 {
				continue
			}
			most := columnCards
			if i > 0 {
				most = partCards
			}
			cut(p.name, p.key, own, most)
			l.Groups[len(l.Groups)-1].Folded = i > 1
		}
	default:
		cut("", "", g.own(col.Key, "", f), columnCards)
	}
	if f.Any() {
		l.Empty = "Nothing is like that."
	}
	return l
}

// tasks shows the tasks in columns.
func (b *Board) tasks(_ context.Context, q url.Values) (view, error) {
	g, f := b.state.current(), taskFilterOf(q)
	body := struct {
		Filter taskFilter
		Names  []string
		Values []choice
		Lanes  []lane
		Found  int
		All    int
		Said   string
	}{Filter: f, Names: names(g.Cards), Values: f.values(g.Cards), All: len(g.Cards), Said: doneOf(q.Get("done"))}
	front := cmp.Or(q.Get("col"), string(task.Open))
	for _, c := range columns {
		l := g.laneOf(c, f)
		if body.Found += l.Count; l.Count == 0 && !c.Always {
			continue
		}
		l.Front, l.Tab = c.Key == front, f.to("/tasks", "col", c.Key)
		if open := slices.Contains(q["open"], c.Key); c.Over {
			l.Folded, l.Fold = !open && !f.Any(), f.to("/tasks", "open", map[bool]string{false: c.Key}[open])
		}
		body.Lanes = append(body.Lanes, l)
	}
	return view{Name: "tasks", Title: "Board", Template: "tasks.html", Body: body}, nil
}

// list shows the tasks of one column, or of a part of it, from a number on.
func (b *Board) list(_ context.Context, q url.Values) (view, error) {
	g, col := b.state.current(), columnOf(q.Get("status"))
	from, err := strconv.Atoi(cmp.Or(q.Get("from"), "0"))
	if col.Status == "" || err != nil || from < 0 {
		return view{}, &missing{"There is no such list", "Lists have a column, such as OPEN, and begin at a number."}
	}
	f := taskFilterOf(q)
	own := g.own(col.Key, q.Get("part"), f)
	own = own[min(from, len(own)):]
	one := group{Name: g.word(col), Cards: own[:min(listCards, len(own))], Count: len(own)}
	if one.Others() > 0 {
		one.More = f.to("/list", "status", col.Key, "part", q.Get("part"), "from", strconv.Itoa(from+listCards))
	}
	return view{Name: "tasks", Title: one.Name, Template: "list.html", Body: struct {
		group
		Status task.Status
		Board  string
	}{one, col.Status, f.to("/tasks", "part", "")}}, nil
}

// found is what a search found.
type found struct {
	Words  string
	Tasks  beginning[card]
	Agents []string
}

// maxFound is how many tasks a search lists.
const maxFound = 20

// search finds tasks by their key, title, agent and fields, and agents by their name. A task whose
// key it is comes first.
func (b *Board) search(_ context.Context, q url.Values) (view, error) {
	g, words := b.state.current(), strings.TrimSpace(q.Get("q"))
	out := found{Words: words}
	if words != "" {
		var all []card
		for _, c := range g.Cards {
			if c.matches(words) {
				all = append(all, c)
			}
		}
		slices.SortStableFunc(all, func(a, b card) int {
			is := func(c card) int {
				return map[bool]int{false: 1}[strings.EqualFold(c.Key, words)]
			}
			return cmp.Compare(is(a), is(b))
		})
		out.Tasks = first(all, maxFound)
		for name := range g.agentNames() {
			if name != "" && strings.Contains(strings.ToLower(name), strings.ToLower(words)) {
				out.Agents = append(out.Agents, name)
			}
		}
		slices.Sort(out.Agents)
	}
	return view{Name: "search", Title: "Search", Template: "search.html", Body: out, Every: 5 * time.Second}, nil
}
