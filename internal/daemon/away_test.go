package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
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
	notion, err := emulator.New(emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer notion.Close()
	dbs, err := notion.Seed("empty")
	if err != nil {
		t.Fatal(err)
	}
	test(&world{T: t, notion: notion, tasks: dbs.Tasks})
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
	web := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx) },
		DisableKeepAlives: true,
	}}
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(n.w.Context(), method, "http://dibs"+path, content)
	if err != nil {
		n.w.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set(api.KeyHeader, key)
	}
	begun := time.Now()
	resp, err := web.Do(req)
	if err != nil {
		n.w.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := io.Copy(&text, resp.Body); err != nil {
		n.w.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{resp.StatusCode, resp.Header, text.String(), time.Since(begun)}
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
	if err := json.Unmarshal([]byte(n.get("/openapi.json")), &described); err != nil {
		n.w.Fatal(err)
	}
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
	open := w.add("open", nil)
	taken := w.add("held", nil)
	offered := w.add("offered", nil)
	blocked := w.add("blocked", nil)
	mine := w.add("mine", nil)
	n := w.daemon(sharing(s, "a"))
	defer n.stop()
	n.leads()
	ctx := w.Context()
	held := n.mustClaim("Sandman", taken)
	if cl := n.mustClaim("Sandman", blocked); cl.ID != "" {
		if _, err := client.Do(ctx, n.Client, api.OpBlock, api.On(string(cl.ID), "", api.BlockRequest{Agent: "Sandman", Reason: "no"})); err != nil {
			w.Fatal(err)
		}
	}
	if _, err := client.Do(ctx, n.Client, api.OpOffer, api.OnTask(task.ID(offered), "", api.OfferRequest{Agent: "Sandman", To: "Oracle"})); err != nil {
		w.Fatal(err)
	}
	only := n.mustClaim("Trinity", mine)
	files, err := n.Reserve(ctx, w.TempDir(), []string{"*.go"}, api.ReserveRequest{Agent: "Sandman"}, "")
	if err != nil {
		w.Fatal(err)
	}
	if _, err := client.Do(ctx, n.Client, api.OpSend, api.Keyed("", api.MessageRequest{From: "Sandman", To: "Oracle", Text: "hello"})); err != nil {
		w.Fatal(err)
	}
	reserved, _ := json.Marshal(map[string]any{"agent": "Oracle", "targets": []any{map[string]any{
		"pattern": "name:db", "at": []any{map[string]any{"in": "names", "path": "/db"}},
	}}})

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
		"POST /v1/reservations":         {"/v1/reservations", string(reserved)},
		"DELETE /v1/reservations/{id}":  {"/v1/reservations/" + files.ID, ""},
		"POST /v1/sync":                 {"/v1/sync", `{}`},
		"POST /v1/pause":                {"/v1/pause", `{}`},
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
	}
	for _, op := range n.operations() {
		if _, asked := questions[op]; !asked && refused[op] == nil && !more[op] {
			w.Errorf("say what becomes of %s while the database is away", op)
		}
	}
	refused["GET /v1/claims/mine"] = []string{"/v1/claims/mine?agent=Trinity", ""}
	refused["GET /v1/claims/{id}?wait"] = []string{"/v1/claims/" + string(held.ID) + "?wait=1m", "", "/v1/claims/" + string(held.ID) + "?wait=1m&after=0", ""}
	questions["GET /metrics"] = [2]string{"/metrics", "dibs_claims"}

	time.Sleep(100 * time.Millisecond)
	waited := make(chan api.Claim, 1)
	go func() {
		c, _ := client.Do(ctx, n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(only.ID), Agent: "Trinity", After: api.EventsFuture, Wait: time.Minute.String()})
		waited <- c
	}()
	stream, stop := n.follow()
	epoch, led := n.status().Cluster.Epoch, true
	for _, q := range questions {
		if got := n.request("GET", q[0], "", ""); got.status != 200 || !strings.Contains(got.body, q[1]) {
			w.Errorf("with a database %s: %d, want %s in %s", q[0], got.status, q[1], got.body)
		}
	}
	pages := func() (all []string) {
		for _, p := range w.notion.Pages(w.tasks) {
			all = append(all, p.Title()+" "+shape(p))
		}
		slices.Sort(all)
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
		for i := 0; i < len(examples); i += 2 {
			path, body := examples[i], examples[i+1]
			n.unsaved(method+" "+path+" "+body, n.request(method, path, body, ""))
			if method == "POST" {
				n.unsaved(method+" "+path+" "+body+" with a key", n.request(method, path, body, "key of "+path+body))
			}
		}
	}
	n.unsaved("keeping a claim alive", n.request("GET", "/v1/claims/"+string(held.ID)+"/alive", "", ""))
	n.unsaved("the finish", n.request("POST", "/v1/claims/"+string(only.ID)+"/complete", `{"agent":"Trinity","summary":"once"}`, "K"))
	for what, q := range questions {
		got := n.request("GET", q[0], "", "")
		if got.status != 200 || !strings.Contains(got.body, q[1]) {
			w.Errorf("%s while the database is away: %d %s, want %s", what, got.status, got.body, q[1])
		}
		if got.took > 3*time.Second {
			w.Errorf("%s while the database is away: it took %v", what, got.took)
		}
	}
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) { // on a busy machine it comes late
		s := n.status()
		if strings.Contains(strings.Join(s.Warnings, "\n"), "nothing is accepted") && s.Outbox.Unknown() {
			break
		}
		if time.Since(begun) > 10*time.Second {
			w.Errorf("the status warns %q, outbox %+v", s.Warnings, s.Outbox)
			break
		}
	}
	defer func() {
		if led {
			stop()
		}
	}()
	if after := pages(); !slices.Equal(before, after) {
		w.Errorf("the board shows\n%q\nwant\n%q", after, before)
	}

	mustDo(w, back())
	isAway = false
	var got reply
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		got = n.request("POST", "/v1/claims/"+string(only.ID)+"/complete", `{"agent":"Trinity","summary":"once"}`, "K")
		if got.status == 200 || time.Since(begun) > 10*time.Second {
			break
		}
	}
	if got.status != 200 || !strings.Contains(got.body, `"completed"`) {
		w.Fatalf("the finish, once the database is back: %d %s", got.status, got.body)
	}
	if again := n.request("POST", "/v1/claims/"+string(only.ID)+"/complete", `{"agent":"Trinity","summary":"once"}`, "K"); again.body != got.body {
		w.Errorf("the finish once more: %s, want %s", again.body, got.body)
	}
	led = n.status().Cluster.Epoch == epoch // else the machine is so busy that the term ended, and the streams with it
	if led {
		select {
		case kind := <-stream:
			if kind != "completed" {
				w.Errorf("the stream tells of %s, want completed", kind)
			}
		case <-time.After(10 * time.Second):
			w.Error("the stream does not go on")
		}
		if c := <-waited; c.Outcome != claim.EndCompleted {
			w.Errorf("who waited since before was told of %+v, want completed", c)
		}
	}
	for begun := time.Now(); len(w.work()) == 0 && time.Since(begun) < 20*time.Second; {
		time.Sleep(100 * time.Millisecond)
	}
	if got := w.work(); len(got) != 1 {
		w.Errorf("Agent Task Log: %q, want the one that was finished", got)
	}
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
