package board_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// heard is one server-sent event.
type heard struct{ id, kind, data string }

// listen reads the news until an event for which enough says so, or the stream ends.
func (v *visitor) listen(after string, enough func(heard) bool) []heard {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Minute)
	defer cancel()
	r := testkit.Got(http.NewRequestWithContext(ctx, "GET", v.server.URL+"/live?after="+url.QueryEscape(after), nil))(v.t)
	r.AddCookie(v.cookie)
	resp := testkit.Got(http.DefaultTransport.RoundTrip(r))(v.t)
	defer resp.Body.Close()
	var out []heard
	var e heard
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "":
			out = append(out, e)
			if enough(e) {
				return out
			}
			e = heard{}
		}
	}
	return out
}

// TestNews hears of changes, goes away, and comes back: who knows an older place, that of another run,
// or none, is told so at once.
func TestNews(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "empty", 3)
	v := m.visitor()
	kind := func(want string) func(heard) bool { return func(e heard) bool { return e.kind == want } }
	m.until("the board has the tasks", func() bool {
		_, body := v.ask("GET", "/tasks")
		return strings.Count(body, `class="card"`) == 3
	})
	news := v.listen("", kind("changed"))
	now := news[len(news)-1].data
	m.claim("Sandman", "")
	later := v.listen(now, func(e heard) bool { return e.kind == "changed" && e.data != now })
	last := later[len(later)-1].data
	testkit.Check(t, last != now, "the place is %s after a claim as before", last)
	for _, after := range []string{"", "x", "AAAAAAAA.3", last + "000", now} {
		got := v.listen(after, kind("changed"))
		testkit.Check(t, got[0].kind == "changed", "after %q, the news begins with %+v", after, got[0])
	}
}

// What a large board may cost the page.
const (
	manyTasks  = 10_000
	manyClaims = 200
	mostNodes  = 3000     // elements of the page
	mostHeap   = 15 << 20 // bytes of the modules, after a collection
	mostBlock  = 200      // milliseconds of the processor for one task of the page, while it does not answer
)

// crowd answers the board as a daemon of many tasks would: what a page of them takes does not depend
// on how the daemon got to know them.
type crowd struct {
	mu     sync.Mutex
	tasks  []api.Task
	events []api.Event
	more   chan struct{} // closed with the next event
}

// newCrowd returns a board over a crowd of tasks, of which the first are claimed.
func newCrowd(t *testing.T, tasks, claimed int) (*crowd, *mesh) {
	t.Helper()
	w := &crowd{more: make(chan struct{})}
	for i := range tasks {
		w.tasks = append(w.tasks, api.Task{Ready: true, CreatedAt: api.Time{Time: time.Now()}, TaskRef: api.TaskRef{
			ID: task.ID(fmt.Sprintf("2f835e81-2bbb-81b6-9700-%012d", i)), Key: fmt.Sprintf("TASK-%d", i+1), Title: fmt.Sprintf("Fix what is wrong in part %d of the whole", i+1),
			Status: task.Open, Priority: []string{"critical", "high", "medium", "low", "none"}[i%5], URL: fmt.Sprintf("https://www.notion.so/%d", i), Note: "Seen by more than one of those who use it.",
		}})
	}
	for i := range claimed {
		w.claim(i)
	}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	m := &mesh{t: t, log: new(lines), client: client.Over("/crowd/dibs.sock", func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	})}
	m.show()
	return w, m
}

// claim has an agent get a task, and complete ends that.
func (w *crowd) claim(i int) {
	now := time.Now()
	w.act(i, claim.KindClaimed, func(t *api.Task) {
		t.Status, t.Ready, t.Agent, t.ClaimID = task.InProgress, false, fmt.Sprintf("agent-%d", i%10), claim.ID(fmt.Sprintf("01KA8XQ5V8ZJ6N3T4R%08d", i))
		t.ClaimedAt, t.ExpiresAt = api.Time{Time: now}, api.Time{Time: now.Add(30 * time.Minute)}
	})
}

func (w *crowd) complete(i int) {
	w.act(i, claim.KindCompleted, func(t *api.Task) { t.Status, t.ClaimID = task.Completed, "" })
}

func (w *crowd) act(i int, kind claim.Kind, change func(*api.Task)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &w.tasks[i]
	change(t)
	w.events = append(w.events, api.Event{ID: int64(len(w.events) + 1), At: api.Time{Time: time.Now()}, Kind: kind, Task: &t.TaskRef, Agent: t.Agent})
	close(w.more)
	w.more = make(chan struct{})
}

