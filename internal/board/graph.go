package board

import (
	"fmt"
	"strings"

	"dibs/internal/board/chart"
)

// graph shows what a task waits for, above it, and what waits for it, below.
type graph struct {
	chart.Graph
	Nodes []node // instead of the graph's
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

// graphOf returns the graph around a task among cards.
func graphOf(cards []card, self card) graph {
	byID := make(map[string]card, len(cards))
	awaited := make(map[string][]string) // who waits for it
	for _, c := range cards {
		byID[string(c.ID)] = c
		for _, need := range c.needs() {
			awaited[need] = append(awaited[need], string(c.ID))
		}
	}
	byID[string(self.ID)] = self
	// What is finished for long, or in no copy, is not among the cards.
	present := func(ids []string) (out []string) {
		for _, id := range ids {
			if _, ok := byID[id]; ok {
				out = append(out, id)
			}
		}
		return out
	}
	needs := func(id string) []string { return present(byID[id].needs()) }
	waits := func(id string) []string { return present(awaited[id]) }

	g := graph{Graph: chart.NewGraph(string(self.ID), needs, waits)}
	for _, id := range needs(string(self.ID)) {
		g.Needs = append(g.Needs, byID[id])
	}
	for _, id := range waits(string(self.ID)) {
		g.Unblocks = append(g.Unblocks, byID[id])
	}
	for _, at := range g.Graph.Nodes {
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
