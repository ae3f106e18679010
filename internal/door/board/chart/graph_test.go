package chart_test

import (
	"fmt"
	"strings"
	"testing"

	"dibs/internal/door/board/chart"
)

// TestGraph draws a node that needs two others, of which one is gone. Five nodes need it, and in the
// end it needs one of these. Rows stay short, and every node is in the drawing once.
func TestGraph(t *testing.T) {
	all := []chart.Need{{ID: "first", Needs: []string{"late3"}}, {ID: "self", Needs: []string{"first", "gone"}}, {ID: "alone", Needs: []string{"gone"}}}
	for i := range 5 {
		all = append(all, chart.Need{ID: fmt.Sprint("late", i), Needs: []string{"self"}})
	}
	g := chart.NewGraph("self", all)
	if len(g.Needs) != 1 || len(g.NeededBy) != 5 {
		t.Errorf("it needs %v, and %v need it; want 1 and 5", g.Needs, g.NeededBy)
	}
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
	if g := chart.NewGraph("alone", all); len(g.Nodes) != 0 {
		t.Errorf("a node alone is drawn: %+v", g)
	}
}