func (w *crowd) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/events" {
		w.tell(out, r)
		return
	}
	w.mu.Lock()
	var answer any
	switch id, one := strings.CutPrefix(r.URL.Path, "/v1/tasks/"); {
	case one:
		answer = w.tasks[slices.IndexFunc(w.tasks, func(t api.Task) bool { return string(t.ID) == id })]
	case r.URL.Path == "/v1/tasks":
		answer = api.Tasks{Tasks: slices.Clone(w.tasks)}
	case r.URL.Path == "/v1/claims":
		var held api.Claims
		for _, t := range w.tasks {
			if t.ClaimID != "" {
				held.Claims = append(held.Claims, api.Claim{ID: t.ClaimID, Task: t.TaskRef, Agent: t.Agent, State: claim.Held, ClaimedAt: t.ClaimedAt, ExpiresAt: t.ExpiresAt})
			}
		}
		answer = held
	default:
		answer = api.Status{Mirror: api.MirrorStatus{Tasks: len(w.tasks)}}
	}
	w.mu.Unlock()
	out.Header().Set("Content-Type", "application/json")
	json.NewEncoder(out).Encode(answer)
}

// tell streams the events.
func (w *crowd) tell(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Content-Type", api.EventStream)
	w.mu.Lock()
	at := len(w.events)
	w.mu.Unlock()
	if after, err := strconv.Atoi(r.FormValue("after")); err == nil && after >= 0 {
		at = min(after, at)
	}
	for {
		w.mu.Lock()
		told, more := w.events[at:], w.more
		w.mu.Unlock()
		fmt.Fprintf(out, ": alive\nid: %d\n\n", at)
		for _, e := range told {
			data, _ := json.Marshal(e)
			fmt.Fprintf(out, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Kind, data)
		}
		at += len(told)
		http.NewResponseController(out).Flush()
		if r.FormValue("follow") == "false" {
			return
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
	}
}

// TestManyTasks shows a large board, on which a lot happens.
func TestManyTasks(t *testing.T) {
	testkit.Long(t)
	needsBrowser(t)
	w, m := newCrowd(t, manyTasks, manyClaims)
	c := newChrome(t)
	c.size(1920, 1080, "light")
	c.openTasks(m)
	c.until(fmt.Sprintf(`document.querySelector('.column[data-status=OPEN] .count').textContent === '%d'`, manyTasks-manyClaims))
	c.until(fmt.Sprintf(`document.querySelector('.column[data-status=IN_PROGRESS] .count').textContent === '%d'`, manyClaims))
	// Things happen while somebody scrolls and searches.
	done := c.busy()
	for i := range 40 {
		w.claim(manyClaims + i)
		eval[bool](c, `new Promise((done) => {
			document.querySelector('.column[data-status=OPEN] .scroll').scrollTop += 300;
			requestAnimationFrame(() => done(true));
		})`)
		w.complete(manyClaims + i)
	}
	c.until(`document.querySelector('.column[data-status=COMPLETED] .count').textContent === '40'`)
	nodes := eval[int](c, `document.querySelectorAll('*').length`)
	cards := eval[int](c, `document.querySelectorAll('.card').length`)
	c.do(chromedp.SendKeys("#words", "99", chromedp.ByQuery))
	c.until(`/ of \d+ tasks$/.test(document.querySelector('#found').textContent)`)

	tasks := done()
	testkit.Require(t, len(tasks) != 0 && tasks[len(tasks)-1] != 0,
		"the browser noted %d tasks, and not how long they took", len(tasks))
	longest := tasks[len(tasks)-1]
	var heap float64 // performance.memory would be that of minutes ago
	c.do(heapprofiler.CollectGarbage(), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		heap, _, _, _, err = runtime.GetHeapUsage().Do(ctx)
		return err
	}))
	said, _ := json.Marshal(map[string]any{"nodes": nodes, "cards": cards, "heap MB": heap / (1 << 20), "longest tasks, ms of the processor": tasks[max(0, len(tasks)-5):]})
	t.Logf("%s", said)
	testkit.Check(t, nodes <= mostNodes, "the page has %d elements, want at most %d", nodes, mostNodes)
	testkit.Check(t, heap <= mostHeap, "the page takes %.0f MB, want at most %d", heap/(1<<20), mostHeap>>20)
	testkit.Check(t, longest <= mostBlock, "a task of the page took %.0f ms, want at most %d", longest, mostBlock)
	c.calm()
}

