package board

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/door/board/chart"
	"dibs/internal/door/board/markup"
	"dibs/internal/task"
)

// card is a task as a page shows it. Cards can be compared: equal cards look equal. Moments are in
// milliseconds since 1970, by this machine's clock; zero is none.
type card struct {
	ID       task.ID
	Key      string
	Title    string
	URL      string
	Status   task.Status
	Priority string // empty for none
	Word     string // what the board calls the priority; empty for none
	Standing string // what the board calls the status
	Ready    bool
	Outside  bool // it is none of the tasks for agents
	Trashed  bool

	Column string // the key of its column
	Fields string // NAME=VALUE in lines, one for each value
	Made   int64
	Edited int64

	Agent    string   // the name on the task
	Assigned bool     // that name has no claim
	Claim    claim.ID // held through this daemon
	Began    int64    // when the agent got the task, as far as known
	From     int64    // when the lease began
	Until    int64    // when the lease ends

	OfferedBy, OfferedTo string
	Unblocks             int    // how many tasks wait for it
	Needs                string // the ids of the tasks that come first, with spaces

	Why      string // why it waits, in one line
	Progress string // what its agent says of the work
	Note     string

	Stuck   bool   // it can never become ready
	Asks    bool   // its agent asked people something: Said
	Said    string // what was said last of the task as it is, through dibs
	By      string // who said so
	ByAgent bool   // and that is an agent, or dibs
	Since   int64  // when: since then it is as it is
}

// The characters of a text that a page shows.
const (
	maxTitle = 300
	maxLine  = 300
)

// text makes text by others fit for one line of a page, without invisible characters and without
// any that change the direction of the text around it.
func text(s string, limit int) string {
	s = task.OneLine(s, unicode.ReplacementChar)
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return s
}

