package board_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestCardsMove looks on while agents and a person work, and the daemon is killed.
func TestCardsMove(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	first := m.add("Sew a button on", nil)
	second := m.add("Mend the fence", nil)
	sync := func() {
		t.Helper()
		if _, err := m.client.Sync(t.Context(), api.SyncRequest{}, ""); err != nil {
			t.Fatal(err)
		}
	}
	sync()
	c := newChrome(t)
	c.size(1600, 900, "light")
	c.openTasks(m)
	in := func(title, status string) { t.Helper(); c.until(columnOf(title) + fmt.Sprintf(" === %q", status)) }
	in("Sew a button on", "OPEN")

	held := m.claim("Sandman", first)
	in("Sew a button on", "IN_PROGRESS")
	c.until(`document.querySelector('.card .agent').textContent === 'Sandman'`)
	c.until(`/^(30|29) min left$/.test(document.querySelector('.card .left').textContent)`)
	c.until(`document.querySelector('.card progress').value > 0.9 * document.querySelector('.card progress').max`)
	c.until(`document.querySelector('[data-vital=held]').textContent === '1'`)
	if _, err := m.client.Complete(t.Context(), string(held.ID), api.CompleteRequest{Summary: "It holds."}, ""); err != nil {
		t.Fatal(err)
	}
	in("Sew a button on", "COMPLETED")

	// A claim is lost, to a person.
	m.claim("Oracle", second)
	in("Mend the fence", "IN_PROGRESS")
	if err := m.notion.EditPage(second, status("CANCELLED")); err != nil {
		t.Fatal(err)
	}
	in("Mend the fence", "CANCELLED")
	c.until(`document.querySelector('#rail').innerText.includes('claim lost')`)

	// The daemon is killed, and nobody is told that all is well.
	m.kill()
	c.until(`!document.querySelector('#trouble').hidden && /^The daemon does not answer since \d\d:\d\d: trying again/.test(document.querySelector('#trouble').textContent)`)
	c.until(`document.querySelector('#link').textContent === 'down'`)
	in("Mend the fence", "CANCELLED") // what was known is still shown
	m.add("Paint the gate", nil)
	m.serve()
	c.until(`document.querySelector('#trouble').hidden && document.querySelector('#link').textContent === 'live'`)
	in("Paint the gate", "OPEN")
	if n := eval[int](c, `document.querySelectorAll('#rail li').length`); n < 5 {
		t.Errorf("%d events are shown after the daemon came back", n)
	}
	c.calm()
}