// TestNow shows who works, what is stuck and why, what waits for a decision, and what is done; and
// that all is well once it is.
func TestNow(t *testing.T) {
	m := newMesh(t, "empty", 0)
	m.reviews()
	titles := []string{"Sew a button on", "Mend the fence", "Oil the hinges", "Paint the gate", "Water the plants"}
	ids := make(map[string]string)
	for _, title := range titles {
		ids[title] = m.add(title, nil)
	}
	m.sync()
	v := newSender(m)
	says := func(what string, all ...string) (page string) {
		t.Helper()
		m.until(what, func() bool {
			_, _, page = v.ask("/", nil)
			return !slices.ContainsFunc(all, func(s string) bool { return !strings.Contains(page, s) })
		})
		return page
	}
	says("nobody works", "5 tasks are ready, and no agent works")

	m.claim("Sandman", ids["Sew a button on"])
	says("who works on what, for how long", ">Sandman</span> <span class=\"until\">< 1 min · until", `href="/tasks/`+ids["Sew a button on"], "Nothing waits for you", "1 task under way · 4 ready · 0 done today")

	asked, handed, done := m.claim("Oracle", ids["Mend the fence"]), m.claim("Oracle", ids["Oil the hinges"]), m.claim("Oracle", ids["Paint the gate"])
	do(m, api.OpAsk, api.On(string(asked.ID), "", api.AskRequest{Text: "Wood or wire?"}))
	do(m, api.OpReview, api.On(string(handed.ID), "", api.ReviewRequest{Note: "It squeaks no more"}))
	do(m, api.OpComplete, api.On(string(done.ID), "", api.CompleteRequest{Summary: "It is green."}))
	page := says("the question, the review, and what is done", "Wood or wire?", "It squeaks no more", "It is green.", "1 question and 1 review wait for you")
	last := 0
	for _, id := range []string{"headline", "asked", "failed", "work", "next", "done", "people"} {
		at := strings.Index(page, ` id="`+id+`"`)
		testkit.Check(t, at > last, "#%s stands at %d, and what comes before it at %d", id, at, last)
		last = at
	}
	// Work in review is approved: it is done, in its agent's name.
	v.does(ids["Oil the hinges"], "approve", "text", "well done")
	is := do(m, api.OpGetTask, api.GetTaskInput{ID: ids["Oil the hinges"]})
	testkit.Check(t, is.Status == task.Completed && strings.Contains(is.Note, "Done: well done (maria on the board)"), "the approved task is %+v", is)
	says("that two are done today", `Done today by agents <span class="count">2</span>`)
}

// TestAnswer answers a question on the first page while it is written anew: what is begun stays,
// the answer is a comment on the page, and the task is open.
func TestAnswer(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	id := m.add("Mend the fence", nil)
	m.sync()
	do(m, api.OpAsk, api.On(string(m.claim("Oracle", id).ID), "", api.AskRequest{Text: "Wood or wire?"}))
	c := newChrome(t)
	c.open(m)
	field := fmt.Sprintf(`document.getElementById('answer-%s')`, id)
	c.until(field)
	c.do(chromedp.Focus(`#answer-`+id, chromedp.ByQuery), input.InsertText("Wire, "))
	m.add("Paint the gate", nil)
	c.until(`document.getElementById('next').innerText.includes('Paint the gate')`)
	c.until(field + ` === document.activeElement && document.activeElement.value === 'Wire, '`)
	c.do(input.InsertText("and a <b>gate</b>"))
	c.press(`.reply button`)
	c.until(`location.search === '?done=answer' && document.querySelector('.done')`)
	c.until(`document.querySelector('#headline h1').textContent === 'Nothing waits for you'`)
	c.calm()
	content, err := client.Do(t.Context(), m.client, api.OpGetTaskContent, api.GetTaskInput{ID: id})
	if err != nil || content.Status != task.Open || !slices.ContainsFunc(content.Comments, func(c api.Comment) bool {
		return strings.Contains(c.Text, "Wire, and a <b>gate</b> (maria on the board)")
	}) {
		t.Errorf("the task is %+v, %v", content, err)
	}
}

// TestFormsStay types into forms while the page is changed under them: what is typed stays, an open form
// says what has changed, and one that was refused says why for as long as it is there.
func TestFormsStay(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	id, other := m.add("Mend the fence", nil), m.add("Paint the gate", nil)
	m.sync()
	c := newChrome(t)
	c.openTasks(m)
	changed := func(title string) {
		t.Helper()
		m.add(title, nil)
		m.sync()
		if eval[bool](c, `document.querySelector('.columns') !== null`) {
			c.until(columnOf(title))
		} else {
			c.do(chromedp.Sleep(time.Second)) // the page is read again, and shows nothing of it
		}
	}
	c.press(fmt.Sprintf(`.card .title[href="/tasks/%s"]`, id))
	c.until(`document.querySelector('#pane #comment')`)
	c.do(chromedp.Focus(`#comment`, chromedp.ByQuery), input.InsertText("Wire, "))
	c.do(chromedp.Evaluate(`document.querySelector('#pane #details').open = true; document.querySelector('.column[data-status=OPEN] input').click()`, nil), chromedp.Focus(`#comment`, chromedp.ByQuery))
	changed("Oil the hinges")
	c.until(`document.activeElement.id === 'comment' && document.activeElement.value === 'Wire, ' && document.querySelector('#pane #details').open && document.querySelectorAll('.card input:checked').length === 1`)
	c.until(`document.querySelector('#bulk').innerText.startsWith('1 selected')`)
	// An open form tells what somebody else has changed, before it is sent.
	c.do(chromedp.Evaluate(`window.asked = 0; window.confirm = () => Boolean(++window.asked)`, nil))
	c.press(`#pane a[href$="/block"]`)
	c.until(`window.asked === 1 && document.querySelector('#pane .question input[name=text]') === document.activeElement`)
	c.do(input.InsertText("no wire"))
	testkit.Must(t, m.notion.EditPage(id, titled("Mend the old fence")))
	m.sync()
	c.until(`document.querySelector('#pane .question .meanwhile')?.innerText.includes('Mend the old fence') && document.querySelector('#pane .question input[name=text]').value === 'no wire'`)
	c.press(`#pane .question button`)
	c.until(`document.querySelector('#pane .question .button')?.textContent === 'Block all the same'`)
	changed("Water the plants")
	c.until(`document.querySelector('#pane .question .meanwhile') && document.querySelector('#pane .question input[name=text]').value === 'no wire'`)
	c.press(`#pane .question button`)
	c.until(`document.querySelector('#pane .done')?.textContent === 'The task is blocked.'`)
	// An agent that nobody has seen is asked about.
	m.claim("Sandman", m.add("Iron the shirt", nil))
	c.visit("/tasks/" + other + "/offer")
	c.until(`document.documentElement.dataset.link === 'live'`)
	c.do(chromedp.SetValue(`.question [name=agent]`, "Sandmann", chromedp.ByQuery))
	c.press(`.question button`)
	c.until(`document.querySelector('.question .problem')?.innerText.includes('no agent Sandmann was seen')`)
	changed("Fold the shirt")
	c.until(`document.querySelector('.question .problem') && document.querySelector('.question [name=agent]').value === 'Sandmann'`)
	// What an agent took meanwhile is not blocked.
	c.do(chromedp.Evaluate(`window.confirm = () => true`, nil))
	c.press(`.brand`)
	c.until(`location.pathname === '/'`)
	c.visit("/tasks")
	c.until(columnOf("Paint the gate"))
	c.press(fmt.Sprintf(`.card .title[href="/tasks/%s"]`, other))
	c.until(`document.querySelector('#pane h1')?.textContent === 'Paint the gate'`)
	c.press(`#pane a[href$="/block"]`)
	c.until(`document.querySelector('#pane .question')`)
	m.claim("Oracle", other)
	c.until(`document.querySelector('#pane').innerText.includes('Oracle works on it: release it first')`)
	c.calm()
}