func milliseconds(t api.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func cardOf(t api.Task) card {
	c := card{
		ID: t.ID, Key: text(t.Key, 40), Title: cmp.Or(text(t.Title, maxTitle), "Untitled"), URL: markup.Link(t.URL),
		Status: t.Status, Standing: text(t.StatusName, 80), Priority: t.Priority, Ready: t.Ready, Outside: t.Outside != "", Trashed: t.Trashed,
		Agent: text(cmp.Or(t.AssignedTo, t.Agent), 80), Assigned: t.AssignedTo != "", Claim: t.ClaimID, From: milliseconds(t.ClaimedAt), Until: milliseconds(t.ExpiresAt),
		Progress: text(t.Progress, maxLine), Note: text(t.Note, maxLine), Column: columnFor(t), Fields: fieldLines(t.Fields), Stuck: t.Stuck, Unblocks: t.Unblocks,
	}
	c.Made, c.Edited, c.Since = milliseconds(t.CreatedAt), milliseconds(t.EditedAt), milliseconds(t.EditedAt)
	if value, ok := claim.LastSaying(t.Note); ok && value.About(t.Status) {
		c.Asks, c.Said, c.By, c.Since, c.ByAgent = value.Asks(), text(value.Why, maxLine), text(value.By, 80), value.At.UnixMilli(), !task.SignsUser(value.By)
	}
	if !columnOf(c.Column).live {
		c.From, c.Until = 0, 0 // in other columns the claim is history
	} else if c.From > 0 {
		c.Began = c.From
		if at, ok := t.ClaimID.Minted(); ok {
			c.Began = at.UnixMilli()
		}
	}
	if c.Standing == "" {
		c.Standing = columnOf(string(t.Status)).Name
	}
	if c.Priority == "none" {
		c.Priority = ""
	}
	if t.PriorityWord() != "none" {
		c.Word = text(t.PriorityWord(), 80)
	}
	if t.Offer != nil {
		c.OfferedBy, c.OfferedTo = text(t.Offer.From, 80), text(t.Offer.To, 80)
		c.Until = milliseconds(t.Offer.ExpiresAt)
	}
	if t.Status == task.Open && !t.Ready {
		c.Why = why(t)
	}
	for _, id := range slices.Concat(t.DependsOn, t.SubItems) {
		c.Needs += string(id) + " "
	}
	return c
}

// why returns why an open task waits.
func why(t api.Task) string {
	switch {
	case t.Outside != "":
		return "not for agents: " + text(t.Outside, maxLine)
	case t.Offer != nil:
		return fmt.Sprintf("offered to %s by %s", text(t.Offer.To, 80), text(t.Offer.From, 80))
	case t.AssignedTo != "":
		return "for " + text(t.AssignedTo, 80)
	}
	return text(t.Reason, maxLine)
}

// fieldLines writes a task's fields for a card.
func fieldLines(fields task.Fields) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		values, isList := fields[name].([]any)
		if !isList {
			values = []any{fields[name]}
		}
		for _, v := range values {
			if value := task.FieldText(v); value != "" {
				lines = append(lines, text(strings.ReplaceAll(name, "=", " "), 80)+"="+text(value, 80))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// shownChips is how many fields a card shows, each whole.
const shownChips = 2

// Chips returns the first fields, as a card shows them; More is how many it does not show.
func (c card) Chips() (chips []string) {
	for line := range strings.Lines(c.Fields) {
		chips = append(chips, strings.TrimSuffix(strings.Replace(line, "=", ": ", 1), "\n"))
	}
	return chips[:min(shownChips, len(chips))]
}

func (c card) More() int {
	if c.Fields == "" {
		return 0
	}
	return max(0, strings.Count(c.Fields, "\n")+1-shownChips)
}

// matches reports whether a card has all the words in its title, key, agent, priority, note, fields,
// progress or reason to wait.
func (c card) matches(words string) bool {
	in := strings.ToLower(strings.Join([]string{c.Title, c.Key, c.Agent, c.Priority, c.Word, c.Why, c.Progress, c.Note, c.Fields}, "\n"))
	for word := range strings.FieldsSeq(strings.ToLower(words)) {
		if !strings.Contains(in, word) {
			return false
		}
	}
	return true
}

// Self returns the card, for templates, which cannot name an embedded one.
func (c card) Self() card { return c }

// want asks for a value of a field.
type want struct{ Name, Value string }

// beginning is the beginning of a list, and how many it has.
type beginning[T any] struct {
	First []T
	Count int
}

// More returns how many are not shown.
func (s beginning[T]) More() int { return s.Count - len(s.First) }

func first[T any](of []T, most int) beginning[T] {
	return beginning[T]{of[:min(most, len(of))], len(of)}
}

// column shows the tasks of one status, or of people among those in progress.
type column struct {
	Key    string      // in addresses
	Status task.Status // whose name it has
	Name   string
	Empty  string // the text of an empty column
	live   bool   // the names on its tasks have live claims
	Over   bool   // its tasks are finished: it is folded
	Always bool   // it is shown even when it is empty
}

// people is the key of the column of tasks in progress that no agent has.
const people = "PEOPLE"

var columns = []column{
	{Key: string(task.Open), Status: task.Open, Name: "Open", Empty: "Nothing is open.", live: true, Always: true},
	{Key: string(task.InProgress), Status: task.InProgress, Name: "In progress", Empty: "No agent works on anything.", live: true, Always: true},
	{Key: people, Status: task.InProgress, Name: "In progress", Empty: "No person works on anything."},
	{Key: string(task.Review), Status: task.Review, Name: "In review", Empty: "Nothing waits for a decision."},
	{Key: string(task.Blocked), Status: task.Blocked, Name: "Blocked", Empty: "Nothing is blocked.", Always: true},
	{Key: string(task.Failed), Status: task.Failed, Name: "Failed", Empty: "Nothing has failed."},
	{Key: string(task.Completed), Status: task.Completed, Name: "Completed", Empty: "Nothing is completed yet.", Over: true, Always: true},
	{Key: string(task.Cancelled), Status: task.Cancelled, Name: "Cancelled", Empty: "Nothing was cancelled.", Over: true},
	{Key: string(task.Unknown), Status: task.Unknown, Name: "Other", Empty: "Nothing has another status."},
}

// columnFor returns the key of the column of t. A person's task has no lease.
func columnFor(t api.Task) string {
	if t.Status == task.InProgress && t.ClaimID == "" && t.ExpiresAt.IsZero() {
		return people
	}
	return string(t.Status)
}

func columnOf(key string) column {
	i := slices.IndexFunc(columns, func(c column) bool { return c.Key == key })
	if i < 0 {
		return column{Key: key, Name: key}
	}
	return columns[i]
}

func priorityOf(name string) task.Priority {
	i := slices.IndexFunc(task.Priorities, func(p task.Priority) bool { return p.String() == name })
	if i < 0 {
		return task.None
	}
	return task.Priorities[i]
}

// hues is the number of colours for names. None of them looks like an alarm.
const hues = 12

// maxNames limits the names whose colour is remembered.
const maxNames = 1000

// colours gives names colours, on all pages the same. A name gets the colour that fits it, or the
// next one that fewer names have: so twelve agents have twelve colours.
var colours struct {
	sync.Mutex
	of   map[string]int
	used [hues]int
}

// hue returns the colour of a name, 1 to hues; zero for no name.
func hue(name string) int {
	if name == "" {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	fits := int(h.Sum32() % hues)
	colours.Lock()
	defer colours.Unlock()
	if is, ok := colours.of[name]; ok {
		return is + 1
	}
	if len(colours.of) == maxNames {
		return fits + 1
	}
	best := fits
	for i := range hues {
		if at := (fits + i) % hues; colours.used[at] < colours.used[best] {
			best = at
		}
	}
	if colours.of == nil {
		colours.of = make(map[string]int)
	}
	colours.of[name] = best
	colours.used[best]++
	return best + 1
}

// initials returns the two characters on an agent's mark: of a name in parts, those that begin the
// first and the last.
func initials(name string) string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" -_.@", r) })
	switch len(parts) {
	case 0:
		return "?"
	case 1:
		return string([]rune(parts[0])[:min(2, len([]rune(parts[0])))])
	}
	return string([]rune(parts[0])[:1]) + string([]rune(parts[len(parts)-1])[:1])
}

