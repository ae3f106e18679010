package chart

import (
	"fmt"
	"slices"
)

// Graph shows what a node needs, above it, and what needs it, below: two rows each way.
type Graph struct {
	Width, Height int
	Nodes         []Node
	Edges         []string // the paths of arrows, from a node to one that needs it
	// Needs is all that the node needs itself, and NeededBy all that need it themselves.
	Needs, NeededBy []string
}

// Need is a node, and what it needs.
type Need struct {
	ID    string
	Needs []string
}

// Node is a node's place, its top left corner, in a graph.
type Node struct {
	ID   string
	X, Y int
	More int // instead of a node: how many are left out of this row
}

// The measures of a graph, in units of its drawing, and how many nodes a row has.
const (
	NodeWidth  = 140
	NodeHeight = 26
	nodeGap    = 12
	rowGap     = 26
	mostInRow  = 3
	mostRows   = 2
)

// NewGraph returns the graph around one of the nodes. What a node needs that is none of them is left
// out. The graph is empty if the node needs nothing and nothing needs it.
func NewGraph(self string, all []Need) Graph {
	needs, neededBy := make(map[string][]string, len(all)), make(map[string][]string)
	for _, n := range all {
		needs[n.ID] = nil
	}
	for _, n := range all {
		for _, id := range n.Needs {
			if _, known := needs[id]; known {
				needs[n.ID] = append(needs[n.ID], id)
				neededBy[id] = append(neededBy[id], n.ID)
			}
		}
	}
	g := Graph{Needs: needs[self], NeededBy: neededBy[self]}
	if len(g.Needs)+len(g.NeededBy) == 0 {
		return g
	}
	seen := map[string]bool{self: true}
	above, below := rowsOf(self, needs, seen), rowsOf(self, neededBy, seen)
	slices.Reverse(above)
	rows := slices.Concat(above, [][]string{{self}}, below)
	g.Width = mostInRow*(NodeWidth+nodeGap) + nodeGap
	g.Height = len(rows)*(NodeHeight+rowGap) - rowGap + 2
	at := make(map[string]Node)
	for i, row := range rows {
		shown := row[:min(len(row), mostInRow)]
		left := (g.Width - len(shown)*(NodeWidth+nodeGap) + nodeGap) / 2
		for j, id := range shown {
			n := Node{ID: id, X: left + j*(NodeWidth+nodeGap), Y: 1 + i*(NodeHeight+rowGap)}
			if j == mostInRow-1 && len(row) > mostInRow {
				n.More = len(row) - mostInRow + 1
			} else {
				at[id] = n
			}
			g.Nodes = append(g.Nodes, n)
		}
	}
	for _, n := range g.Nodes {
		if n.More > 0 {
			continue
		}
		for _, need := range needs[n.ID] {
			if from, ok := at[need]; ok && from.Y < n.Y {
				x1, y1, x2, y2 := from.X+NodeWidth/2, from.Y+NodeHeight, n.X+NodeWidth/2, n.Y
				g.Edges = append(g.Edges, fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1, y1+rowGap/2, x2, y2-rowGap/2, x2, y2))
			}
		}
	}
	return g
}

// rowsOf returns the nodes at one step from id, at two, and so on, each once.
func rowsOf(id string, next map[string][]string, seen map[string]bool) (rows [][]string) {
	from := []string{id}
	for range mostRows {
		var row []string
		for _, id := range from {
			for _, n := range next[id] {
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
