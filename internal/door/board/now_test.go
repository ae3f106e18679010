package board_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

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
	says("who works on what, for how long", ">Sandman</span> <a href=\"/tasks/"+ids["Sew a button on"], "for less than a minute, until", "All is well: 1 task under way, 4 ready, 0 done today.")

	asked, handed, done := m.claim("Oracle", ids["Mend the fence"]), m.claim("Oracle", ids["Oil the hinges"]), m.claim("Oracle", ids["Paint the gate"])
	do(m, api.OpAsk, api.On(string(asked.ID), "", api.AskRequest{Text: "Wood or wire?"}))
	do(m, api.OpReview, api.On(string(handed.ID), "", api.ReviewRequest{Note: "It squeaks no more"}))
	do(m, api.OpComplete, api.On(string(done.ID), "", api.CompleteRequest{Summary: "It is green."}))
	page := says("the question, the review, and what is done", `<span class="stuck">asked</span>`, "Wood or wire?", "It squeaks no more", "It is green.", "1 task is stuck", "1 task waits for a decision")
	testkit.Check(t, !strings.Contains(page, "All is well"), "all is well, the page says, where somebody waits for an answer")

	// Work in review is approved: it is done, in its agent's name.
	v.does(ids["Oil the hinges"], "approve", "text", "well done")
	is := do(m, api.OpGetTask, api.GetTaskInput{ID: ids["Oil the hinges"]})
	testkit.Check(t, is.Status == task.Completed && strings.Contains(is.Note, "Done: well done (maria on the board)"), "the approved task is %+v", is)
	says("that two are done today", `Done today <span class="count">2</span>`)
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
	c.size(1600, 900, "light")
	c.open(m)
	field := fmt.Sprintf(`document.getElementById('answer-%s')`, id)
	c.until(field)
	c.do(chromedp.Focus(`#answer-`+id, chromedp.ByQuery), input.InsertText("Wire, "))
	c.do(chromedp.Evaluate(`window.old = document.getElementById('live')`, nil))
	m.add("Paint the gate", nil)
	c.until(`document.getElementById('live') !== window.old && document.body.innerText.includes('Paint the gate')`)
	c.until(field + ` === document.activeElement && document.activeElement.value === 'Wire, '`)
	c.do(input.InsertText("and a <b>gate</b>"), chromedp.KeyEvent("\r"))
	c.until(`location.search === '?done=answer' && document.querySelector('.done')`)
	c.until(`document.body.innerText.includes('All is well') || document.body.innerText.includes('no agent works')`)
	c.calm()
	content, err := client.Do(t.Context(), m.client, api.OpGetTaskContent, api.GetTaskInput{ID: id})
	if err != nil || content.Status != task.Open || !slices.ContainsFunc(content.Comments, func(c api.Comment) bool {
		return strings.Contains(c.Text, "Wire, and a <b>gate</b> (maria on the board)")
	}) {
		t.Errorf("the task is %+v, %v", content, err)
	}
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
	c.size(1600, 900, "light")
	c.openTasks(m)
	c.until(columnOf("Paint the gate") + ` === 'PEOPLE'`)
	c.until(`[...document.querySelectorAll('.chip')].filter((e) => e.textContent === 'Team: Garden').length === 2`)
	shows := `[...document.querySelectorAll('.column[data-status=OPEN] .cards > li')].map((e) => e.querySelector('.title')?.textContent ?? '# ' + e.textContent).join('; ')`
	choose := func(name, value string) {
		t.Helper()
		c.do(chromedp.SetValue(fmt.Sprintf(`#filter [name=%s]`, name), value, chromedp.ByQuery),
			chromedp.Evaluate(fmt.Sprintf(`document.querySelector('#filter [name=%s]').dispatchEvent(new Event('input', { bubbles: true }))`, name), nil))
	}
	choose("group", "Team")
	grouped := shows + ` === '# Cloth; Sew a button on; # Garden; Mend the fence; Water the plants'`
	c.until(grouped)
	choose("field", "Team=Garden")
	c.until(shows + ` === '# Garden; Mend the fence; Water the plants'`)
	c.until(`location.search === '?field=Team%3DGarden&group=Team'`)
	c.until(`document.getElementById('found').textContent === '2 of 5 tasks'`)
	choose("field", "")
	c.until(grouped)

	folded := `document.querySelector('.column[data-status=COMPLETED]').classList.contains('folded')`
	c.until(folded)
	c.do(chromedp.Focus(`.column[data-status=COMPLETED] .fold`, chromedp.ByQuery), chromedp.KeyEvent("\r"))
	c.until(`!` + folded + ` && location.search === '?group=Team&open=COMPLETED'`)
	c.calm()

	v := m.visitor()
	_, page := v.ask("GET", "/tasks?group=Team&field=Team%3DGarden&open=COMPLETED")
	if !strings.Contains(page, `<li class="group">Garden</li>`) || strings.Contains(page, "Sew a button on") || strings.Contains(page, `s-COMPLETED folded"`) {
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
	_, page := v.ask("GET", "/charts")
	for _, want := range []string{
		`href="/charts?days=1" aria-current="true"`, // which has all that happened
		`<strong>Completed, by agent</strong> <span class="says">1 completed</span>`, `Sandman: 1</title>`,
		`<strong>Losses, and why</strong> <span class="says">1 lost</span>`, `<td>Oracle</td><td>Paint the gate</td><td>lost</td>`,
		`<strong>Held at a time</strong> <span class="says">now `, ` held and `, `<strong>From open to claimed</strong>`, `<strong>From claimed to done</strong>`,
		`<strong>How claims ended</strong> <span class="says">1 completed, 0 failed, 1 lost`, `<strong>Refusals</strong>`, `days=1&amp;figure=how-claims-ended"`, `href="/report"`,
	} {
		testkit.Check(t, strings.Contains(page, want), "the charts lack %s", want)
	}
	for _, days := range []string{"1", "7", "30"} {
		resp, page := v.ask("GET", "/charts.csv?days="+days+"&figure=how-claims-ended")
		if kind := resp.Header.Get("Content-Type"); kind != "text/csv; charset=utf-8" || !strings.HasPrefix(page, "from,completed,failed,lost\n20") || !strings.Contains(page, "Z,1,0,1\n") {
			t.Errorf("%s: %q", kind, page)
		}
	}
	if _, page := v.ask("GET", "/charts.csv?figure=losses-and-why"); !strings.HasPrefix(page, "from,agent,task,how,why\n20") || !strings.Contains(page, ",Oracle,Paint the gate,lost,") {
		t.Errorf("the losses: %q", page)
	}
	_, page = v.ask("GET", "/report?days=30")
	testkit.Says(t, "the report", page,
		`<th scope="row">Sandman</th><td class="number">1</td><td class="number">0</td><td class="number">0</td>`, `Which &lt;i&gt;oil&lt;/i&gt;?`,
		`<td>=Oracle</td>`, `href="/report?days=30" aria-current="true"`, `href="/report.csv?days=30"`,
	)
	if _, page := v.ask("GET", "/report.csv"); !strings.HasPrefix(page, "agent,completed,failed,lost,median_seconds,usd\n") || !strings.Contains(page, "\nSandman,1,0,0,") {
		t.Errorf("the report as CSV: %q", page)
	}
	for _, path := range []string{"/charts?days=2", "/charts.csv?figure=x", "/report?days=0", "/report.csv?days=x"} {
		resp, _ := v.ask("GET", path)
		testkit.Check(t, resp.StatusCode == 404, "%s: %s", path, resp.Status)
	}
}
