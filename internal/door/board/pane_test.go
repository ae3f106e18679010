package board_test

import (
	"fmt"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/task"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestPane looks at a task beside the list: its page, comments, dependencies and address.
func TestPane(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	first := m.add("Sew a button on", nil)
	m.sync()
	add := func(title, body string, after ...string) string {
		made, err := m.client.Add(t.Context(), api.AddRequest{Title: title, Body: body, DependsOn: after}, "")
		if err != nil {
			t.Fatal(err)
		}
		return string(made.Task.ID)
	}
	second := add("Iron the shirt", strings.Join([]string{"# Heat", "Not **too** hot.", "- [ ] steam", "[a link](https://example.com/x)",
		"[bad](javascript:window.hit=1)", "![pic](https://example.com/p.png)", "<img src=x onerror=\"window.hit=1\"><script>window.hit=1</script>"}, "\n\n"), "TASK-1")
	last := add("Wear it", "", second)
	if _, err := m.client.Comment(t.Context(), task.ID(second), api.CommentRequest{Agent: "Oracle", Text: "<b>Which</b> iron?"}, ""); err != nil {
		t.Fatal(err)
	}
	m.sync()
	c := newChrome(t)
	c.size(1600, 900, "light")
	c.openTasks(m)
	c.until(columnOf("Wear it"))
	c.press(fmt.Sprintf(`.card .title[href="/tasks/%s"]`, second))
	c.until(`document.querySelector('#pane .markdown strong')?.textContent === 'too'`)
	c.until(fmt.Sprintf(`location.pathname === '/tasks' && new URLSearchParams(location.search).get('task') === %q`, second))
	if eval[bool](c, `'hit' in window || document.querySelector('#pane img, #pane script, #pane b, #pane a[href^="javascript"]') !== null`) {
		t.Error("what somebody wrote became markup that loads or runs something")
	}
	text := eval[string](c, `document.querySelector('#pane').innerText`)
	for _, want := range []string{"Heat", "steam", "<b>Which</b> iron?", "Oracle", "onerror", "Sew a button on", "Wear it"} {
		if !strings.Contains(text, want) {
			t.Errorf("the pane lacks %q:\n%s", want, text)
		}
	}
	if n := eval[int](c, `document.querySelectorAll('#pane .deps a').length * 10 + document.querySelectorAll('#pane .deps path').length`); n != 22 {
		t.Errorf("the graph has %d links and arrows, want 2 and 2", n)
	}
	if !eval[bool](c, `document.querySelector('#pane .markdown a').target === '_blank' && document.querySelector('.column').getBoundingClientRect().right <= document.querySelector('#pane').getBoundingClientRect().left`) {
		t.Error("the pane is not beside the list")
	}

	// The graph leads on, the way back leads back, and the address opens the same again.
	c.press(fmt.Sprintf(`#pane .deps a[href="/tasks/%s"]`, last))
	c.until(`document.querySelector('#pane h1').textContent === 'Wear it'`)
	c.do(chromedp.Evaluate(`history.back()`, nil))
	c.until(`document.querySelector('#pane h1').textContent === 'Iron the shirt'`)
	c.do(chromedp.Reload())
	c.until(`document.querySelector('#pane:not([hidden]) h1')?.textContent === 'Iron the shirt'`)

	// It is live.
	m.claim("Sandman", first)
	c.press(fmt.Sprintf(`#pane .deps a[href="/tasks/%s"]`, first))
	c.until(`document.querySelector('#pane h1').textContent === 'Sew a button on' && document.querySelector('#pane .facts .agent')?.textContent === 'Sandman'`)
	held, err := m.client.Task(t.Context(), task.ID(first))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.client.Complete(t.Context(), string(held.ClaimID), api.CompleteRequest{Summary: "It holds."}, ""); err != nil {
		t.Fatal(err)
	}
	c.until(`document.querySelector('#pane .history').innerText.includes('It holds.')`)
	c.do(chromedp.KeyEvent(kb.Escape))
	c.until(`document.querySelector('#pane').hidden && !location.search.includes('task=')`)
	c.calm()

	// On a narrow screen it is a page of its own.
	c.size(390, 800, "dark")
	c.press(fmt.Sprintf(`.card .title[href="/tasks/%s"]`, last))
	c.until(fmt.Sprintf(`location.pathname === '/tasks/%s' && document.querySelector('main h1')?.textContent === 'Wear it'`, last))
	c.until(`document.querySelector('main .said:not([data-load])')`)
	c.calm()
}

// TestDrag drags a card onto other columns: what that takes is asked as on the task's page.
func TestDrag(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	id := m.add("Sew a button on", nil)
	m.sync()
	c := newChrome(t)
	c.size(1600, 900, "light")
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
	if err := m.notion.EditPage(id, titled("Sew two buttons on")); err != nil {
		t.Fatal(err)
	}
	m.sync()
	c.until(`document.querySelector('#pane h1')?.textContent === 'Sew two buttons on' && ` + done)
	drop("IN_PROGRESS")
	c.until(`document.querySelector('#pane [role=alert]')?.textContent.includes('People do not set this status here')`)
	c.calm()
}
