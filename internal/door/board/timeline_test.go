package board_test

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// acted has agents and people act, and returns the claim that is held.
func acted(m *mesh) (held, done api.Claim) {
	m.t.Helper()
	first, second, third := m.add(hostile[0], nil), m.add("Mend the fence", nil), m.add("Paint the gate", nil)
	m.sync()
	done = m.claim("Sandman", first)
	do(m, api.OpComplete, api.On(string(done.ID), "", api.CompleteRequest{Summary: "It holds <b>."}))
	held = m.claim("Sandman", second)
	m.claim("Oracle", third)
	testkit.Must(m.t, m.notion.EditPage(third, status("CANCELLED")))
	m.sync()
	return held, done
}

func (m *mesh) visitor() *visitor {
	v := &visitor{t: m.t, server: httptest.NewServer(m.board.Handler())}
	m.t.Cleanup(v.server.Close)
	v.enter(m.board)
	return v
}

// A task that is handed on has no bar of an agent that never worked on it, and one that is declined ends
// its bar there.
func TestTimelineOfOffers(t *testing.T) {
	m := newMesh(t, "empty", 0)
	v := m.visitor()
	handed, tried := m.add("Mend the fence", nil), m.add("Paint the gate", nil)
	m.sync()
	do(m, api.OpOffer, api.OnTask(task.ID(handed), "", api.OfferRequest{Agent: "Sandman", To: "Oracle"}))
	m.claim("Oracle", tried)
	do(m, api.OpDecline, api.OnTask(task.ID(tried), "", api.DeclineRequest{Agent: "Oracle"}))
	_, page := v.ask("GET", "/timeline?range=1h")
	if strings.Contains(page, "b-over") || strings.Contains(page, "b-offered") || !strings.Contains(page, "b-declined") {
		t.Errorf("the bars: %q", regexp.MustCompile(`b-[a-z]+`).FindAllString(page, -1))
	}
}

// TestTimeline reads the timeline and the stories behind its bars, as the server writes them.
func TestTimeline(t *testing.T) {
	m := newMesh(t, "empty", 0)
	v := m.visitor()
	if _, page := v.ask("GET", "/timeline"); !strings.Contains(page, "Nothing happened in this time.") {
		t.Errorf("before anything happened: %s", page)
	}
	held, done := acted(m)
	for _, span := range []string{"10m", "1h", "6h", "1d", "1w"} {
		resp, page := v.ask("GET", "/timeline?range="+span)
		testkit.Require(t, resp.StatusCode == 200, "%s: %s", span, resp.Status)
		testkit.Says(t, span, page,
			`<section class="track" aria-label="People">`, `<section class="track" aria-label="Sandman">`, `<section class="track" aria-label="Oracle">`,
			`<a href="/story/`+string(held.ID)+`" aria-label="Sandman, “Mend the fence”: `, `to now, held, lease until `, `class="claim b-held"`,
			`<a href="/story/`+string(done.ID)+`" aria-label="Sandman, “&lt;img src=x`, `class="claim b-completed"`,
			`class="claim b-lost"`, `class="mark m-lost"`, `class="mark m-cancelled"`, `class="mark m-created"`,
			`<th scope="row">Oracle</th>`, `<td>lost</td>`, `href="/timeline?range=`+span+`" aria-current="true"`,
		)
		if strings.Contains(page, "<img") || strings.Contains(page, "NaN") || strings.Count(page, `class="mark m-completed"`) > 0 {
			t.Errorf("%s: %s", span, page)
		}
		for _, x := range regexp.MustCompile(`(?:x|cx|width)="([-0-9.e+]+)%"`).FindAllStringSubmatch(page, -1) {
			if strings.HasPrefix(x[1], "-") {
				t.Errorf("%s: something lies outside: %s", span, x[0])
			}
		}
	}
	resp, _ := v.ask("GET", "/timeline?range=9y")
	testkit.Check(t, resp.StatusCode == 404, "a range that there is not: %s", resp.Status)
	_, page := v.ask("GET", "/story/"+string(done.ID))
	testkit.Says(t, "the claim's story", page, "The story of one claim", "Sandman claimed the task", "Sandman completed the task", "It holds &lt;b&gt;.", `href="/story/`+string(done.Task.ID)+`"`)
	testkit.Check(t, !strings.Contains(page, "appeared on the board"), "the claim's story has what happened to its task before")
	if _, page := v.ask("GET", "/story/"+string(done.Task.ID)); !strings.Contains(page, "the task appeared on the board") {
		t.Errorf("the task's story: %s", page)
	}
	if resp, _ := v.ask("GET", "/story/01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"); resp.StatusCode != 404 {
		t.Errorf("a claim that there is not: %s", resp.Status)
	}
}

// TestTimelineIsLive looks on while a claim ends, and goes to a story by the keyboard.
func TestTimelineIsLive(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	held, _ := acted(m)
	c := newChrome(t)
	c.size(1400, 900, "light")
	c.open(m)
	c.visit("/timeline?range=10m")
	c.until(`document.querySelector('.b-held')`)
	do(m, api.OpComplete, api.On(string(held.ID), "", api.CompleteRequest{}))
	c.until(`!document.querySelector('.claim.b-held') && document.querySelectorAll('.claim.b-completed').length === 2`)
	c.until(`document.querySelector('.track svg').getBoundingClientRect().width > 900`)
	c.do(chromedp.Evaluate(`document.querySelector('.track a').focus()`, nil), chromedp.KeyEvent(kb.Enter))
	c.until(`location.pathname.startsWith('/story/') && document.querySelectorAll('.story li').length >= 2`)
	c.calm()

	c.do(emulation.SetScriptExecutionDisabled(true))
	c.visit("/timeline")
	n := eval[int](c, `document.querySelectorAll('.track a').length`)
	testkit.Check(t, n == 3, "without script there are %d bars, want 3", n)
}
