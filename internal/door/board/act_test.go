package board_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// sender is a browser without JavaScript, which was let in.
type sender struct {
	m    *mesh
	base string
	http http.Client
}

func newSender(m *mesh) *sender {
	m.t.Helper()
	jar := testkit.Got(cookiejar.New(nil))(m.t)
	v := &sender{m: m, http: http.Client{Jar: jar}}
	v.base, _, _ = strings.Cut(m.link, "/enter")
	v.ask(strings.TrimPrefix(m.link, v.base), nil)
	return v
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// ask sends a form, or reads a page if there is none. It returns the status, the hidden fields of
// the form in the answer, and its text.
func (v *sender) ask(path string, form url.Values) (int, url.Values, string) {
	v.m.t.Helper()
	method, body := http.MethodGet, ""
	if form != nil {
		method, body = http.MethodPost, form.Encode()
	}
	r := testkit.Got(http.NewRequestWithContext(v.m.t.Context(), method, v.base+path, strings.NewReader(body)))(v.m.t)
	r.Header.Set("Origin", v.base)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp := testkit.Got(v.http.Do(r))(v.m.t)
	defer resp.Body.Close()
	page := testkit.Got(io.ReadAll(resp.Body))(v.m.t)
	fields := make(url.Values)
	for _, field := range hidden.FindAllStringSubmatch(string(page), -1) {
		fields.Set(field[1], html.UnescapeString(field[2]))
	}
	return resp.StatusCode, fields, html.UnescapeString(string(page))
}

// does fills in the form of an action and sends it.
func (v *sender) does(id, verb string, more ...string) string {
	v.m.t.Helper()
	path := "/tasks/" + id + "/" + verb
	_, form, asked := v.ask(path, nil)
	testkit.Require(v.m.t, form.Get("seen") != "", "%s has no form: %s", path, asked)
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	code, _, page := v.ask(path, form)
	testkit.Require(v.m.t, code == http.StatusOK && strings.Contains(page, `class="done"`),
		"%s was answered %d: %s", path, code, page)
	return page
}

// is waits until the daemon shows a task in a status.
func (m *mesh) is(id string, want task.Status) {
	m.t.Helper()
	m.until(fmt.Sprintf("%s is %s", id, want), func() bool {
		t, err := client.Do(m.t.Context(), m.client, api.OpGetTask, api.GetTaskInput{ID: id})
		return err == nil && t.Status == want
	})
}

// TestGestures does without JavaScript what people may do to a task that no agent has.
func TestGestures(t *testing.T) {
	m := newMesh(t, "empty", 0)
	m.reviews()
	ids := []string{m.add("Sew a button on", nil), m.add("Mend the fence", status("REVIEW")), m.add("Oil the hinges", nil)}
	m.sync()
	v := newSender(m)
	v.does(ids[0], "block", "text", "no thread")
	m.is(ids[0], task.Blocked)
	page := v.does(ids[0], "answer", "text", "Take the red one.\nIt is in the drawer.")
	m.is(ids[0], task.Open)
	testkit.Check(t, strings.Contains(page, "The answer is a comment on the page"), "after an answer, the page says %s", page)
	v.does(ids[0], "comment", "text", "The left drawer.")
	_, _, said := v.ask("/tasks/"+ids[0]+"/page", nil)
	testkit.Says(t, "the comments", said, "Take the red one.\nIt is in the drawer. (maria on the board)", "The left drawer.", ">user ")
	v.does(ids[0], "cancel")
	m.is(ids[0], task.Cancelled)
	v.does(ids[0], "reopen")
	m.is(ids[0], task.Open)
	v.does(ids[1], "approve", "text", "good work")
	m.is(ids[1], task.Completed)
	v.does(ids[2], "offer", "agent", "Oracle", "text", "you know hinges")
	got := do(m, api.OpGetTask, api.GetTaskInput{ID: ids[2]})
	testkit.Check(t, got.Offer != nil && got.Offer.To == "Oracle", "the task is %+v; want it offered to Oracle", got)
	for _, id := range ids[:2] {
		p, _ := m.notion.Page(id)
		testkit.Check(t, strings.Contains(fmt.Sprint(p), "maria on the board"), "its note does not say who did it: %v", p)
	}

	// What a move to a column takes is asked, or why there is none.
	if _, form, page := v.ask("/tasks/"+ids[0]+"/move?to=BLOCKED", nil); form.Get("seen") == "" || !strings.Contains(page, "Set the task to BLOCKED?") {
		t.Errorf("a move to BLOCKED asks %s", page)
	}
	m.claim("Sandman", ids[0])
	for to, want := range map[string]string{
		"BLOCKED": "Sandman works on it: release it first", "REVIEW": "Sandman works on it", "IN_PROGRESS": "already", "nowhere": "There is no such thing to do",
	} {
		_, form, page := v.ask("/tasks/"+ids[0]+"/move?to="+to, nil)
		testkit.Check(t, form.Get("seen") == "" && strings.Contains(page, want), "a move to %s says %s, want %q", to, page, want)
	}
}

// TestNewTask makes a task that waits for another; the form that comes twice makes it once.
func TestNewTask(t *testing.T) {
	m := newMesh(t, "empty", 0)
	first := m.add("Sew a button on", nil)
	m.sync()
	v := newSender(m)
	_, form, _ := v.ask("/new?after=TASK-1", nil)
	if code, _, page := v.ask("/new", url.Values{"key": form["key"], "title": {" "}}); code != http.StatusConflict || !strings.Contains(page, "a task needs a title") {
		t.Errorf("without a title: %d %s", code, page)
	}
	form.Set("title", "Iron the shirt")
	form.Set("text", "Not **too** hot.")
	form.Set("priority", "high")
	form.Set("needs", "TASK-1")
	for range 2 {
		if code, _, page := v.ask("/new", form); code != http.StatusOK || !strings.Contains(page, "The task was made.") || !strings.Contains(page, "Iron the shirt") {
			t.Fatalf("answered %d %s", code, page)
		}
	}
	all := do(m, api.OpListTasks, api.ListTasksInput{Text: "Iron"})
	testkit.Require(t, len(all.Tasks) == 1 && all.Tasks[0].Priority == "high" && len(all.Tasks[0].DependsOn) == 1, "the tasks are %+v; want one, after another", all.Tasks)
	drawn := regexp.MustCompile(`(?s)<path d="M[^"]+"/>.*<a href="/tasks/[^"]+" class="s-OPEN"[^>]*><title>Sew a button on.*<g class="self s-OPEN"><title>Iron the shirt.*Waits for</h3>.*Sew a button on`)
	made := string(all.Tasks[0].ID)
	shows := func(id string, is func(page string) bool) func() bool {
		return func() bool {
			_, _, page := v.ask("/tasks/"+id, nil)
			return is(page)
		}
	}
	m.until("what it waits for is drawn", shows(made, func(page string) bool {
		return drawn.MatchString(page) && !strings.Contains(page, "Waits for this")
	}))
	m.until("what waits for it is listed", shows(first, regexp.MustCompile(`(?s)Waits for this</h3>.*Iron the shirt`).MatchString))
	form.Set("needs", "TASK-77")
	form.Del("key")
	if code, _, page := v.ask("/new", form); code != http.StatusConflict || !strings.Contains(page, "TASK-77") || !strings.Contains(page, `value="Iron the shirt"`) {
		t.Errorf("after a task that there is not: %d %s", code, page)
	}
}

// TestMeanwhile sends forms about tasks that somebody has changed since: what was changed is
// shown, nothing is done, and the form that comes back is about the task as it is.
func TestMeanwhile(t *testing.T) {
	m := newMesh(t, "empty", 0)
	id, other := m.add("Paint the gate", status("BLOCKED")), m.add("Mend the fence", nil)
	m.sync()
	v := newSender(m)
	_, shown, _ := v.ask("/tasks/"+id+"/reopen", nil)
	// A person has completed it, whether the daemon knows that already or not.
	testkit.Must(t, m.notion.EditPage(id, status("COMPLETED")))
	code, _, page := v.ask("/tasks/"+id+"/reopen", shown)
	if code != http.StatusConflict || !strings.Contains(page, "is COMPLETED, and not BLOCKED any more") && !strings.Contains(page, "Changed since you looked") {
		t.Errorf("answered %d: %s", code, page)
	}
	m.sync()
	m.is(id, task.Completed)
	code, again, page := v.ask("/tasks/"+id+"/reopen", shown)
	if code != http.StatusConflict || !strings.Contains(page, `<th scope="row">Status</th><td>blocked</td><td>completed</td>`) {
		t.Errorf("answered %d: %s", code, page)
	}
	if code, _, page := v.ask("/tasks/"+id+"/reopen", again); code != http.StatusOK || !strings.Contains(page, "The task is open again.") {
		t.Errorf("what was shown is reopened: answered %d %s", code, page)
	}

	// The same form sent twice is done once, and says so both times.
	if code, _, page := v.ask("/tasks/"+id+"/reopen", again); code != http.StatusOK || !strings.Contains(page, "The task is open again.") {
		t.Errorf("sent twice: answered %d %s", code, page)
	}

	// Nor is a person's name taken off that the daemon does not know of yet.
	_, shown, _ = v.ask("/tasks/"+id+"/cancel", nil)
	testkit.Must(t, m.notion.EditPage(id, map[string]any{"claimed_by": map[string]any{"rich_text": []any{map[string]any{"text": map[string]any{"content": "Ann"}}}}}))
	code, again, page = v.ask("/tasks/"+id+"/cancel", shown)
	testkit.Check(t, code == http.StatusConflict && strings.Contains(page, "Ann"), "answered %d: %s", code, page)
	m.sync()
	if code, again, page = v.ask("/tasks/"+id+"/cancel", again); code == http.StatusConflict && again.Get("seen") != "" {
		code, _, page = v.ask("/tasks/"+id+"/cancel", again)
	}
	testkit.Check(t, code == http.StatusOK && strings.Contains(page, "The task was cancelled."),
		"what was shown is cancelled: answered %d %s", code, page)

	// An agent has claimed it, and there is nothing to confirm any more.
	_, shown, _ = v.ask("/tasks/"+other+"/cancel", nil)
	m.claim("Oracle", other)
	code, again, page = v.ask("/tasks/"+other+"/cancel", shown)
	if code != http.StatusConflict || again.Get("seen") != "" || !strings.Contains(page, "<td>nobody</td><td>Oracle</td>") || !strings.Contains(page, "release it first") {
		t.Errorf("answered %d: %s", code, page)
	}
	got := do(m, api.OpGetTask, api.GetTaskInput{ID: other})
	testkit.Check(t, got.Agent == "Oracle", "the task is %+v; want Oracle at work on it", got)
	// A form without what was seen does nothing.
	if code, _, _ := v.ask("/tasks/"+other+"/release", url.Values{}); code != http.StatusConflict {
		t.Errorf("a form without what was seen was answered %d", code)
	}
}

// TestPausedAndResumed pauses everybody with one click, and resumes everybody and an agent with one
// each; every page says what is paused.
func TestPausedAndResumed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: left out with -short")
	}
	t.Parallel()
	m := newMesh(t, "empty", 3)
	v := m.visitor()
	press := func(path string) {
		t.Helper()
		resp, body := v.ask("POST", path, "Origin: "+v.server.URL)
		testkit.Require(t, resp.StatusCode == 303 && resp.Header.Get("Location") == "/", "%s: %s %s", path, resp.Status, body)
	}
	press("/pause")
	testkit.Refused(client.Do(t.Context(), m.client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman"})))(t, "maria paused everybody: on the board")
	m.until("a page says that everybody is paused, and does not offer to pause", func() bool {
		_, body := v.ask("GET", "/events")
		return strings.Contains(body, "Everybody is paused, by maria: on the board") && strings.Contains(body, `action="/pause" hidden`)
	})
	press("/resume")
	do(m, api.OpPause, api.Keyed("", &api.PauseRequest{Agent: "Oracle", ForSeconds: 3600, Reason: "<b>too eager</b>"}))
	said := ""
	m.until("the board says that Oracle is paused", func() bool {
		_, said = v.ask("GET", "/")
		return strings.Contains(said, "Oracle is paused until")
	})
	testkit.Check(t, !strings.Contains(said, "<b>too") && !strings.Contains(said, `action="/pause" hidden`),
		"the page has\n%s", said)
	press("/resume?agent=Oracle")
	s := do(m, api.OpStatus, struct{}{})
	testkit.Check(t, len(s.Pauses) == 0, "what is paused: %+v", s.Pauses)
}