// TestTyping types while the page changes, answers come late, and what is sent is refused.
func TestTyping(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	id, other := m.add("Mend the fence", nil), m.add("Paint the gate", nil)
	m.sync()
	do(m, api.OpBlock, api.On(string(m.claim("Sandman", id).ID), "", api.BlockRequest{Reason: "no wire"}))
	c := newChrome(t)
	c.openTasks(m)
	// A filter that is typed while a task is open beside the list keeps its field.
	c.press(fmt.Sprintf(`.card .title[href="/tasks/%s"]`, other))
	c.until(`document.querySelector('#pane #comment')`)
	c.do(chromedp.Focus(`#words`, chromedp.ByQuery), input.InsertText("gate"))
	c.until(`!document.querySelector('#pane') && location.search === '?q=gate'`)
	c.until(`document.activeElement.id === 'words'`)
	// What the daemon refuses to take is still there, with the reason.
	c.visit("/tasks/" + other)
	c.until(`document.documentElement.dataset.link === 'live'`)
	c.do(chromedp.Focus(`#comment`, chromedp.ByQuery), input.InsertText("Green, please"))
	m.kill()
	c.press(`#comment ~ button`)
	c.until(`document.querySelector('#comment')?.form.querySelector('[role=alert]')`)
	c.until(`document.querySelector('#comment').value === 'Green, please' && !document.querySelector('#comment ~ button').disabled`)
	m.serve()
	c.press(`#comment ~ button`)
	c.until(`document.querySelector('.done') && document.querySelector('#comment').value === ''`)
}

// TestBulk reopens what an agent gave up, all at once, and leaves alone what somebody has changed.
func TestBulk(t *testing.T) {
	m := newMesh(t, "empty", 0)
	var ids []string
	for i := range 3 {
		ids = append(ids, m.add(fmt.Sprint("Task ", i), nil))
	}
	m.sync()
	for _, id := range ids {
		do(m, api.OpBlock, api.On(string(m.claim("Sandman", id).ID), "", api.BlockRequest{Reason: "no thread"}))
	}
	v := m.visitor()
	var page string
	m.until("what the agent gave up", func() bool {
		_, page = v.ask("GET", "/")
		return strings.Contains(page, "Reopen all 3 of Sandman")
	})
	link := html.UnescapeString(regexp.MustCompile(`href="(/bulk[^"]+)"`).FindStringSubmatch(page)[1])
	_, page = v.ask("GET", link)
	form := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(page, -1) {
		form.Add(field[1], html.UnescapeString(field[2]))
	}
	testkit.Require(t, len(form["task"]) == 3 && len(form["seen"]) == 3, "the form has %v", form)
	testkit.Must(t, m.notion.EditPage(ids[2], titled("Another")))
	m.sync()
	for range 2 { // sent twice, it is done once
		_, page = v.post("/bulk", form)
	}
	testkit.Check(t, strings.Count(page, ">done<") == 2 && strings.Contains(page, `data-every="86400000"`), "what was done is said once: %s", page)
	m.is(ids[0], task.Open)
	m.is(ids[1], task.Open)
	m.is(ids[2], task.Blocked)
	for query, want := range map[string]int{"": 400, "do=cancel&task=" + ids[0]: 400, "do=reopen&task=x": 200} {
		resp, _ := v.ask("GET", "/bulk?"+query)
		testkit.Check(t, resp.StatusCode == want, "%q is answered %s", query, resp.Status)
	}
}

