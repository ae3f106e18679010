package board_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestCardsMove looks on while agents and a person work, and the daemon is killed.
func TestCardsMove(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	first := m.add("Sew a button on", nil)
	second := m.add("Mend the fence", nil)
	m.sync()
	c := newChrome(t)
	c.openTasks(m)
	c.visit("/tasks?open=COMPLETED&open=CANCELLED")
	in := func(title, status string) { t.Helper(); c.until(columnOf(title) + fmt.Sprintf(" === %q", status)) }
	in("Sew a button on", "OPEN")

	held := m.claim("Sandman", first)
	in("Sew a button on", "IN_PROGRESS")
	c.until(`document.querySelector('.card .agent').textContent === 'Sandman'`)
	c.until(`/^(< 1|1) min · until \d\d:\d\d$/.test(document.querySelector('.card .until').textContent)`)
	do(m, api.OpComplete, api.On(string(held.ID), "", api.CompleteRequest{Summary: "It holds."}))
	in("Sew a button on", "COMPLETED")
	// A claim is lost, to a person.
	m.claim("Oracle", second)
	in("Mend the fence", "IN_PROGRESS")
	testkit.Must(t, m.notion.EditPage(second, status("CANCELLED")))
	in("Mend the fence", "CANCELLED")
	// The daemon is killed, and nobody is told that all is well.
	m.kill()
	c.until(`!document.querySelector('#trouble').hidden && /^The daemon does not answer since \d\d:\d\d: trying again/.test(document.querySelector('#trouble').textContent)`)
	in("Mend the fence", "CANCELLED") // what was known is still shown
	m.add("Paint the gate", nil)
	m.serve()
	c.until(`document.querySelector('#trouble').hidden`)
	in("Paint the gate", "OPEN")
	c.calm()
}

// press clicks on what a selector finds.
func (c *chrome) press(selector string) {
	c.t.Helper()
	c.do(chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }))", selector), nil))
}

// TestActions does on the board what a person may do there, and finds all of it in the
// record and in the log in Notion, with that person's name.
func TestActions(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	stale := status("IN_PROGRESS")
	stale["claimed_by"], stale["claimed_at"] = richText("Ghost"), map[string]any{"date": map[string]any{"start": "2026-01-01T12:00:00.000Z"}}
	ids := map[string]string{
		"Sew a button on": m.add("Sew a button on", nil), "Mend the fence": m.add("Mend the fence", nil), "Oil the hinges": m.add("Oil the hinges", nil),
		"Paint the gate": m.add("Paint the gate", status("BLOCKED")), "Water the plants": m.add("Water the plants", stale),
	}
	m.sync()
	held := m.claim("Sandman", ids["Sew a button on"])
	for _, title := range []string{"Mend the fence", "Oil the hinges"} {
		do(m, api.OpOffer, api.OnTask(task.ID(ids[title]), "", api.OfferRequest{Agent: "Sandman", To: "Oracle"}))
	}
	c := newChrome(t)
	c.openTasks(m)
	for _, act := range []struct{ title, verb, asked, done string }{
		{"Sew a button on", "release", "Take the task from Sandman", "The task was released."},
		{"Mend the fence", "decline", "in the place of Oracle", "The offer was declined."},
		{"Oil the hinges", "accept", "Accept the offer for Oracle", "The offer was accepted."},
		{"Paint the gate", "reopen", "Put the task back to Open", "The task is open again."},
	} {
		c.until(columnOf(act.title))
		c.press(fmt.Sprintf(`.card .title[href="/tasks/%s"]`, ids[act.title]))
		c.until(fmt.Sprintf(`document.querySelector('#pane h1')?.textContent === %q`, act.title))
		c.press(fmt.Sprintf(`#pane a[href$="/%s"]`, act.verb))
		c.until(`document.querySelector('#pane .question')`)
		testkit.Says(t, "asked to confirm, the board says", eval[string](c, `document.querySelector("#pane").innerText`), act.asked, "logged as done by maria")
		if act.verb == "release" {
			c.do(chromedp.SetValue(`#pane input[name=text]`, "It is needed elsewhere", chromedp.ByQuery))
		}
		c.press(`#pane .question button`)
		c.until(fmt.Sprintf(`document.querySelector('#pane .done')?.textContent === %q`, act.done))
		c.press(`#pane .close`)
		testkit.Check(t, m.log.has("action="+act.verb+" key=") && m.log.has("by=maria"),
			"the board did not log that somebody did %s:\n%s", act.verb, m.log)
	}
	ended := do(m, api.OpGetClaim, api.GetClaimInput{ID: string(held.ID), After: api.EventsFuture})
	testkit.Check(t, ended.Outcome == claim.EndLost, "the claim is %+v; want it taken back", ended)
	c.until(columnOf("Paint the gate") + ` === 'OPEN'`)
	c.until(columnOf("Oil the hinges") + ` === 'IN_PROGRESS'`)

	c.visit("/health")
	c.until(`document.documentElement.dataset.link === 'live'`)
	for _, want := range []string{"Water the plants", "No claim was stale."} {
		c.press(`a[href="/sweep"]`)
		c.until(`document.querySelector('#pane .question')`)
		c.press(`#pane .question button`)
		c.until(fmt.Sprintf(`document.querySelector("#pane").innerText.includes(%q)`, want))
		c.press(`#pane [data-close]`)
		c.until(`!document.querySelector('#pane')`)
	}

	record := do(m, api.OpLog, api.LogInput{})
	for _, kind := range []claim.Kind{claim.KindDeclined, claim.KindAccepted, claim.KindReopened, claim.KindSwept} {
		if !slices.ContainsFunc(record.Entries, func(e api.LogEntry) bool {
			return e.Kind == kind && strings.Contains(e.Summary+e.Detail, "maria on the board")
		}) {
			t.Errorf("the record does not say who is behind %s: %+v", kind, record.Entries)
		}
	}
	m.until("the log in Notion says who did it", func() bool {
		var said strings.Builder
		for _, p := range m.notion.Pages(m.notion.Databases().MeshLog) {
			fmt.Fprintln(&said, p)
		}
		return strings.Contains(said.String(), "took the task back: It is needed elsewhere (maria on the board)") && strings.Contains(said.String(), "accepted by maria on the board") &&
			strings.Contains(said.String(), "swept by maria on the board") && strings.Count(said.String(), "maria on the board") >= 5
	})
	c.calm()
}