// graph shows what a task waits for, above it, and what waits for it, below.
type graph struct {
	Width, Height int
	Nodes         []node
	Edges         []string // the paths of arrows, from a task to one that waits for it
	// Needs and Unblocks are the same, directly, as lists.
	Needs, Unblocks []card
}

// node is a task in the graph.
type node struct {
	card
	X, Y  int
	Label string
	Self  bool
	More  int // instead of a task: how many are left out of this row
}

// maxLabel is how many characters of a title fit into a node.
const maxLabel = 19

// graphOf returns the graph around a task among cards. What is finished for long, or in no copy, is
// not among them.
func graphOf(cards []card, self card) graph {
	byID := map[string]card{string(self.ID): self}
	all := []chart.Need{{ID: string(self.ID), Needs: self.needs()}}
	for _, c := range cards {
		if c.ID != self.ID {
			byID[string(c.ID)] = c
			all = append(all, chart.Need{ID: string(c.ID), Needs: c.needs()})
		}
	}
	places := chart.NewGraph(string(self.ID), all)
	g := graph{Width: places.Width, Height: places.Height, Edges: places.Edges}
	for _, id := range places.Needs {
		g.Needs = append(g.Needs, byID[id])
	}
	for _, id := range places.NeededBy {
		g.Unblocks = append(g.Unblocks, byID[id])
	}
	for _, at := range places.Nodes {
		n := node{card: byID[at.ID], X: at.X, Y: at.Y, More: at.More, Self: at.ID == string(self.ID)}
		if n.Label = text(n.Title, maxLabel); n.More > 0 {
			n.Label = fmt.Sprintf("and %d more", n.More)
		}
		g.Nodes = append(g.Nodes, n)
	}
	return g
}

// needs returns the ids of the tasks that c waits for, finished or not.
func (c card) needs() []string { return strings.Fields(c.Needs) }

// dayLayout is that of a moment with its date.
const dayLayout = "2 Jan 2006, 15:04"