// TestNothingIsOutOfReach counts on the first page, and in groups, only what its links lead to, and
// has of one task's form nothing in what else the page leads to.
func TestNothingIsOutOfReach(t *testing.T) {
	t.Parallel()
	w, m := newCrowd(t, 140, 0)
	long := strings.Repeat("針", 290)
	for i := range 60 {
		w.act(i, claim.KindReview, func(t *api.Task) { t.Status, t.Title = task.Review, fmt.Sprint("Review ", i) })
		w.act(60+i, claim.KindFailed, func(t *api.Task) {
			t.Status, t.Title, t.Note = task.Failed, fmt.Sprint(long, i), "Failed: "+long+" — Sandman, 2026-01-02 03:04 UTC"
		})
	}
	for i := 120; i < 125; i++ {
		w.act(i, claim.KindFailed, func(t *api.Task) { t.Status, t.Note = task.Failed, "" })
	}
	v := m.visitor()
	read := func(path string) string {
		resp, page := v.ask("GET", path)
		testkit.Check(t, resp.StatusCode == 200, "%s is answered %s", path, resp.Status)
		return page
	}
	// link returns the first address that is named so on a page.
	link := func(page, name string) string {
		at := regexp.MustCompile(`href="([^"]+)"[^>]*>` + name).FindStringSubmatch(page)
		testkit.Require(t, at != nil, "nothing leads to %q in %s", name, page)
		return html.UnescapeString(at[1])
	}
	var page string
	m.until("60 reviews and 65 failures", func() bool {
		page = read("/")
		return strings.Contains(page, "60 reviews and 65 tasks given up wait for you")
	})
	testkit.Check(t, strings.Count(read(link(page, "20 more")), "/approve") == 60, "the rest of the reviews are nowhere")
	testkit.Check(t, strings.Count(read(link(page, "25 more")), "/reopen") == 65, "the rest of the failures are nowhere")
	testkit.Check(t, !strings.Contains(page, "Reopen 5 of "), "who failed is not known, and has a button")
	bulk := read(link(page, "Reopen 50 of Sandman"))
	form := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(bulk, -1) {
		form.Add(field[1], html.UnescapeString(field[2]))
	}
	testkit.Require(t, len(form["task"]) == 50, "the form has %d tasks", len(form["task"]))
	slices.Reverse(form["seen"]) // so nothing is done
	resp, _ := v.post("/bulk", form)
	testkit.Check(t, resp.StatusCode == 200, "a form with long titles is answered %s", resp.Status)

	groups := read("/tasks?group=priority")
	testkit.Check(t, strings.Count(read(link(groups[strings.Index(groups, `id="p-REVIEW-high"`):], "2 more")), `class="card"`) == 2, "the rest of a group is nowhere")

	one := "2f835e81-2bbb-81b6-9700-000000000130"
	held := read("/tasks?q=Fix&task=" + one + "&do=block&was=" + url.QueryEscape(`{"title":"Before"}`))
	testkit.Check(t, strings.Contains(held, "You saw"), "the form does not say what has changed: %s", held)
	testkit.Check(t, !strings.Contains(held, "was="), "the page leads on with what one form showed: %s", held)
}

// TestSize looks at a page of 300 tasks: what it weighs, what its header has, and how it is on a phone.
func TestSize(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "demo", 300)
	c := newChrome(t)
	c.openTasks(m)
	v := m.visitor()
	most := 0
	m.until("the tasks", func() bool {
		_, page := v.ask("GET", "/tasks?open=COMPLETED")
		most = max(most, len(page))
		return strings.Contains(page, ">TASK-")
	})
	testkit.Check(t, most <= 300_000, "the page has %d bytes", most)
	n := eval[int](c, `document.querySelectorAll('.top a:not(.brand), .top button').length`)
	testkit.Check(t, n <= 8, "the header has %d links and buttons", n)
	c.size(390, 800, "light")
	c.visit("/tasks")
	c.until(`document.documentElement.dataset.link === 'live'`)
	top := eval[float64](c, `[...document.querySelectorAll('.card')].find((e) => e.checkVisibility()).getBoundingClientRect().top`)
	testkit.Check(t, top <= 400, "the first card begins at %.0f", top)
	for _, path := range []string{"/tasks", "/"} {
		c.visit(path)
		low := eval[[]string](c, `[...document.querySelectorAll('.button, .top a, .tabs a, summary')].filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 43.5).map((e) => e.textContent + ' ' + e.getBoundingClientRect().height)`)
		testkit.Check(t, len(low) == 0, "%s has targets that are too low: %q", path, low)
	}
	c.visit("/tasks?col=BLOCKED")
	shown := eval[[]string](c, `[...document.querySelectorAll('.column')].filter((e) => e.checkVisibility()).map((e) => e.dataset.status)`)
	testkit.Check(t, slices.Equal(shown, []string{"BLOCKED"}), "a phone shows %q", shown)
	c.calm()
}