// TestOldFormDoesNothing sends a form about a claim that is over by now: the claim that came after it is left alone.
func TestOldFormDoesNothing(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	id := m.add("Sew a button on", nil)
	m.sync()
	old := m.claim("Sandman", id)
	c := newChrome(t)
	c.openTasks(m)
	c.visit("/tasks/" + id + "/release")
	c.until(`document.querySelector('main form')`)
	do(m, api.OpRelease, api.On(string(old.ID), "", api.StopRequest{}))
	held := m.claim("Oracle", id)
	c.press(`main form button`)
	c.until(`document.querySelector('main .meanwhile')`)
	now := do(m, api.OpGetClaim, api.GetClaimInput{ID: string(held.ID), After: api.EventsFuture})
	testkit.Check(t, now.State == claim.Held, "the later claim is %+v; want it held", now)
}

// hostile are texts that would do something if they were markup, code or an address.
var hostile = []string{
	`<img src=x onerror="window.hit=1">`, `</title></script><script>window.hit=1</script>`, `"><svg onload=window.hit=1>`,
	`{{.}} ${window.hit=1} <!-- `, "javascript:window.hit=1", "a \u202e b \x1b[31m c", `<a href="javascript:window.hit=1">x</a>`,
}

func TestHostileTexts(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	for _, text := range hostile {
		m.add(text, map[string]any{"note": richText(text)})
	}
	m.sync()
	for _, agent := range []string{`<b onclick=x>`, `"onload="x`} {
		c := m.claim(agent, "")
		do(m, api.OpBlock, api.On(string(c.ID), "", api.BlockRequest{Reason: hostile[0]}))
	}
	c := newChrome(t)
	c.openTasks(m)
	c.until(fmt.Sprintf(`document.querySelectorAll('.card').length === %d`, len(hostile)))
	titles := eval[[]string](c, `[...document.querySelectorAll('.card .title')].map((a) => a.textContent)`)
	for _, text := range hostile[:5] {
		testkit.Check(t, strings.Contains(strings.Join(titles, "\n"), strings.Join(strings.Fields(text), " ")),
			"no card has the title %q", text)
	}
	paths := []string{"/", "/tasks?group=agent", "/activity", "/list?status=OPEN", "/health", "/tasks?q=" + "%3Cimg%20src%3Dx%20onerror%3D%22window.hit%3D1%22%3E"}
	paths = append(paths, eval[[]string](c, `[...document.querySelectorAll('.card .title')].map((a) => a.getAttribute('href'))`)...)
	for _, path := range paths {
		c.visit(path)
		c.until(`document.documentElement.dataset.link === 'live'`)
		if eval[bool](c, `'hit' in window || document.querySelectorAll('main img, main script, main [onload], main [onclick], a[href^="javascript"]').length > 0`) {
			t.Errorf("%s: what somebody wrote became markup", path)
		}
		c.calm()
	}
}