// TestDemoIsShown looks on while the demo runs: agents work, and one loses a claim to a
// person.
func TestDemoIsShown(t *testing.T) {
	needsBrowser(t)
	c := newChrome(t)
	c.do(chromedp.Navigate(demo(t)))
	c.until(`location.pathname === '/'`)
	c.visit("/tasks")
	c.until(`Number(document.querySelector('.column[data-status=COMPLETED] .count')?.textContent) >= 5`)
	c.until(`document.querySelector('#rail').textContent.includes('claim lost')`)
	c.until(`Number(document.querySelector('.column[data-status=CANCELLED] .count')?.textContent) >= 1`) // at first there is none
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
	if _, err := m.client.Sync(t.Context(), api.SyncRequest{}, ""); err != nil {
		t.Fatal(err)
	}
	held := m.claim("Sandman", ids["Sew a button on"])
	for _, title := range []string{"Mend the fence", "Oil the hinges"} {
		if _, err := m.client.Offer(t.Context(), task.ID(ids[title]), api.OfferRequest{Agent: "Sandman", To: "Oracle"}, ""); err != nil {
			t.Fatal(err)
		}
	}
	c := newChrome(t)
	c.size(1600, 900, "light")
	c.openTasks(m)
	for _, act := range []struct{ title, verb, asked, done string }{
		{"Sew a button on", "release", "Take the task from Sandman", "The task was released."},
		{"Mend the fence", "decline", "in the place of Oracle", "The offer was declined."},
		{"Oil the hinges", "accept", "Accept the offer for Oracle", "The offer was accepted."},
		{"Paint the gate", "reopen", "Put the task back to OPEN", "The task is open again."},
	} {
		c.until(columnOf(act.title))
		c.press(fmt.Sprintf(`.card .title[href="/tasks/%s"]`, ids[act.title]))
		c.until(fmt.Sprintf(`document.querySelector('#pane:not([hidden]) h1')?.textContent === %q`, act.title))
		c.press(fmt.Sprintf(`#pane a[href$="/%s"]`, act.verb))
		c.until(`document.querySelector('#pane form')`)
		if said := eval[string](c, `document.querySelector("#pane").innerText`); !strings.Contains(said, act.asked) || !strings.Contains(said, "logged as done by maria") {
			t.Errorf("asked to confirm, the board says %q", said)
		}
		if act.verb == "release" {
			c.do(chromedp.SetValue(`#pane input[name=text]`, "It is needed elsewhere", chromedp.ByQuery))
		}
		c.press(`#pane form button`)
		c.until(fmt.Sprintf(`document.querySelector('#pane .done')?.textContent === %q`, act.done))
		c.press(`#pane .close`)
		if !m.log.has("action="+act.verb+" key=") || !m.log.has("by=maria") {
			t.Errorf("the board did not log that somebody did %s:\n%s", act.verb, m.log)
		}
	}
	ended, err := m.client.Lookup(t.Context(), string(held.ID), "")
	if err != nil || ended.Outcome != claim.EndLost {
		t.Errorf("the claim is %+v, %v; want it taken back", ended, err)
	}
	c.until(columnOf("Paint the gate") + ` === 'OPEN'`)
	c.until(columnOf("Oil the hinges") + ` === 'IN_PROGRESS'`)

	c.visit("/health")
	c.until(`document.querySelector('#link')?.textContent === 'live'`)
	for _, want := range []string{"Water the plants", "No claim was stale."} {
		c.press(`a[href="/sweep"]`)
		c.until(`document.querySelector('#pane form')`)
		c.press(`#pane form button`)
		c.until(fmt.Sprintf(`document.querySelector("#pane").innerText.includes(%q)`, want))
		c.press(`#pane [data-close]`)
		c.until(`!document.querySelector('#pane:not([hidden])')`)
	}

	record, err := m.client.Log(t.Context(), api.LogFilter{})
	if err != nil {
		t.Fatal(err)
	}
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

// TestOldFormDoesNothing sends a form about a claim that is over by now: the claim that came
// after it is left alone.
func TestOldFormDoesNothing(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	id := m.add("Sew a button on", nil)
	if _, err := m.client.Sync(t.Context(), api.SyncRequest{}, ""); err != nil {
		t.Fatal(err)
	}
	old := m.claim("Sandman", id)
	c := newChrome(t)
	c.openTasks(m)
	c.visit("/tasks/" + id + "/release")
	c.until(`document.querySelector('main form')`)
	if _, err := m.client.Release(t.Context(), string(old.ID), api.StopRequest{}, ""); err != nil {
		t.Fatal(err)
	}
	held := m.claim("Oracle", id)
	c.press(`main form button`)
	c.until(`document.querySelector('main .meanwhile')`)
	if now, err := m.client.Lookup(t.Context(), string(held.ID), ""); err != nil || now.State != claim.Held {
		t.Errorf("the later claim is %+v, %v; want it held", now, err)
	}
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
	if _, err := m.client.Sync(t.Context(), api.SyncRequest{}, ""); err != nil {
		t.Fatal(err)
	}
	for _, agent := range []string{`<b onclick=x>`, `"onload="x`} {
		c := m.claim(agent, "")
		if _, err := m.client.Block(t.Context(), string(c.ID), api.BlockRequest{Reason: hostile[0]}, ""); err != nil {
			t.Fatal(err)
		}
	}
	c := newChrome(t)
	c.size(1800, 1000, "light")
	c.openTasks(m)
	c.until(fmt.Sprintf(`document.querySelectorAll('.card').length === %d`, len(hostile)))
	titles := eval[[]string](c, `[...document.querySelectorAll('.card .title')].map((a) => a.textContent)`)
	for _, text := range hostile[:5] {
		if !strings.Contains(strings.Join(titles, "\n"), strings.Join(strings.Fields(text), " ")) {
			t.Errorf("no card has the title %q", text)
		}
	}
	paths := []string{"/", "/tasks?group=agent", "/events", "/list?status=OPEN", "/health", "/tasks?q=" + "%3Cimg%20src%3Dx%20onerror%3D%22window.hit%3D1%22%3E"}
	paths = append(paths, eval[[]string](c, `[...document.querySelectorAll('.card .title')].map((a) => a.getAttribute('href'))`)...)
	for _, path := range paths {
		c.visit(path)
		c.until(`document.querySelector('#link')?.textContent === 'live'`)
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
		return eval[int](c, `document.querySelectorAll('.card').length`) > 50
	})
	if n := eval[int](c, `document.querySelectorAll('.column[data-status=OPEN] .card').length`); n != 50 {
		t.Errorf("the first page has %d open tasks, want 50", n)
	}
	more := eval[string](c, `document.querySelector('.column[data-status=OPEN] .more a').getAttribute('href')`)
	c.visit(more)
	if n := eval[int](c, `document.querySelectorAll('.card').length`); n != 200 {
		t.Errorf("the second page has %d open tasks, want 200", n)
	}
	for _, path := range []string{"/", "/events", "/health"} {
		c.visit(path)
		if eval[bool](c, `document.querySelector('h1') === null`) {
			t.Errorf("%s shows nothing", path)
		}
	}
}