// TestForAgents has a board of which only a part is for agents: the first page has nothing of the rest,
// and the open tasks are apart.
func TestForAgents(t *testing.T) {
	m := newMesh(t, "empty", 0)
	m.kill()
	m.env = []string{"DIBS_TASKS_FIELDS=Team", "DIBS_TASKS_ONLY=Team=Agents"}
	testkit.Must(t, m.notion.EditSchema(m.notion.Databases().Tasks, map[string]any{"Team": map[string]any{"rich_text": map[string]any{}}}))
	add := func(title string, more map[string]any) {
		props := map[string]any{"Team": richText("Agents")}
		maps.Copy(props, more)
		m.add(title, props)
	}
	add("Sew a button on", nil)
	add("Mend the fence", map[string]any{"claimed_by": richText("Ann")})
	add("Paint the gate", status("BLOCKED"))
	m.add("Oil the hinges", nil)
	m.add("Water the plants", status("BLOCKED"))
	m.serve()
	v := m.visitor()
	var page string
	m.until("the tasks", func() bool {
		_, page = v.ask("GET", "/tasks")
		return strings.Count(page, `class="card"`) == 5
	})
	order := regexp.MustCompile(`(?s)<summary>Ready.*Sew a button on.*<summary>For people.*Mend the fence.*<summary>Not for agents.*Oil the hinges`)
	testkit.Check(t, order.MatchString(page), "the open tasks: %s", page)
	_, page = v.ask("GET", "/tasks?for=agents")
	testkit.Check(t, !strings.Contains(page, "Oil the hinges") && strings.Contains(page, `aria-checked="true"`), "those for agents only: %s", page)
	_, page = v.ask("GET", "/")
	testkit.Says(t, "the first page", page, "Nothing waits for you", "1 task set aside by people", "Paint the gate")
	testkit.Check(t, !strings.Contains(page, "Water the plants") && !strings.Contains(page, "Oil the hinges"), "the first page has what is not for agents: %s", page)
	_, page = v.ask("GET", "/search?q=GATE")
	testkit.Check(t, strings.Contains(page, "Paint the gate") && !strings.Contains(page, "Sew a button"), "the search: %s", page)
}

// TestQueueOrder makes tasks as an import does, in one minute: the cards of the column OPEN are in
// the order of next, whatever their ids.
func TestQueueOrder(t *testing.T) {
	m := newMesh(t, "empty", 0)
	for i := range 12 {
		m.add(fmt.Sprintf("Task %d", i), map[string]any{"priority": map[string]any{"select": map[string]any{"name": []string{"high", "low", "critical"}[rand.IntN(3)]}}})
	}
	m.sync()
	v := m.visitor()
	ready, err := client.Do(t.Context(), m.client, api.OpListTasks, api.ListTasksInput{Ready: true})
	testkit.Require(t, err == nil && len(ready.Tasks) == 12, "%d ready, %v", len(ready.Tasks), err)
	m.until("the order of the queue", func() bool {
		_, page := v.ask("GET", "/tasks")
		at := 0
		for _, task := range ready.Tasks {
			i := strings.Index(page, `class="title" href="/tasks/`+string(task.ID))
			if i < at {
				return false
			}
			at = i
		}
		return true
	})
	if next := m.claim("Sandman", ""); next.Task.ID != ready.Tasks[0].ID {
		t.Errorf("next gives %q, and the first card is %q", next.Task.Title, ready.Tasks[0].Title)
	}
}