// TestWithoutScript reads the board in a browser that runs none.
func TestWithoutScript(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "demo", 300)
	c := newChrome(t)
	c.do(emulation.SetScriptExecutionDisabled(true))
	c.do(chromedp.Navigate(m.link))
	c.until(`location.pathname === '/'`) // the link's own page goes on to it
	m.until("the lists", func() bool {
		c.visit("/tasks") // nothing else brings such a page up to date
		return eval[int](c, `document.querySelectorAll('.card').length`) > 25
	})
	n := eval[int](c, `document.querySelectorAll('.column[data-status=OPEN] .card').length`)
	testkit.Check(t, n >= 25, "the first page has %d open tasks, want 25 or more", n)
	more := eval[string](c, `document.querySelector('.column[data-status=OPEN] .more a').getAttribute('href')`)
	c.visit(more)
	n = eval[int](c, `document.querySelectorAll('.card').length`)
	testkit.Check(t, n == 200, "the second page has %d open tasks, want 200", n)
	for _, path := range []string{"/", "/activity", "/health"} {
		c.visit(path)
		testkit.Check(t, !eval[bool](c, `document.querySelector('h1') === null`), "%s shows nothing", path)
	}
}

// TestKeyboard finds its way without a mouse.
func TestKeyboard(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "demo", 100)
	c := newChrome(t)
	c.openTasks(m)
	c.until(`document.querySelectorAll('.card').length > 5`)
	focus := func() string { return eval[string](c, `document.activeElement.textContent`) }
	at := `[...document.activeElement.closest('.column')?.querySelectorAll('.card .title') ?? []].indexOf(document.activeElement)`
	c.do(chromedp.KeyEvent(kb.ArrowDown)) // from anywhere: the first
	c.until(at + ` === 0`)
	for range 20 {
		c.do(chromedp.KeyEvent(kb.ArrowDown))
	}
	c.until(at + ` === 20`)
	if !eval[bool](c, `(() => { const a = document.activeElement.getBoundingClientRect(); return a.top >= 0 && a.bottom <= innerHeight; })()`) {
		t.Error("the card with the focus is out of sight")
	}
	c.do(chromedp.KeyEvent(kb.End))
	c.until(`document.activeElement.closest('.card') === [...document.querySelectorAll('.column[data-status=OPEN] .card')].filter((e) => e.checkVisibility()).at(-1)`)
	c.do(chromedp.KeyEvent(kb.Home))
	c.until(at + ` === 0`)
	c.do(chromedp.KeyEvent(kb.ArrowRight))
	c.until(`document.activeElement.closest('.column')?.dataset.status === 'IN_PROGRESS'`)
	title := focus()
	c.do(chromedp.KeyEvent(kb.Enter))
	c.until(fmt.Sprintf(`document.querySelector('#pane h1')?.textContent === %q`, title))
	c.until(fmt.Sprintf(`document.querySelector('.card.on .title')?.textContent === %q`, title))
	// J goes on to the next one, K back.
	c.do(chromedp.KeyEvent("j"))
	c.until(fmt.Sprintf(`document.querySelector('#pane h1')?.textContent !== %q`, title))
	c.do(chromedp.KeyEvent("k"))
	c.until(fmt.Sprintf(`document.querySelector('#pane h1')?.textContent === %q`, title))
	c.do(chromedp.KeyEvent(kb.Escape))
	c.until(`!document.querySelector('#pane')`)
	c.until(fmt.Sprintf(`document.activeElement.textContent === %q`, title)) // back where it was
	c.do(chromedp.KeyEvent("?"))
	c.until(`document.querySelector('#keys').open`)
	c.do(chromedp.KeyEvent(kb.Escape))
	c.until(`!document.querySelector('#keys').open`)
	c.do(chromedp.KeyEvent("n"))
	c.until(`document.querySelector('#pane [name=title]') === document.activeElement`)
	// A simulated key is a key and a character, apart: a real one that leads here writes nothing.
	c.do(chromedp.Evaluate(`document.activeElement.value = ''`, nil), chromedp.KeyEvent(kb.Escape))
	c.until(`!document.querySelector('#pane')`)
	c.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(input.ModifierCtrl)))
	c.until(`document.activeElement.id === 'find'`)
	c.do(input.InsertText("certif"))
	c.until(`location.search === '?q=certif' && document.querySelectorAll('#search .rows a').length === 1`)
	c.do(input.InsertText("icates"))
	c.until(`location.search === '?q=certificates' && document.activeElement.value === 'certificates'`)
	c.do(chromedp.Evaluate(`history.back()`, nil))
	c.until(`location.pathname === '/tasks' && document.querySelectorAll('.card').length > 5`)
	c.do(chromedp.Evaluate(`document.activeElement.blur()`, nil), chromedp.KeyEvent("/"))
	c.until(`document.activeElement.id === 'words'`)
	c.do(chromedp.Evaluate(`document.getElementById('words').value = ''`, nil), chromedp.KeyEvent("certificates"))
	c.until(`document.querySelectorAll('.card').length === 1`)
	c.calm()
}

