package board_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"dibs/internal/api"
	"dibs/internal/claim"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// axe is the checker of accessibility, which .ci/mcp installs.
func axe(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(os.Getenv("TEST_CLIENTS"), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		lacks(t, "axe-core", "export TEST_CLIENTS=$(.ci/mcp)")
	}
	return string(data)
}

// sizes are the windows that pages have to fit, and those in which axe looks at them: it
// finds what it finds in any, but for contrast and what a narrow page does otherwise. It does not load
// what pages have loaded once more (preload): only its rule about sounds wants that.
var sizes = []struct {
	width, height int64
	scheme        string
	checked       bool
}{{1366, 768, "dark", false}, {2560, 1440, "light", true}, {360, 740, "dark", true}}

// TestAccessible has axe look at every page, and looks itself whether a page is wider than
// its window.
func TestAccessible(t *testing.T) {
	checker := axe(t)
	needsBrowser(t)
	m := newMesh(t, "demo", 0)
	busy(m)
	c := newChrome(t)
	c.openTasks(m)
	c.until(`document.querySelectorAll('.card').length > 5`)
	detail := eval[string](c, `document.querySelector('.column[data-status=COMPLETED] .title').getAttribute('href')`)
	held := eval[string](c, `document.querySelector('.column[data-status=IN_PROGRESS] .card:last-child .title').getAttribute('href')`)
	waits := eval[string](c, `document.querySelector('.column[data-status=OPEN] .card.waits .title').getAttribute('href')`)
	c.do(page.SetBypassCSP(true)) // for the checker, whose code is no module of the board's
	for _, path := range []string{"/", "/tasks?group=agent&open=COMPLETED", "/agents", "/events", "/timeline", "/charts", "/report", "/health", detail, "/story" + detail[len("/tasks"):], held + "/release", held + "/move?to=BLOCKED", "/tasks?task=" + strings.TrimPrefix(held, "/tasks/"), waits, waits + "/page", "/new", "/sweep", "/list?status=OPEN", "/nowhere"} {
		beside := strings.Contains(path, "?task=")
		if beside {
			c.size(1366, 768, "light")
		}
		c.visit(path)
		if path != "/nowhere" {
			c.until(`document.querySelector('#link')?.textContent === 'live'`)
		}
		if beside {
			c.until(`document.querySelector('#pane:not([hidden]) .said:not([data-load])')`)
		}
		c.do(chromedp.Evaluate(checker, nil))
		for _, s := range sizes {
			c.size(s.width, s.height, s.scheme)
			eval[bool](c, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`) // is laid out
			if wide := eval[int](c, `document.documentElement.scrollWidth`); int64(wide) > s.width {
				t.Errorf("%s is %d pixels wide in a window of %d", path, wide, s.width)
			}
			if !s.checked {
				continue
			}
			found := eval[[]string](c, `axe.run({ resultTypes: ['violations'], preload: false }).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
				.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.html.slice(0, 200) + ' ' + n.any.map((a) => a.message).join(' '))))`)
			for _, f := range found {
				t.Errorf("%s, %d pixels, %s: %s", path, s.width, s.scheme, f)
			}
		}
	}
}

// What a large board may cost the page.
const (
	manyTasks  = 10_000
	manyClaims = 200
	mostNodes  = 3000     // elements of the page
	mostHeap   = 60 << 20 // bytes of the modules, after a collection
	mostBlock  = 200      // milliseconds of the processor for one task of the page, while it does not answer
)

// TestManyTasks shows a large board, on which a lot happens.
func TestManyTasks(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", manyTasks)
	var agents sync.WaitGroup
	for i := range 10 {
		agents.Go(func() {
			for range manyClaims / 10 {
				if _, err := m.client.Claim(t.Context(), api.ClaimRequest{Agent: fmt.Sprintf("agent-%d", i)}, ""); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	agents.Wait()
	claimed := 0
	if _, err := m.client.Events(t.Context(), api.EventFilter{}, false, func(e api.Event) error {
		if e.Kind == claim.KindClaimed {
			claimed++
		}
		return nil
	}); err != nil || claimed != manyClaims {
		t.Errorf("%d events tell of %d claims, %v", claimed, manyClaims, err)
	}
	c := newChrome(t)
	c.size(1920, 1080, "light")
	c.do(performance.Enable())
	c.openTasks(m)
	c.until(fmt.Sprintf(`document.querySelector('.column[data-status=OPEN] .count').textContent === '%d'`, manyTasks-manyClaims))
	c.until(fmt.Sprintf(`document.querySelector('.column[data-status=IN_PROGRESS] .count').textContent === '%d'`, manyClaims))

	// Things happen while somebody scrolls and searches.
	done := c.busy()
	agents.Go(func() {
		for range 40 {
			held, err := m.client.Claim(t.Context(), api.ClaimRequest{Agent: "agent-x"}, "")
			if err == nil {
				_, err = m.client.Complete(t.Context(), string(held.ID), api.CompleteRequest{}, "")
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	eval[bool](c, `(async () => {
		const scroll = document.querySelector('.column[data-status=OPEN] .scroll');
		for (let i = 0; i < 120; i++) { scroll.scrollTop += i % 40 === 0 ? 100000 : 900; await new Promise(requestAnimationFrame); }
		return true;
	})()`)
	agents.Wait()
	c.until(`document.querySelector('.column[data-status=COMPLETED] .count').textContent === '40'`)
	nodes := eval[int](c, `document.querySelectorAll('*').length`)
	cards := eval[int](c, `document.querySelectorAll('.card').length`)
	c.do(chromedp.SendKeys("#words", "99", chromedp.ByQuery))
	c.until(`/ of \d+ tasks$/.test(document.querySelector('#found').textContent)`)

	tasks := done()
	if len(tasks) == 0 || tasks[len(tasks)-1] == 0 {
		t.Fatalf("the browser noted %d tasks, and not how long they took", len(tasks))
	}
	longest := tasks[len(tasks)-1]
	heap := eval[float64](c, `performance.memory.usedJSHeapSize`)
	said, _ := json.Marshal(map[string]any{"nodes": nodes, "cards": cards, "heap MB": heap / (1 << 20), "longest tasks, ms of the processor": tasks[max(0, len(tasks)-5):]})
	t.Logf("%s", said)
	if nodes > mostNodes {
		t.Errorf("the page has %d elements, want at most %d", nodes, mostNodes)
	}
	if heap > mostHeap {
		t.Errorf("the page takes %.0f MB, want at most %d", heap/(1<<20), mostHeap>>20)
	}
	if longest > mostBlock {
		t.Errorf("a task of the page took %.0f ms, want at most %d", longest, mostBlock)
	}
	c.calm()
}
