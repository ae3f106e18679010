package board

import (
	"fmt"
	"strings"
	"testing"

	"dibs/internal/task"
)

// TestGraph draws a task that waits for one and for which many wait, of which one waits for itself
// in the end: rows stay short, and every task is in the drawing once.
func TestGraph(t *testing.T) {
	cards := []card{{ID: "first", Title: "First", Needs: "late3 "}, {ID: "self", Title: "Self", Needs: "first gone "}}
	for i := range 5 {
		cards = append(cards, card{ID: task.ID(fmt.Sprintf("late%d", i)), Title: "Late", Needs: "self "})
	}
	g := graphOf(cards, cards[1])
	if len(g.Needs) != 1 || len(g.Unblocks) != 5 {
		t.Errorf("it waits for %v, and for it wait %v; want 1 and 5", g.Needs, g.Unblocks)
	}
	seen, more := make(map[task.ID]bool), 0
	for _, n := range g.Nodes {
		if more += n.More; n.More == 0 && seen[n.ID] {
			t.Errorf("%s is drawn twice", n.ID)
		}
		seen[n.ID] = true
		if n.X < 0 || n.X+nodeWidth > g.Width || n.Y+nodeHeight > g.Height {
			t.Errorf("%+v is outside of %d × %d", n, g.Width, g.Height)
		}
	}
	// Above: late3, which first waits for, then first; below: two of those four that are left.
	if len(g.Nodes) != 6 || more != 2 || len(g.Edges) != 4 {
		t.Errorf("%d nodes, %d left out, arrows %s", len(g.Nodes), more, strings.Join(g.Edges, " "))
	}
	if g := graphOf(cards[:1], cards[0]); len(g.Nodes) != 0 {
		t.Errorf("a task alone is drawn: %+v", g)
	}
}

// TestMarkdown converts what others wrote: nothing of it is markup of theirs, is loaded, or runs.
func TestMarkdown(t *testing.T) {
	for source, want := range map[string]string{
		"# Top":                            "<h3>Top</h3>\n",
		"###### Low":                       "<h6>Low</h6>\n",
		"a <b>b</b> & c":                   "<p>a &lt;b&gt;b&lt;/b&gt; &amp; c</p>\n",
		"<script>x</script>":               "<p>&lt;script&gt;x&lt;/script&gt;</p>\n",
		"[x](https://e.org)":               `<p><a href="https://e.org" target="_blank" rel="noopener noreferrer">x</a></p>` + "\n",
		"[x](javascript:y)":                "<p>x</p>\n",
		"![x](https://e.org/p?a=1&b)":      `<p><a href="https://e.org/p?a=1&amp;b" target="_blank" rel="noopener noreferrer">Image: x</a></p>` + "\n",
		"![x](javascript:y)":               "<p>Image: x</p>\n",
		"[x](/sweep)":                      "<p>x</p>\n",
		"https://e.org":                    `<p><a href="https://e.org" target="_blank" rel="noopener noreferrer">https://e.org</a></p>` + "\n",
		"- [x] done":                       "<ul>\n<li><span class=\"todo\" role=\"img\" aria-label=\"done:\">☑</span> done</li>\n</ul>\n",
		"[x](data:image/svg+xml;base64,a)": "<p>x</p>\n",
	} {
		if got := string(markdown(source)); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}