// TestPane looks at a task beside the list: its page, comments, dependencies and address.
func TestPane(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	first := m.add("Sew a button on", nil)
	m.sync()
	add := func(title, body string, after ...string) string {
		made := do(m, api.OpAddTask, api.AddInput{Body: api.AddRequest{Title: title, Body: body, DependsOn: after}})
		return string(made.Task.ID)
	}
	second := add("Iron the shirt", strings.Join([]string{"# Heat", "Not **too** hot.", "- [ ] steam", "[a link](https://example.com/x)",
		"[bad](javascript:window.hit=1)", "![pic](https://example.com/p.png)", "<img src=x onerror=\"window.hit=1\"><script>window.hit=1</script>"}, "\n\n"), "TASK-1")
	last := add("Wear it", "", second)
	do(m, api.OpComment, api.OnTask(task.ID(second), "", api.CommentRequest{Agent: "Oracle", Text: "<b>Which</b> iron?"}))
	m.sync()
	c := newChrome(t)
	c.openTasks(m)
	c.until(columnOf("Wear it"))
	c.press(fmt.Sprintf(`.card .title[href="/tasks/%s"]`, second))
	c.until(`document.querySelector('#pane .markdown strong')?.textContent === 'too'`)
	c.until(fmt.Sprintf(`location.pathname === '/tasks' && new URLSearchParams(location.search).get('task') === %q`, second))
	if eval[bool](c, `'hit' in window || document.querySelector('#pane img, #pane script, #pane b, #pane a[href^="javascript"]') !== null`) {
		t.Error("what somebody wrote became markup that loads or runs something")
	}
	c.do(chromedp.Evaluate(`document.querySelector('#pane #graph').open = true`, nil))
	text := eval[string](c, `document.querySelector('#pane').innerText`)
	testkit.Says(t, "the pane", text, "Heat", "steam", "<b>Which</b> iron?", "Oracle", "onerror", "Sew a button on", "Wear it")
	n := eval[int](c, `document.querySelectorAll('#pane .deps a').length * 10 + document.querySelectorAll('#pane .deps path').length`)
	testkit.Check(t, n == 22, "the graph has %d links and arrows, want 2 and 2", n)
	if !eval[bool](c, `document.querySelector('#pane .markdown a').target === '_blank' && document.querySelector('.column').getBoundingClientRect().right <= document.querySelector('#pane').getBoundingClientRect().left`) {
		t.Error("the pane is not beside the list")
	}
	// The graph leads on, the way back leads back, and the address opens the same again.
	c.press(fmt.Sprintf(`#pane .deps a[href="/tasks/%s"]`, last))
	c.until(`document.querySelector('#pane h1').textContent === 'Wear it'`)
	c.do(chromedp.Evaluate(`history.back()`, nil))
	c.until(`document.querySelector('#pane h1').textContent === 'Iron the shirt'`)
	c.do(chromedp.Reload())
	c.until(`document.querySelector('#pane h1')?.textContent === 'Iron the shirt'`)
	// It is live.
	m.claim("Sandman", first)
	c.press(fmt.Sprintf(`#pane .deps a[href="/tasks/%s"]`, first))
	c.until(`document.querySelector('#pane h1').textContent === 'Sew a button on' && document.querySelector('#pane .who .agent')?.textContent === 'Sandman'`)
	held := do(m, api.OpGetTask, api.GetTaskInput{ID: first})
	do(m, api.OpComplete, api.On(string(held.ClaimID), "", api.CompleteRequest{Summary: "It holds."}))
	c.until(`document.querySelector('#pane .story').innerText.includes('It holds.')`)
	c.do(chromedp.KeyEvent(kb.Escape))
	c.until(`!document.querySelector('#pane') && !location.search.includes('task=')`)
	c.calm()
	// On a narrow screen it is a page of its own.
	c.size(390, 800, "dark")
	c.press(fmt.Sprintf(`.card .title[href="/tasks/%s"]`, last))
	c.until(fmt.Sprintf(`location.pathname === '/tasks/%s' && document.querySelector('main h1')?.textContent === 'Wear it'`, last))
	c.until(`document.querySelector('main .said:not(:has([data-load]))')`)
	c.calm()
}

