package board

import (
	"fmt"
	"slices"
	"strings"

	"dibs/internal/task"
)

// graph shows what a task waits for, above it, and what waits for it, below: two rows each way.
type graph struct {
	Width, Height int
	Nodes         []node
	Edges         []string // the paths of arrows, from a task to one that waits for it
	// Needs and Unblocks are the same, directly, as lists.
	Needs, Unblocks []card
}

// node is a task in the graph, with its top left corner.
type node struct {
	card
	X, Y  int
	Label string
	Self  bool
	More  int // instead of a task: how many are left out of this row
}

// The measures of a graph, in units of its drawing, and how many tasks a row has.
const (
	nodeWidth  = 140
	nodeHeight = 26
	nodeGap    = 12
	rowGap     = 26
	mostInRow  = 3
	mostRows   = 2
	maxLabel   = 19
)

// graphOf returns the graph around a task among cards.
func graphOf(cards []card, self card) graph {
	byID := make(map[task.ID]card, len(cards))
	awaited := make(map[task.ID][]task.ID) // who waits for it
	for _, c := range cards {
		byID[c.ID] = c
		for _, need := range c.needs() {
			awaited[need] = append(awaited[need], c.ID)
		}
	}
	byID[self.ID] = self
	// What is finished for long, or in no copy, is not among the cards.
	present := func(ids []task.ID) (out []task.ID) {
		for _, id := range ids {
			if _, ok := byID[id]; ok {
				out = append(out, id)
			}
		}
		return out
	}
	needs := func(id task.ID) []task.ID { return present(byID[id].needs()) }
	waits := func(id task.ID) []task.ID { return present(awaited[id]) }

	var g graph
	for _, id := range needs(self.ID) {
		g.Needs = append(g.Needs, byID[id])
	}
	for _, id := range waits(self.ID) {
		g.Unblocks = append(g.Unblocks, byID[id])
	}
	if len(g.Needs)+len(g.Unblocks) == 0 {
		return g
	}
	seen := map[task.ID]bool{self.ID: true}
	above, below := rowsOf(self.ID, needs, seen), rowsOf(self.ID, waits, seen)
	slices.Reverse(above)
	rows := slices.Concat(above, [][]task.ID{{self.ID}}, below)
	g.Width = mostInRow*(nodeWidth+nodeGap) + nodeGap
	g.Height = len(rows)*(nodeHeight+rowGap) - rowGap + 2
	at := make(map[task.ID]node)
	for i, row := range rows {
		shown := row[:min(len(row), mostInRow)]
		left := (g.Width - len(shown)*(nodeWidth+nodeGap) + nodeGap) / 2
		for j, id := range shown {
			n := node{card: byID[id], X: left + j*(nodeWidth+nodeGap), Y: 1 + i*(nodeHeight+rowGap), Self: id == self.ID}
			n.Label = text(n.Title, maxLabel)
			if j == mostInRow-1 && len(row) > mostInRow {
				n.More = len(row) - mostInRow + 1
				n.Label = fmt.Sprintf("and %d more", n.More)
			}
			g.Nodes = append(g.Nodes, n)
			if n.More == 0 {
				at[id] = n
			}
		}
	}
	for _, n := range g.Nodes {
		for _, need := range n.needs() {
			from, ok := at[need]
			if _, drawn := at[n.ID]; ok && drawn && from.Y < n.Y {
				x1, y1, x2, y2 := from.X+nodeWidth/2, from.Y+nodeHeight, n.X+nodeWidth/2, n.Y
				g.Edges = append(g.Edges, fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1, y1+rowGap/2, x2, y2-rowGap/2, x2, y2))
			}
		}
	}
	return g
}

// rowsOf returns the tasks at one step from id, at two, and so on, each once.
func rowsOf(id task.ID, next func(task.ID) []task.ID, seen map[task.ID]bool) (rows [][]task.ID) {
	from := []task.ID{id}
	for range mostRows {
		var row []task.ID
		for _, id := range from {
			for _, n := range next(id) {
				if !seen[n] {
					seen[n] = true
					row = append(row, n)
				}
			}
		}
		if len(row) == 0 {
			break
		}
		rows, from = append(rows, row), row
	}
	return rows
}

// needs returns the tasks that c waits for, finished or not.
func (c card) needs() []task.ID {
	var ids []task.ID
	for id := range strings.FieldsSeq(c.Needs) {
		ids = append(ids, task.ID(id))
	}
	return ids
}