// TestFiltersAndGroups selects and groups cards in the browser, keeps that in the address, and finds
// the same without JavaScript; what is finished is folded, and people's work is apart.
func TestFiltersAndGroups(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	m.kill()
	m.env = []string{"DIBS_TASKS_FIELDS=Team"}
	tasks := m.notion.Databases().Tasks
	testkit.Must(t, m.notion.EditSchema(tasks, map[string]any{"Team": map[string]any{"rich_text": map[string]any{}}}))
	team := func(name string) map[string]any { return map[string]any{"Team": richText(name)} }
	m.add("Sew a button on", team("Cloth"))
	m.add("Mend the fence", team("Garden"))
	m.add("Water the plants", team("Garden"))
	m.add("Paint the gate", status("IN_PROGRESS"))
	m.add("Oil the hinges", status("COMPLETED"))
	m.serve()
	c := newChrome(t)
	c.openTasks(m)
	c.until(columnOf("Paint the gate") + ` === 'PEOPLE'`)
	c.until(`[...document.querySelectorAll('.chip')].filter((e) => e.textContent === 'Team: Garden').length === 2`)
	shows := `[...document.querySelectorAll('.column[data-status=OPEN] .part')].map((p) => '# ' + p.querySelector('summary').textContent + ': ' + [...p.querySelectorAll('.title')].map((e) => e.textContent).join('; ')).join(' ')`
	choose := func(name, value string) {
		t.Helper()
		c.do(chromedp.SetValue(fmt.Sprintf(`.filter [name=%s]`, name), value, chromedp.ByQuery),
			chromedp.Evaluate(fmt.Sprintf(`document.querySelector('.filter [name=%s]').dispatchEvent(new Event('change', { bubbles: true }))`, name), nil))
	}
	choose("group", "Team")
	grouped := shows + ` === '# Cloth 1: Sew a button on # Garden 2: Mend the fence; Water the plants'`
	c.until(grouped)
	choose("by", "Team")
	c.until(`[...document.querySelectorAll('.choices a')].map((a) => a.textContent).join('; ') === 'Cloth 1; Garden 2'`)
	c.press(`.choices a:last-of-type`)
	c.until(shows + ` === '# Garden 2: Mend the fence; Water the plants'`)
	c.until(`location.search === '?field=Team%3DGarden&group=Team'`)
	c.until(`document.getElementById('found').textContent === '2 of 5 tasks'`)
	c.press(`.chip.on`)
	c.until(grouped)

	folded := `document.querySelector('.column[data-status=COMPLETED]').classList.contains('folded')`
	c.until(folded)
	c.do(chromedp.Focus(`.column[data-status=COMPLETED] .fold`, chromedp.ByQuery), chromedp.KeyEvent("\r"))
	c.until(`!` + folded + ` && location.search === '?group=Team&open=COMPLETED'`)
	c.calm()

	v := m.visitor()
	_, page := v.ask("GET", "/tasks?group=Team&field=Team%3DGarden&open=COMPLETED")
	if !strings.Contains(page, `<summary>Garden <span`) || strings.Contains(page, "Sew a button on") || strings.Contains(page, `s-COMPLETED folded"`) {
		t.Errorf("without JavaScript: %s", page)
	}
}

// TestHowItGoes reads the charts, their numbers, and the report, as the server writes them.
func TestHowItGoes(t *testing.T) {
	m := newMesh(t, "empty", 0)
	v := m.visitor()
	acted(m)
	blocked := m.claim("=Oracle", m.add("Oil the hinges", nil))
	do(m, api.OpAsk, api.On(string(blocked.ID), "", api.AskRequest{Text: "Which <i>oil</i>?"}))
	_, page := v.ask("GET", "/insights?days=1")
	testkit.Says(t, "the insights", page,
		`href="/insights?days=1" aria-current="true"`, `<dt>Done</dt><dd>1</dd>`, `<dt>Lost</dt><dd>1</dd>`,
		`<strong>Done</strong> <span class="soft">1 by agents</span>`, `data-agent="Sandman"`, `Sandman: 1</title>`,
		`<strong>Waiting and held</strong>`, `<strong>How long it took</strong>`, `<strong>Lost claims, by cause</strong> <span class="soft">1 claim</span>`,
		`</span>taken by people</li>`, `days=1&amp;figure=lost-claims-by-cause"`,
		`data-agent="Sandman" data-mark="Sa">Sandman</span></th><td class="number">1</td><td class="number">–</td><td class="number">–</td>`,
		`<th scope="row">Total</th><td class="number">1</td>`, `Which &lt;i&gt;oil&lt;/i&gt;?`, `<td>=Oracle</td>`, `href="/report.csv?days=1&amp;by="`, `href="/report.csv?days=1&amp;tasks=1"`,
	)
	for _, days := range []string{"1", "7", "30"} {
		resp, page := v.ask("GET", "/insights.csv?days="+days+"&figure=done")
		if kind := resp.Header.Get("Content-Type"); kind != "text/csv; charset=utf-8" || !strings.HasPrefix(page, "from,Sandman\n20") || !strings.Contains(page, "Z,1\n") {
			t.Errorf("%s: %q", kind, page)
		}
	}
	if _, page := v.ask("GET", "/report.csv"); !strings.HasPrefix(page, "agent,completed,failed,lost,median_seconds,usd,tokens\n") || !strings.Contains(page, "\nSandman,1,0,0,") {
		t.Errorf("the report as CSV: %q", page)
	}
	if _, page := v.ask("GET", "/report.csv?tasks=1"); !strings.HasPrefix(page, "task,title,agent,outcome,") || !strings.Contains(page, ",Sandman,completed,") {
		t.Errorf("the tasks as CSV: %q", page)
	}
	if _, page := v.ask("GET", "/insights?by=priority"); !strings.Contains(page, `<th scope="col">priority</th>`) {
		t.Errorf("the report by priority: %s", page)
	}
	for _, path := range []string{"/insights?days=0", "/insights.csv?figure=x", "/insights?days=x", "/report.csv?days=x"} {
		resp, _ := v.ask("GET", path)
		testkit.Check(t, resp.StatusCode == 404, "%s: %s", path, resp.Status)
	}
	for former, to := range map[string]string{"/charts?days=7": "/insights?days=7", "/report": "/insights", "/timeline?range=1d": "/activity?range=1d", "/events": "/activity"} {
		resp, _ := v.ask("GET", former)
		testkit.Check(t, resp.StatusCode == 301 && resp.Header.Get("Location") == to, "%s leads to %s", former, resp.Header.Get("Location"))
	}
}

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