// TestKeyboard finds its way without a mouse.
func TestKeyboard(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "demo", 100)
	c := newChrome(t)
	c.size(1400, 800, "light")
	c.openTasks(m)
	c.until(`document.querySelectorAll('.card').length > 5`)
	focus := func() string { return eval[string](c, `document.activeElement.textContent`) }
	posinset := `Number(document.activeElement.closest('li')?.getAttribute('aria-posinset'))`
	c.do(chromedp.Focus(`.column[data-status=OPEN] .scroll`, chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowDown))
	c.until(posinset + ` === 1`)
	for range 40 {
		c.do(chromedp.KeyEvent(kb.ArrowDown))
	}
	c.until(posinset + ` === 41`)
	if !eval[bool](c, `(() => { const a = document.activeElement.getBoundingClientRect(); return a.top >= 0 && a.bottom <= innerHeight; })()`) {
		t.Error("the card with the focus is out of sight")
	}
	c.do(chromedp.KeyEvent(kb.End))
	c.until(posinset + ` === Number(document.activeElement.closest('li').getAttribute('aria-setsize'))`)
	c.do(chromedp.KeyEvent(kb.Home))
	c.until(posinset + ` === 1`)
	c.do(chromedp.KeyEvent(kb.ArrowRight))
	c.until(`document.activeElement.closest('.column')?.dataset.status === 'IN_PROGRESS'`)
	title := focus()
	c.do(chromedp.KeyEvent(kb.Enter))
	c.until(fmt.Sprintf(`document.querySelector('#pane:not([hidden]) h1')?.textContent === %q`, title))
	// Meanwhile the card that opened it is drawn anew.
	c.do(chromedp.Evaluate(`document.querySelectorAll('.columns .title').forEach((a) => a.replaceWith(a.cloneNode(true)))`, nil))
	c.do(chromedp.KeyEvent(kb.Escape))
	c.until(`!document.querySelector('#pane:not([hidden])')`)
	c.until(fmt.Sprintf(`document.activeElement.textContent === %q`, title)) // back where it was
	c.do(chromedp.KeyEvent("/"))
	c.until(`document.activeElement.id === 'words'`)
	// A simulated key is a key and a character, apart: a real one that leads here writes nothing.
	c.do(chromedp.Evaluate(`document.getElementById('words').value = ''`, nil), chromedp.KeyEvent("certificates"))
	c.until(`document.querySelectorAll('.card').length === 1`)
	c.calm()
}
