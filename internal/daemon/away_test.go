package daemon_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
	"dibs/internal/testkit/pgtest"
)

// inRealWorld is inWorld in real time, for servers outside of the process.
func inRealWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	w := &world{T: t}
	var err error
	w.notion, err = emulator.New(emulator.Options{})
	mustDo(w, err)
	defer w.notion.Close()
	dbs, err := w.notion.Seed("empty")
	mustDo(w, err)
	w.tasks = dbs.Tasks
	test(w)
}

// reply is an answer of the socket.
type reply struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// request sends a request under a key; an empty key is none.
func (n *node) request(method, path, body, key string) reply {
	n.w.Helper()
	web := over(n.dial)
	web.Timeout = 20 * time.Second
	req, err := http.NewRequestWithContext(n.w.Context(), method, "http://dibs"+path, strings.NewReader(body))
	mustDo(n.w, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set(api.KeyHeader, key)
	}
	begun := time.Now()
	resp, err := web.Do(req)
	mustDo(n.w, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	mustDo(n.w, err)
	return reply{resp.StatusCode, resp.Header, string(answer), time.Since(begun)}
}

// unsaved fails the test unless the request was refused at once because the journal is unavailable.
func (n *node) unsaved(what string, got reply) {
	n.w.Helper()
	var p api.Problem
	err := json.Unmarshal([]byte(got.body), &p)
	if err != nil || got.status != 503 || p.Code != api.Code(claim.CodeJournalUnavailable) || p.RetryAfter == 0 || got.header.Get("Retry-After") == "" || strings.Contains(p.Detail, "\n") {
		n.w.Errorf("%s: %d %s, want journal_unavailable and when to try again", what, got.status, got.body)
	}
	if got.took > time.Second {
		n.w.Errorf("%s was refused after %v", what, got.took)
	}
}

// operations returns all operations that the daemon describes, as "METHOD /path".
func (n *node) operations() (all []string) {
	n.w.Helper()
	var described struct{ Paths map[string]map[string]any }
	mustDo(n.w, json.Unmarshal([]byte(n.get("/openapi.json")), &described))
	for path, methods := range described.Paths {
		for method := range methods {
			all = append(all, strings.ToUpper(method)+" "+path)
		}
	}
	return all
}

// While the journal's database is away, whatever needs it is refused at once, and the rest is answered;
// when it is back, the daemon continues by itself. Every operation is tried.
func TestDatabaseAway(t *testing.T) {
	for _, how := range []struct {
		name       string
		away, back func(*pgtest.Server) error
	}{
		{"stopped", (*pgtest.Server).Stop, (*pgtest.Server).Start},
		{"silent", (*pgtest.Server).Freeze, (*pgtest.Server).Thaw},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Run(t)
			inRealWorld(t, func(w *world) {
				w.databaseAway(s, func() error { return how.away(s) }, func() error { return how.back(s) })
			})
		})
	}
}

