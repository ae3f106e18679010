package board_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
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

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// heard is one server-sent event.
type heard struct{ id, kind, data string }

// listen reads the news until an event for which enough says so, or the stream ends.
func (v *visitor) listen(after string, enough func(heard) bool) []heard {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Minute)
	defer cancel()
	r := testkit.Got(http.NewRequestWithContext(ctx, "GET", v.server.URL+"/live", nil))(v.t)
	r.AddCookie(v.cookie)
	r.Header.Set("Last-Event-ID", after)
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

// TestNewsGoesOn reads the news, goes away, and comes back.
func TestNewsGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: left out with -short")
	}
	t.Parallel()
	m := newMesh(t, "empty", 3)
	v := m.visitor()
	var now struct {
		Place string
		Cards []struct{ ID string }
	}
	m.until("the board has the tasks", func() bool {
		_, body := v.ask("GET", "/board.json")
		return json.Unmarshal([]byte(body), &now) == nil && len(now.Cards) == 3
	})

	first := m.claim("Sandman", "")
	claimed := func(id string) func(heard) bool {
		return func(e heard) bool { return e.kind == "tasks" && strings.Contains(e.data, `"claim":"`+id+`"`) }
	}
	news := v.listen(now.Place, claimed(string(first.ID)))
	last := news[len(news)-1]
	testkit.Require(t, last.id != "" && news[0].kind == "hello", "the news is %+v", news)

	// What happened meanwhile is told, and nothing that was told before.
	second := m.claim("Oracle", "")
	for _, e := range v.listen(last.id, claimed(string(second.ID))) {
		testkit.Check(t, e.id == "" || e.id > last.id || len(e.id) != len(last.id), "%s was told before: %+v", e.id, e)
	}
	do(m, api.OpComplete, api.On(string(first.ID), "", api.CompleteRequest{Summary: "Done."}))
	v.listen(last.id, func(e heard) bool { return e.kind == "event" && strings.Contains(e.data, `"kind":"completed"`) })

	// Who knows another run of the program, or nothing, begins anew.
	for _, after := range []string{"", "x", "AAAAAAAA.3", last.id + "000", strings.Split(last.id, ".")[0] + ".-1"} {
		news := v.listen(after, func(e heard) bool { return e.kind == "tasks" })
		got := news[len(news)-1].kind
		testkit.Check(t, got == "reset", "after %q, the news ends with %q, want a reset", after, got)
	}

	// A daemon that is gone is told of, and so is its return.
	m.kill()
	v.listen(last.id, func(e heard) bool { return e.kind == "health" && strings.Contains(e.data, `"up":false`) })
	m.serve()
	v.listen(last.id, func(e heard) bool {
		return e.kind == "hello" && strings.Contains(e.data, `"up":true`) || e.kind == "health" && strings.Contains(e.data, `"up":true`)
	})
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
		eval[bool](c, fmt.Sprintf(`new Promise((done) => {
			document.querySelector('.column[data-status=OPEN] .scroll').scrollTop += %d;
			requestAnimationFrame(() => done(true));
		})`, map[bool]int{true: 100_000, false: 900}[i%13 == 0]))
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

// TestLargeBoard has the board follow a daemon of many tasks while agents claim at the same time.
func TestLargeBoard(t *testing.T) {
	if !*long {
		t.Skip("takes minutes: .ci/task long does it")
	}
	t.Parallel()
	const tasks, claims = manyTasks, manyClaims
	m := newMesh(t, "empty", tasks)
	v := m.visitor()
	var now struct {
		Cards []struct{ Status task.Status }
	}
	held := func() (n int) {
		_, body := v.ask("GET", "/board.json")
		testkit.Must(t, json.Unmarshal([]byte(body), &now))
		for _, c := range now.Cards {
			if c.Status == task.InProgress {
				n++
			}
		}
		return n
	}
	m.until("the board has all tasks", func() bool { held(); return len(now.Cards) == tasks })
	var agents sync.WaitGroup
	for i := range 10 {
		agents.Go(func() {
			for range claims / 10 {
				if _, err := client.Do(t.Context(), m.client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: fmt.Sprintf("agent-%d", i)})); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	agents.Wait()
	claimed := 0
	_, err := m.client.Events(t.Context(), api.EventsInput{}, false, func(e api.Event) error {
		if e.Kind == claim.KindClaimed {
			claimed++
		}
		return nil
	})
	testkit.Check(t, err == nil && claimed == claims, "%d events tell of %d claims, %v", claimed, claims, err)
	m.until("the board has all claims", func() bool { return held() == claims && len(now.Cards) == tasks })
}
