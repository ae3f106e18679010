package board

import (
	"fmt"
	"strings"

	"dibs/internal/door/board/chart"
)

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
