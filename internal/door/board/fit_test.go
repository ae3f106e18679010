package board_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
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
// its window. Pages on which modules draw something are loaded, each anew. The others are as the server
// writes them: they are put into one window, in which axe is at home already. What is on top of every
// page is looked at in both schemes on those that are loaded. With -long, all are loaded, and
// axe looks at all of each.
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
	drawn := []string{"/", "/tasks?group=agent&open=COMPLETED", "/events", "/tasks?task=" + strings.TrimPrefix(held, "/tasks/"), "/nowhere"}
	written := []string{"/agents", "/timeline", "/charts", "/report", "/health", detail, "/story" + detail[len("/tasks"):], held + "/release", held + "/move?to=BLOCKED", waits, waits + "/page", "/new", "/sweep", "/list?status=OPEN"}
	if *long {
		drawn, written = append(drawn, written...), nil
	}
	for _, path := range drawn {
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
		c.fits(path, func(string) string {
			if beside && !*long {
				return "#pane" // the rest is the page before it
			}
			return "html"
		})
	}
	if len(written) == 0 {
		return
	}
	c.visit("/static/board.css") // where no module runs
	c.do(chromedp.Evaluate(checker, nil))
	for _, path := range written {
		c.put(path)
		c.fits(path, func(scheme string) string {
			if scheme == "dark" {
				return "main"
			}
			return "html"
		})
	}
}

// put has the window show a page as the server writes it, and what a module adds to every one.
func (c *chrome) put(path string) {
	c.t.Helper()
	if mode := eval[string](c, fmt.Sprintf(`(async () => {
		const page = new DOMParser().parseFromString(await (await fetch(%q)).text(), 'text/html');
		page.body.classList.add('scripted');
		document.documentElement.replaceWith(document.adoptNode(page.documentElement));
		await Promise.all([...document.querySelectorAll('link[rel=stylesheet]')].map((l) => l.sheet || new Promise((done) => { l.onload = l.onerror = done; })));
		return page.compatMode + ' ' + document.compatMode + ' ' + document.styleSheets.length;
	})()`, path)); mode != "CSS1Compat CSS1Compat 2" {
		c.t.Fatalf("%s is shown in the modes, and with the style sheets, %s", path, mode)
	}
}

// fits looks at a page in windows of all sizes; in says at which part of it axe looks.
func (c *chrome) fits(path string, in func(scheme string) string) {
	c.t.Helper()
	for _, s := range sizes {
		c.size(s.width, s.height, s.scheme)
		eval[bool](c, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`) // is laid out
		if wide := eval[int](c, `document.documentElement.scrollWidth`); int64(wide) > s.width {
			c.t.Errorf("%s is %d pixels wide in a window of %d", path, wide, s.width)
		}
		if !s.checked {
			continue
		}
		found := eval[[]string](c, fmt.Sprintf(`axe.run(%q, { resultTypes: ['violations'], preload: false }).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
			.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.html.slice(0, 200) + ' ' + n.any.map((a) => a.message).join(' '))))`, in(s.scheme)))
		for _, f := range found {
			c.t.Errorf("%s, %d pixels, %s: %s", path, s.width, s.scheme, f)
		}
	}
}