// TestDrag drags a card onto other columns: what that takes is asked as on the task's page.
func TestDrag(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	id := m.add("Sew a button on", nil)
	m.sync()
	c := newChrome(t)
	c.openTasks(m)
	drop := func(to string) {
		t.Helper()
		eval[bool](c, fmt.Sprintf(`(() => {
			const card = document.querySelector('.card .title[href="/tasks/%s"]'), column = document.querySelector('.column[data-status=%s] .scroll');
			const say = (at, kind) => at.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: new DataTransfer() }));
			say(card, 'dragstart');
			const taken = !say(column, 'dragover') && column.closest('.column').classList.contains('over');
			say(column, 'drop');
			say(card, 'dragend');
			return taken;
		})()`, id, to))
	}
	c.until(columnOf("Sew a button on") + ` === 'OPEN'`)
	drop("BLOCKED")
	c.until(`document.querySelector('#pane form[action$="/block"] input[name=text]') === document.activeElement`)
	c.do(chromedp.KeyEvent("no thread"), chromedp.KeyEvent(kb.Enter))
	c.until(columnOf("Sew a button on") + ` === 'BLOCKED'`)
	done := `document.querySelector('#pane .done')?.textContent === 'The task is blocked.'`
	c.until(done)
	testkit.Must(t, m.notion.EditPage(id, titled("Sew two buttons on")))
	m.sync()
	c.until(`document.querySelector('#pane h1')?.textContent === 'Sew two buttons on' && ` + done)
	drop("IN_PROGRESS")
	c.until(`document.querySelector('#pane [role=alert]')?.textContent.includes('People do not set this status here')`)
	c.calm()
}

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
// page is looked at in both schemes on those that are loaded. With TEST_LONG=all, all are loaded, and
// axe looks at all of each.
func TestAccessible(t *testing.T) {
	testkit.Long(t)
	checker := axe(t)
	needsBrowser(t)
	m := newMesh(t, "demo", 0)
	busy(m)
	c := newChrome(t)
	c.openTasks(m)
	c.visit("/tasks?open=COMPLETED")
	c.until(`document.querySelectorAll('.card').length > 5 && document.querySelector('.column[data-status=COMPLETED] .title')`)
	detail := eval[string](c, `document.querySelector('.column[data-status=COMPLETED] .title').getAttribute('href')`)
	held := eval[string](c, `document.querySelector('.column[data-status=IN_PROGRESS] .card:last-child .title').getAttribute('href')`)
	waits := eval[string](c, `document.querySelector('.column[data-status=OPEN] #p-OPEN-Waits .title, .column[data-status=OPEN] .card .title').getAttribute('href')`)
	c.do(page.SetBypassCSP(true)) // for the checker, whose code is no module of the board's
	drawn := []string{"/", "/tasks?group=agent&open=COMPLETED", "/activity", "/tasks?task=" + strings.TrimPrefix(held, "/tasks/"), "/nowhere"}
	written := []string{"/agents", "/insights", "/health", detail, "/story" + detail[len("/tasks"):], held + "/release", held + "/move?to=BLOCKED", waits, waits + "/page", "/new", "/sweep", "/pause", "/search?q=the", "/bulk?do=offer&task=" + strings.TrimPrefix(waits, "/tasks/"), "/list?status=OPEN"}
	if testkit.InFull() {
		drawn, written = append(drawn, written...), nil
	}
	for _, path := range drawn {
		beside := strings.Contains(path, "?task=")
		if beside {
			c.size(1366, 768, "light")
		}
		c.visit(path)
		if path != "/nowhere" {
			c.until(`document.documentElement.dataset.link === 'live'`)
		}
		if beside {
			c.until(`document.querySelector('#pane .said:not(:has([data-load]))')`)
		}
		c.do(chromedp.Evaluate(checker, nil))
		c.fits(path, func(string) string {
			if beside && !testkit.InFull() {
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
		c.fits(path, func(scheme string) string { return map[string]string{"dark": "main"}[scheme] })
	}
}

// put has the window show a page as the server writes it, and what a module adds to every one.
func (c *chrome) put(path string) {
	c.t.Helper()
	mode := eval[string](c, fmt.Sprintf(`(async () => {
		const page = new DOMParser().parseFromString(await (await fetch(%q)).text(), 'text/html');
		document.documentElement.replaceWith(document.adoptNode(page.documentElement));
		await Promise.all([...document.querySelectorAll('link[rel=stylesheet]')].map((l) => l.sheet || new Promise((done) => { l.onload = l.onerror = done; })));
		return page.compatMode + ' ' + document.compatMode + ' ' + document.styleSheets.length;
	})()`, path))
	testkit.Require(c.t, mode == "CSS1Compat CSS1Compat 1", "%s is shown in the modes, and with the style sheets, %s", path, mode)
}

// fits looks at a page in windows of all sizes; in says at which part of it axe looks.
func (c *chrome) fits(path string, in func(scheme string) string) {
	c.t.Helper()
	for _, s := range sizes {
		c.size(s.width, s.height, s.scheme)
		eval[bool](c, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`) // is laid out
		wide := eval[int](c, `document.documentElement.scrollWidth`)
		testkit.Check(c.t, int64(wide) <= s.width, "%s is %d pixels wide in a window of %d", path, wide, s.width)
		if !s.checked || in(s.scheme) == "" {
			continue
		}
		found := eval[[]string](c, fmt.Sprintf(`axe.run(%q, { resultTypes: ['violations'], preload: false }).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
			.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.html.slice(0, 200) + ' ' + n.any.map((a) => a.message).join(' '))))`, in(s.scheme)))
		for _, f := range found {
			c.t.Errorf("%s, %d pixels, %s: %s", path, s.width, s.scheme, f)
		}
	}
}

// chrome is a tab of a real browser.
type chrome struct {
	t   *testing.T
	ctx context.Context
	// trouble is what the page complained about: errors of scripts, what its policy forbade, and requests for other hosts.
	trouble *lines
}

// lacks leaves a test out where something is not installed; in CI, it fails.
func lacks(t *testing.T, what, how string) {
	t.Helper()
	testkit.Require(t, os.Getenv("CI") == "", "there is no %s, which .ci/run installs: %s", what, how)
	t.Skipf("there is no %s: %s", what, how)
}

// browserPath finds a browser; empty if there is none. The first is chromium without windows of
// its own, which takes less of the processor.
func browserPath() string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if file, err := exec.LookPath(name); err == nil {
			return file
		}
	}
	return ""
}

// unused is what the browser need not do: a process for each site, pages of its own that each
// window loads into processes of their own, for a line with an address that nobody sees, and a
// process in store for a page to come.
var unused = []string{
	"site-per-process", "Translate", "BlinkGenPropertyTrees", // as chromedp has it
	"WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess",
}

// script is how the browser runs scripts: no page is open for so long that it would gain from what its
// slowest compiler makes of them.
const script = "--no-turbofan"

// browser starts the browser, once for all tests, and closeBrowser ends it.
var (
	browser = sync.OnceValues(func() (context.Context, error) {
		file := browserPath()
		options := append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(file), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true),
			chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("lang", "en-GB"), chromedp.WSURLReadTimeout(time.Minute),
			chromedp.DisableGPU, chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-features", strings.Join(unused, ",")), chromedp.Flag("js-flags", script))
		allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, cancelBrowser := chromedp.NewContext(allocated, chromedp.WithErrorf(discard))
		closeBrowser = func() {
			cancelBrowser()
			cancel()
		}
		return ctx, chromedp.Run(ctx)
	})
	closeBrowser = func() {}
)

// discard is for what chromedp has to say of events that it does not know.
func discard(string, ...any) {}

// needsBrowser leaves a test out where there is none, and has it run beside the others.
func needsBrowser(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: left out with -short")
	}
	if browserPath() == "" {
		lacks(t, "chromium", "apt-get install chromium")
	}
	t.Parallel()
}

// newTab opens a window of its own, with cookies of its own: a page that is behind another draws nothing.
func newTab(shared context.Context) (target.ID, error) {
	ctx := cdp.WithExecutor(shared, chromedp.FromContext(shared).Browser)
	own, err := target.CreateBrowserContext().WithDisposeOnDetach(true).Do(ctx)
	if err != nil {
		return "", err
	}
	return target.CreateTarget("about:blank").WithBrowserContextID(own).WithNewWindow(true).Do(ctx)
}

// newChrome opens a tab that shares nothing with those of other tests.
func newChrome(t *testing.T) *chrome {
	t.Helper()
	shared, err := browser()
	if err != nil {
		t.Fatalf("%s does not start: %v", browserPath(), err)
	}
	tab := testkit.Got(newTab(shared))(t)
	ctx, closeTab := chromedp.NewContext(shared, chromedp.WithTargetID(tab))
	t.Cleanup(closeTab)
	c := &chrome{t: t, ctx: ctx, trouble: new(lines)}
	chromedp.ListenTarget(ctx, func(ev any) {
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			fmt.Fprintln(c.trouble, "exception:", e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				fmt.Fprintln(c.trouble, "console:", fmt.Sprint(e.Args))
			}
		case *page.EventJavascriptDialogOpening:
			fmt.Fprintln(c.trouble, "a dialog of a script:", e.Message)
		}
	})
	c.do(chromedp.ActionFunc(func(ctx context.Context) error {
		// What the policy forbids, and what is asked of others, is noted from the first line on.
		_, err := page.AddScriptToEvaluateOnNewDocument(`
			window.forbidden = [];
			document.addEventListener('securitypolicyviolation', (e) => window.forbidden.push(e.violatedDirective + ' ' + e.blockedURI));`).Do(ctx)
		return err
	}))
	c.size(1600, 900, "light")
	return c
}

// do does something in the tab, within two minutes: the machine may do much else.
func (c *chrome) do(actions ...chromedp.Action) {
	c.t.Helper()
	err := c.try(actions...)
	testkit.Require(c.t, err == nil, "in the browser: %v\n%s", err, c.trouble)
}

// try is do for what may fail.
func (c *chrome) try(actions ...chromedp.Action) error {
	c.t.Helper()
	// The tab itself must not end with the time limit of one action.
	done := make(chan error, 1)
	go func() { done <- chromedp.Run(c.ctx, actions...) }()
	select {
	case err := <-done:
		return err
	case <-time.After(2 * time.Minute):
		return errors.New("not done within two minutes")
	}
}

// eval returns what an expression comes to.
func eval[T any](c *chrome, expression string) T {
	c.t.Helper()
	var out T
	c.do(chromedp.Evaluate(expression, &out, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return out
}

// until waits, a bounded number of times, for an expression to be true.
func (c *chrome) until(expression string) {
	c.t.Helper()
	var err error
	for range 1200 {
		var is bool
		// A page that goes on to another one meanwhile has no answer.
		if err = c.try(chromedp.Evaluate("Boolean("+expression+")", &is)); is {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.t.Fatalf("not within a minute: %s (%v)\nthe page says:\n%s\n%s", expression, err, eval[string](c, "document.body.innerText"), c.trouble)
}

// open opens the board by its link.
func (c *chrome) open(m *mesh) {
	c.t.Helper()
	c.do(chromedp.Navigate(m.link))
	c.until(`location.pathname === '/' && document.documentElement.dataset.link === 'live'`)
}

// openTasks opens the board, and goes to its page of tasks.
func (c *chrome) openTasks(m *mesh) {
	c.t.Helper()
	c.open(m)
	c.visit("/tasks")
	c.until(`document.documentElement.dataset.link === 'live'`)
}

// visit goes to another page of the board.
func (c *chrome) visit(path string) {
	c.t.Helper()
	base := eval[string](c, "location.origin")
	c.do(chromedp.Navigate(base + path))
}

// size makes the window that large, in pixels, with a scheme of colours.
func (c *chrome) size(width, height int64, scheme string) {
	c.t.Helper()
	c.do(emulation.SetDeviceMetricsOverride(width, height, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
}

// calm fails the test if the page had anything to complain about.
func (c *chrome) calm() {
	c.t.Helper()
	said := c.trouble.String()
	testkit.Check(c.t, said == "", "the page complained:\n%s", said)
	forbidden := eval[[]string](c, "window.forbidden")
	testkit.Check(c.t, len(forbidden) == 0, "the policy forbade what the page wanted: %s", strings.Join(forbidden, "; "))
	origin := eval[string](c, "location.origin")
	for _, asked := range eval[[]string](c, "performance.getEntriesByType('resource').map((e) => e.name)") {
		testkit.Check(c.t, strings.HasPrefix(asked, origin+"/"), "the page asked for %s", asked)
	}
}

// busy notes the tasks of the page's main thread from now on. The function that it returns
// ends that, and returns how much of the processor each took, in milliseconds: other than
// how long it was, that does not depend on what else the machine does.
func (c *chrome) busy() (done func() []float64) {
	c.t.Helper()
	type entry struct {
		Name     string
		Pid, Tid int
		Thread   float64 `json:"tdur"` // microseconds
	}
	var entries []entry
	complete := make(chan struct{})
	ctx, cancel := context.WithCancel(c.ctx)
	chromedp.ListenTarget(ctx, func(ev any) {
		switch e := ev.(type) {
		case *tracing.EventDataCollected:
			for _, value := range e.Value {
				var one entry
				if json.Unmarshal(value, &one) == nil {
					entries = append(entries, one)
				}
			}
		case *tracing.EventTracingComplete:
			close(complete)
		}
	})
	c.do(tracing.Start().WithTraceConfig(&tracing.TraceConfig{IncludedCategories: []string{"disabled-by-default-devtools.timeline", "blink.user_timing"}}))
	return func() []float64 {
		c.t.Helper()
		defer cancel()
		// Which thread it is, this tells.
		c.do(chromedp.Evaluate(`performance.mark('the page of the test')`, nil), tracing.End())
		select {
		case <-complete:
		case <-time.After(time.Minute):
			c.t.Fatal("the browser does not hand over what it noted")
		}
		at := slices.IndexFunc(entries, func(e entry) bool { return e.Name == "the page of the test" })
		testkit.Require(c.t, at >= 0, "the page is not among %d entries", len(entries))
		var out []float64
		for _, e := range entries {
			if e.Name == "RunTask" && e.Pid == entries[at].Pid && e.Tid == entries[at].Tid {
				out = append(out, e.Thread/1000)
			}
		}
		slices.Sort(out)
		return out
	}
}

// columnOf is the status of the column in which a card with that title is.
func columnOf(title string) string {
	quoted, _ := json.Marshal(title)
	return fmt.Sprintf(`[...document.querySelectorAll('.card .title')].find((a) => a.textContent === %s)?.closest('.column').dataset.status`, quoted)
}
