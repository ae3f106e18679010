package chart_test

import (
	"fmt"
	"strings"
	"testing"

	"dibs/internal/board/chart"
)

// TestGraph draws a node that needs one and that many need, of which it needs one itself in the
// end: rows stay short, and every node is in the drawing once.
func TestGraph(t *testing.T) {
	all := map[string][]string{"first": {"late3"}, "self": {"first"}}
	for i := range 5 {
		all[fmt.Sprint("late", i)] = []string{"self"}
	}
	needs := func(id string) []string { return all[id] }
	neededBy := func(id string) (by []string) {
		for _, other := range []string{"first", "self", "late0", "late1", "late2", "late3", "late4"} {
			if len(all[other]) > 0 && all[other][0] == id {
				by = append(by, other)
			}
		}
		return by
	}
	g := chart.NewGraph("self", needs, neededBy)
	seen, more := make(map[string]bool), 0
	for _, n := range g.Nodes {
		if more += n.More; n.More == 0 && seen[n.ID] {
			t.Errorf("%s is drawn twice", n.ID)
		}
		seen[n.ID] = true
		if n.X < 0 || n.X+chart.NodeWidth > g.Width || n.Y+chart.NodeHeight > g.Height {
			t.Errorf("%+v is outside of %d × %d", n, g.Width, g.Height)
		}
	}
	// Above: late3, which first needs, then first; below: two of those four that are left.
	if len(g.Nodes) != 6 || more != 2 || len(g.Edges) != 4 {
		t.Errorf("%d nodes, %d left out, arrows %s", len(g.Nodes), more, strings.Join(g.Edges, " "))
	}
	if g := chart.NewGraph("alone", needs, neededBy); len(g.Nodes) != 0 {
		t.Errorf("a node alone is drawn: %+v", g)
	}
}