func (w *world) databaseAway(s *pgtest.Server, away, back func() error) {
	open, taken, offered, blocked, mine := w.add("open", nil), w.add("held", nil), w.add("offered", nil), w.add("blocked", nil), w.add("mine", nil)
	n := w.daemon(sharing(s, "a"))
	defer n.stop()
	n.leads()
	ctx := w.Context()
	held := n.mustClaim("Sandman", taken)
	mustCall(n, api.OpBlock, api.On(string(n.mustClaim("Sandman", blocked).ID), "", api.BlockRequest{Agent: "Sandman", Reason: "no"}))
	mustCall(n, api.OpOffer, api.OnTask(task.ID(offered), "", api.OfferRequest{Agent: "Sandman", To: "Oracle"}))
	only := n.mustClaim("Trinity", mine)
	files, err := n.Reserve(ctx, w.TempDir(), []string{"*.go"}, api.ReserveRequest{Agent: "Sandman"}, "")
	mustDo(w, err)
	mustCall(n, api.OpSend, api.Keyed("", api.MessageRequest{From: "Sandman", To: "Oracle", Text: "hello"}))
	const reserved = `{"agent":"Oracle","targets":[{"pattern":"name:db","at":[{"in":"names","path":"/db"}]}]}`
	mineEnds := func() reply {
		return n.request("POST", "/v1/claims/"+string(only.ID)+"/complete", `{"agent":"Trinity","summary":"once"}`, "K")
	}

	// Every operation, with an example.
	refused := map[string][]string{ // path and body
		"POST /v1/claims":               {"/v1/claims", `{"agent":"Oracle"}`, "/v1/claims", `{"agent":"Oracle","task":"` + open + `"}`},
		"POST /v1/claims/{id}/renew":    {"/v1/claims/" + string(held.ID) + "/renew", `{}`, "/v1/claims/mine/renew", `{"agent":"Trinity"}`},
		"POST /v1/claims/{id}/complete": {"/v1/claims/" + string(held.ID) + "/complete", `{"summary":"done"}`},
		"POST /v1/claims/{id}/release":  {"/v1/claims/" + string(held.ID) + "/release", `{}`, "/v1/claims/mine/release", `{"agent":"Trinity"}`},
		"POST /v1/claims/{id}/block":    {"/v1/claims/" + string(held.ID) + "/block", `{"reason":"no"}`},
		"POST /v1/claims/{id}/fail":     {"/v1/claims/" + string(held.ID) + "/fail", `{"reason":"no"}`},
		"POST /v1/claims/{id}/ask":      {"/v1/claims/" + string(held.ID) + "/ask", `{"text":"so?"}`},
		"POST /v1/tasks":                {"/v1/tasks", `{"title":"more"}`},
		"POST /v1/tasks/{id}/accept":    {"/v1/tasks/" + offered + "/accept", `{"agent":"Oracle"}`},
		"POST /v1/tasks/{id}/decline":   {"/v1/tasks/" + offered + "/decline", `{"agent":"Oracle","reason":"no"}`},
		"POST /v1/tasks/{id}/offer":     {"/v1/tasks/" + open + "/offer", `{"agent":"Sandman","to":"Oracle"}`},
		"POST /v1/tasks/{id}/comments":  {"/v1/tasks/" + open + "/comments", `{"agent":"Sandman","text":"so"}`},
		"POST /v1/tasks/{id}/reopen":    {"/v1/tasks/" + blocked + "/reopen", `{"agent":"Sandman"}`},
		"POST /v1/reopen":               {"/v1/reopen", `{"failed_by":"Sandman"}`},
		"POST /v1/messages":             {"/v1/messages", `{"from":"Sandman","to":"Oracle","text":"again"}`},
		"POST /v1/agents":               {"/v1/agents", `{"session":"one"}`},
		"POST /v1/agents/{name}/poll":   {"/v1/agents/Oracle/poll", `{}`, "/v1/agents/Oracle/poll", `{"wait_seconds":60}`},
		"POST /v1/agents/{name}/ack":    {"/v1/agents/Oracle/ack", `{"ids":["01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"]}`},
		"POST /v1/ack":                  {"/v1/ack", `{"ids":["01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"]}`},
		"POST /v1/reservations":         {"/v1/reservations", reserved},
		"DELETE /v1/reservations/{id}":  {"/v1/reservations/" + files.ID, ""},
		"POST /v1/sync":                 {"/v1/sync", `{}`},
		"POST /v1/pause":                {"/v1/pause", `{}`},
		"POST /v1/tokens":               {"/v1/tokens", `{"agent":"Sandman"}`},
		"POST /v1/resume":               {"/v1/resume", `{}`},
		"GET /v1/report":                {"/v1/report", ""},
		"GET /v1/story/{id}":            {"/v1/story/" + open, ""},
		"GET /v1/log":                   {"/v1/log", "", "/v1/log?limit=1", ""},
		"GET /v1/cluster":               {"/v1/cluster", ""},
		"GET /v1/events":                {"/v1/events?follow=false&after=0", "", "/v1/events", "", "/v1/events?after=0", ""},
		"GET /v1/tasks":                 {"/v1/tasks", "", "/v1/tasks?ready=true&why=true&agent=Oracle", ""},
		"GET /v1/tasks/{id}":            {"/v1/tasks/" + offered, ""},
		"GET /v1/tasks/{id}/content":    {"/v1/tasks/" + open + "/content", ""},
		"GET /v1/agents":                {"/v1/agents", "", "/v1/agents?days=1", ""},
		"GET /v1/agents/{name}":         {"/v1/agents/Oracle", ""},
	}
	questions := map[string][2]string{ // expected to be answered: the path, and a part of the answer
		"GET /v1/claims":       {"/v1/claims", string(held.ID)},
		"GET /v1/claims/{id}":  {"/v1/claims/" + string(held.ID), `"Sandman"`},
		"GET /v1/status":       {"/v1/status", `"claims_held":2`},
		"GET /v1/reservations": {"/v1/reservations", files.ID},
	}
	more := map[string]bool{ // tried below or under another name, or change nothing
		"POST /v1/claims/{id}/review": true, // this board has no status for it
		"GET /v1/claims/{id}/alive":   true, "POST /v1/reservations/check": true, "POST /v1/sweep": true, "POST /v1/cluster/adopt": true,
		"GET /v1/webhook": true, "POST /v1/webhook/renew": true,
		"GET /v1/access": true, "GET /v1/tokens": true, "DELETE /v1/tokens/{id}": true, // as POST /v1/tokens
	}
	for _, op := range n.operations() {
		if _, asked := questions[op]; !asked && refused[op] == nil && !more[op] {
			w.Errorf("say what becomes of %s while the database is away", op)
		}
	}
	refused["GET /v1/claims/mine"] = []string{"/v1/claims/mine?agent=Trinity", ""}
	refused["GET /v1/claims/{id}?wait"] = []string{"/v1/claims/" + string(held.ID) + "?wait=1m", "", "/v1/claims/" + string(held.ID) + "?wait=1m&after=0", ""}
	questions["GET /metrics"] = [2]string{"/metrics", "dibs_claims"}

	// A change whose answer is cut off may end the term: see TestCutUnderAClaim.
	w.until(10*time.Second, "the logs to be delivered", func() bool { return n.status().Outbox.Depth == 0 })
	time.Sleep(100 * time.Millisecond)
	waited := make(chan api.Claim, 1)
	go func() {
		c, _ := client.Do(ctx, n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(only.ID), Agent: "Trinity", After: api.EventsFuture, Wait: time.Minute.String()})
		waited <- c
	}()
	stream, stop := n.follow()
	epoch, led := n.status().Cluster.Epoch, true
	answered := func(when string) {
		w.Helper()
		for _, q := range questions {
			if got := n.request("GET", q[0], "", ""); got.status != 200 || !strings.Contains(got.body, q[1]) || got.took > 3*time.Second {
				w.Errorf("%s %s: %d after %v, want %s in %s", q[0], when, got.status, got.took, q[1], got.body)
			}
		}
	}
	answered("with a database")
	pages := func() (all []string) {
		for _, p := range w.notion.Pages(w.tasks) {
			all = append(all, p.Title()+" "+shape(p))
		}
		return all
	}
	before := pages()

	mustDo(w, away())
	isAway := true
	defer func() {
		if isAway {
			back()
		}
	}()
	n.unsaved("the first request", n.request("POST", "/v1/messages", `{"from":"Sandman","to":"Oracle","text":"x"}`, ""))
	for op, examples := range refused {
		method, _, _ := strings.Cut(op, " ")
		for example := range slices.Chunk(examples, 2) {
			path, body := example[0], example[1]
			n.unsaved(method+" "+path+" "+body, n.request(method, path, body, ""))
			if method == "POST" {
				n.unsaved(method+" "+path+" "+body+" with a key", n.request(method, path, body, "key of "+path+body))
			}
		}
	}
	n.unsaved("keeping a claim alive", n.request("GET", "/v1/claims/"+string(held.ID)+"/alive", "", ""))
	n.unsaved("the finish", mineEnds())
	answered("while the database is away")
	w.until(10*time.Second, "the status to warn", func() bool { // on a busy machine it comes late
		s := n.status()
		return strings.Contains(strings.Join(s.Warnings, "\n"), "nothing is accepted") && s.Outbox.Unknown()
	})
	defer func() {
		if led {
			stop()
		}
	}()
	same(w, "the board", before, pages())

	mustDo(w, back())
	isAway = false
	var got reply
	w.until(10*time.Second, "the finish", func() bool { got = mineEnds(); return got.status == 200 })
	if again := mineEnds(); !strings.Contains(got.body, `"completed"`) || again.body != got.body {
		w.Errorf("the finish: %s, and once more: %s", got.body, again.body)
	}
	led = n.status().Cluster.Epoch == epoch // else the machine is so busy that the term ended, and the streams with it
	if led {
		select {
		case kind := <-stream:
			same(w, "what the stream tells of", "completed", kind)
		case <-time.After(10 * time.Second):
			w.Error("the stream does not go on")
		}
		same(w, "what is told to who waited since before", claim.EndCompleted, (<-waited).Outcome)
	}
	w.until(20*time.Second, "the finish in the Agent Task Log", func() bool { return len(w.work()) == 1 })
	n.mustClaim("Oracle", open)
}

// follow returns the kinds of the events from now on.
func (n *node) follow() (kinds <-chan string, stop func()) {
	n.w.Helper()
	ctx, cancel := context.WithCancel(n.w.Context())
	out, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		_, err := n.Events(ctx, api.EventsInput{After: api.EventsFuture}, true, func(e api.Event) error {
			out <- string(e.Kind)
			return nil
		})
		ended <- err
	}()
	time.Sleep(200 * time.Millisecond) // until the daemon has subscribed the reader
	return out, func() {
		select {
		case err := <-ended:
			n.w.Errorf("the stream has ended: %v", err)
		default:
		}
		cancel()
	}
}