// A task that is handed on has no bar of an agent that never worked on it, and one that is declined ends its bar there.
func TestTimelineOfOffers(t *testing.T) {
	m := newMesh(t, "empty", 0)
	v := m.visitor()
	handed, tried := m.add("Mend the fence", nil), m.add("Paint the gate", nil)
	m.sync()
	do(m, api.OpOffer, api.OnTask(task.ID(handed), "", api.OfferRequest{Agent: "Sandman", To: "Oracle"}))
	m.claim("Oracle", tried)
	do(m, api.OpDecline, api.OnTask(task.ID(tried), "", api.DeclineRequest{Agent: "Oracle"}))
	_, page := v.ask("GET", "/activity?range=1h")
	if strings.Contains(page, "b-over") || strings.Contains(page, "b-offered") || !strings.Contains(page, "b-declined") {
		t.Errorf("the bars: %q", regexp.MustCompile(`b-[a-z]+`).FindAllString(page, -1))
	}
}

// TestTimeline reads the timeline and the stories behind its bars, as the server writes them.
func TestTimeline(t *testing.T) {
	m := newMesh(t, "empty", 0)
	v := m.visitor()
	if _, page := v.ask("GET", "/activity"); !strings.Contains(page, "Nothing happened in this time.") {
		t.Errorf("before anything happened: %s", page)
	}
	held, done := acted(m)
	for _, span := range []string{"10m", "1h", "6h", "1d", "1w"} {
		resp, page := v.ask("GET", "/activity?range="+span)
		testkit.Require(t, resp.StatusCode == 200, "%s: %s", span, resp.Status)
		testkit.Says(t, span, page,
			`<section class="track" aria-label="People">`, `<section class="track" aria-label="Sandman">`, `<section class="track" aria-label="Oracle">`,
			`<a href="/story/`+string(held.ID)+`" aria-label="Sandman, “Mend the fence”: `, `to now, held, lease until `, `class="claim b-held"`,
			`<a href="/story/`+string(done.ID)+`" aria-label="Sandman, “&lt;img src=x`, `class="claim b-completed"`,
			`class="claim b-lost"`, `class="mark m-lost"`, `class="mark m-cancelled"`, `class="mark m-created"`,
			`<th scope="row">Oracle</th>`, `<td>lost</td>`, `href="/activity?range=`+span+`" aria-current="true"`,
		)
		if strings.Contains(page, "<img") || strings.Contains(page, "NaN") || strings.Count(page, `class="mark m-completed"`) > 0 {
			t.Errorf("%s: %s", span, page)
		}
		for _, x := range regexp.MustCompile(`(?:x|cx|width)="([-0-9.e+]+)%"`).FindAllStringSubmatch(page, -1) {
			testkit.Check(t, !strings.HasPrefix(x[1], "-"), "%s: something lies outside: %s", span, x[0])
		}
	}
	resp, _ := v.ask("GET", "/activity?range=9y")
	testkit.Check(t, resp.StatusCode == 404, "a range that there is not: %s", resp.Status)
	_, page := v.ask("GET", "/story/"+string(done.ID))
	testkit.Says(t, "the claim's story", page, "The story of one claim", "claimed the task", "completed the task", "It holds &lt;b&gt;.", `href="/story/`+string(done.Task.ID)+`"`)
	testkit.Check(t, !strings.Contains(page, "appeared on the board"), "the claim's story has what happened to its task before")
	_, page = v.ask("GET", "/story/"+string(done.Task.ID))
	testkit.Check(t, strings.Contains(page, "the task appeared on the board"), "the task's story: %s", page)
	resp, _ = v.ask("GET", "/story/01KA8XQ5V8ZJ6N3T4R7W9Y2M1D")
	testkit.Check(t, resp.StatusCode == 404, "a claim that there is not: %s", resp.Status)
}

// TestTimelineIsLive looks on while a claim ends, and goes to a story by the keyboard.
func TestTimelineIsLive(t *testing.T) {
	needsBrowser(t)
	m := newMesh(t, "empty", 0)
	held, _ := acted(m)
	c := newChrome(t)
	c.open(m)
	c.visit("/activity?range=10m")
	c.until(`document.querySelector('.b-held')`)
	do(m, api.OpComplete, api.On(string(held.ID), "", api.CompleteRequest{}))
	c.until(`!document.querySelector('.claim.b-held') && document.querySelectorAll('.claim.b-completed').length === 2`)
	c.until(`document.querySelector('.track svg').getBoundingClientRect().width > 900`)
	c.do(chromedp.Evaluate(`document.querySelector('.track a').focus()`, nil), chromedp.KeyEvent(kb.Enter))
	c.until(`location.pathname.startsWith('/story/') && document.querySelectorAll('.story li').length >= 2`)
	c.calm()

	c.do(emulation.SetScriptExecutionDisabled(true))
	c.visit("/activity")
	n := eval[int](c, `document.querySelectorAll('.track a').length`)
	testkit.Check(t, n == 3, "without script there are %d bars, want 3", n)
}
