package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/testkit"

	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "write testdata/golden anew")

// TestGolden requests every operation, with success and with a refusal, and compares the answers
// and the description with testdata/golden. Users can see a difference; after an intended one, run
//
//	go test ./internal/daemon -run TestGolden -update
func TestGolden(t *testing.T) {
	testkit.RacedElsewhere(t)
	inWorld(t, 0, func(w *world) {
		mustDo(w, w.notion.AddOption(w.tasks, "status", "REVIEW"))
		g := &golden{node: w.daemon(func(c *config.Config) {
			c.Tasks.Statuses.Review = "REVIEW"
			c.Agents = []config.Agent{{Name: "*"}, {Name: "Root", UIDs: []int{0}}}
		}), requested: make(map[string]bool), names: make(map[string]string)}
		g.story()
		for _, op := range api.Operations() {
			if !g.requested[op.Name] {
				t.Errorf("the record lacks %s", op.Name)
			}
		}
		g.compare("answers.txt", g.record.String())
		var description map[string]any
		mustDo(w, json.Unmarshal([]byte(g.get("/openapi.json")), &description))
		g.validate(description)
		sorted, err := json.MarshalIndent(description, "", "\t")
		mustDo(w, err)
		g.compare("openapi.json", string(sorted)+"\n")
		var metrics []string
		for line := range strings.Lines(g.get("/metrics")) {
			if strings.HasPrefix(line, "# HELP dibs_") {
				metrics = append(metrics, line)
			}
		}
		g.compare("metrics.txt", strings.Join(metrics, ""))
	})
}

// golden records a daemon's answers.
type golden struct {
	*node
	record    bytes.Buffer
	given     []given
	requested map[string]bool   // the requested operations
	names     map[string]string // placeholders for values that differ each time
}

// story requests everything.
func (g *golden) story() {
	w := g.w
	first := g.add("Fix the login", map[string]any{"priority": option("select", "high")})
	second := g.add("Write the docs", map[string]any{"depends_on": relation(first)})
	third := g.add("Ship it", nil)
	fourth := g.add("Held by a person", map[string]any{"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Maria"), "claimed_at": date(time.Now())})
	gone := g.add("Stale", map[string]any{"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Ghost"), "claimed_at": date(time.Now().Add(-5 * time.Hour))})
	key := func(k string) []string { return []string{api.KeyHeader, k} }
	g.ask("POST", "/v1/sync", `{"full":true}`)
	g.ask("GET", "/v1/status", "")
	g.ask("GET", "/v1/tasks", "")
	g.ask("GET", "/v1/tasks?ready=true&why=true&agent=Sandman&priority=high", "")
	g.ask("GET", "/v1/tasks?status=opn", "")
	g.ask("GET", "/v1/tasks/"+second, "")
	g.ask("GET", "/v1/tasks/nonsense", "")
	g.ask("GET", "/v1/tasks/00000000-0000-0000-0000-000000000000", "")
	g.ask("GET", "/v1/tasks/"+first+"/content", "")
	time.Sleep(10 * time.Second) // until the sweep is over

	g.ask("POST", "/v1/claims", `{"agent":"Sandman"}`, key("one")...)
	g.ask("POST", "/v1/claims", `{"agent":"Sandman"}`, key("one")...)
	g.ask("POST", "/v1/claims", `{"agent":"Oracle"}`, key("one")...)
	g.ask("POST", "/v1/claims", `{"agent":"Oracle","task":"`+first+`"}`)
	g.ask("POST", "/v1/claims", `{"agent":"Oracle","task":"`+second+`"}`)
	g.ask("POST", "/v1/claims", `{"agent":"Oracle","task":"`+fourth+`"}`)
	g.ask("POST", "/v1/claims", `{"agent":"Sandman","task":"`+third+`"}`)
	g.ask("POST", "/v1/claims", `{"agent":"Root"}`)
	g.ask("POST", "/v1/claims", `{"agent":"Oracle","text":"nothing like it"}`)
	g.ask("POST", "/v1/claims", `{"agent":"Oracle","where":["Nowhere=1"]}`)
	g.ask("POST", "/v1/claims", `{"agnet":"Oracle"}`)
	g.ask("POST", "/v1/claims", `{"agent":"Oracle"}`, "Content-Type", "text/plain")
	g.ask("GET", "/v1/claims", "")
	g.ask("GET", "/v1/claims?agent=Nobody", "")
	g.ask("GET", "/v1/claims/mine?agent=Sandman", "")
	g.ask("GET", "/v1/claims/mine?agent=Nobody", "")
	g.ask("GET", "/v1/claims/"+first+"?agent=Oracle", "")
	g.ask("GET", "/v1/claims/"+first+"?agent=Sandman&wait=1s", "")
	time.Sleep(time.Minute)
	g.ask("POST", "/v1/claims/"+third+"/release", `{"agent":"Sandman"}`)
	g.ask("POST", "/v1/claims/mine/renew", `{"agent":"Sandman"}`)
	g.ask("POST", "/v1/claims/mine/renew", `{"agent":"Nobody"}`)
	g.ask("POST", "/v1/claims/"+first+"/complete", `{"agent":"Oracle"}`)
	g.ask("POST", "/v1/claims/mine/complete", `{"agent":"Sandman","summary":"it works"}`, key("two")...)
	g.ask("POST", "/v1/claims/mine/complete", `{"agent":"Sandman","summary":"it works"}`, key("two")...)
	for _, end := range []struct{ how, body string }{
		{"release", `{"agent":"Sandman","reason":"later"}`},
		{"block", `{"agent":"Sandman","reason":"no key"}`},
		{"fail", `{"agent":"Sandman","reason":"tests","reopen":true}`},
		{"review", `{"agent":"Sandman","note":"look"}`},
		{"ask", `{"agent":"Sandman","text":"which one?"}`},
	} {
		time.Sleep(time.Minute)
		g.ask("POST", "/v1/claims", `{"agent":"Sandman","task":"`+second+`"}`)
		g.ask("POST", "/v1/claims/"+second+"/"+end.how, end.body)
		time.Sleep(time.Minute)
		g.ask("POST", "/v1/tasks/"+second+"/reopen", `{"note":"again"}`)
	}
	g.ask("POST", "/v1/tasks/"+second+"/reopen", `{"was":"COMPLETED"}`)
	g.ask("POST", "/v1/claims", `{"agent":"Sandman","task":"`+second+`"}`)
	g.ask("POST", "/v1/claims/"+second+"/fail", `{"agent":"Sandman","reason":"tests"}`)
	g.ask("POST", "/v1/reopen", `{"failed_by":"Sandman","dry_run":true}`)
	g.ask("POST", "/v1/reopen", `{"failed_by":"S*","since":"2000-01-01T00:00:00Z","note":"again"}`)
	g.ask("POST", "/v1/reopen", `{"agent":"Root","failed_by":"Sandman"}`)
	g.ask("POST", "/v1/reopen", `{}`)

	g.ask("POST", "/v1/tasks", `{"agent":"Sandman","title":"Made","priority":"low"}`, key("three")...)
	g.ask("POST", "/v1/tasks", `{"agent":"Sandman","title":"Made","priority":"low"}`, key("three")...)
	g.ask("POST", "/v1/tasks", `{"title":"Made by nobody","for":"Oracle","depends_on":["`+third+`"]}`)
	g.ask("POST", "/v1/tasks", `{"title":"Never made","priority":"pressing"}`)
	g.ask("POST", "/v1/tasks", `{"title":" "}`)
	g.ask("POST", "/v1/tasks/"+third+"/comments", `{"agent":"Sandman","text":"hello"}`)
	g.ask("POST", "/v1/tasks/"+third+"/comments", `{"agent":"Sandman","text":"hello","mention":"No One"}`)
	g.ask("GET", "/v1/tasks/"+third+"/content", "")
	for _, answer := range []string{"accept", "decline"} {
		g.ask("POST", "/v1/tasks/"+third+"/offer", `{"agent":"Sandman","to":"Oracle","text":"yours?"}`)
		g.ask("GET", "/v1/tasks/"+third, "")
		g.ask("POST", "/v1/tasks/"+third+"/"+answer, `{"agent":"Oracle"}`)
		g.ask("POST", "/v1/claims/"+third+"/release", `{"agent":"Oracle"}`)
	}
	g.ask("POST", "/v1/tasks/"+third+"/decline", `{"agent":"Nobody"}`)

	g.ask("POST", "/v1/messages", `{"from":"Sandman","to":"Oracle","text":"hello"}`)
	g.ask("POST", "/v1/messages", `{"to":"all","text":"hello, all"}`)
	g.ask("POST", "/v1/messages", `{"to":"Oracle","text":" "}`)
	g.ask("POST", "/v1/agents/Oracle/poll", `{"limit":1}`)
	g.ask("POST", "/v1/agents/Oracle/poll", ``, key("four")...)
	g.ask("POST", "/v1/agents/Oracle/poll", ``, key("four")...)
	g.ask("POST", "/v1/agents/Oracle/ack", `{"ids":["`+g.last(`"id": "([^"]+)"`)+`","x"]}`)
	g.ask("POST", "/v1/ack", `{"ids":["x"]}`)
	g.ask("POST", "/v1/agents", `{"session":"s"}`)
	g.ask("POST", "/v1/agents", `{"session":"s"}`)
	g.ask("GET", "/v1/agents/auto?session=s", "")
	g.ask("GET", "/v1/agents/auto?session=t", "")
	g.ask("GET", "/v1/agents/Sandman", "")
	g.ask("GET", "/v1/agents/Root", "")
	g.ask("GET", "/v1/agents?days=1", "")
	g.ask("GET", "/v1/agents?days=0", "")

	reserve := `"targets":[{"pattern":"name:db","at":[{"in":"names","path":"db"}]}]`
	g.ask("POST", "/v1/reservations", `{"agent":"Sandman",`+reserve+`}`)
	id := g.last(`"id": "([^"]+)"`)
	g.ask("POST", "/v1/reservations", `{"agent":"Oracle",`+reserve+`}`)
	g.ask("GET", "/v1/reservations?targets=true", "")
	g.ask("POST", "/v1/reservations/check", `{"agent":"Oracle","targets":[{"path":"name:db","at":[{"in":"names","path":"db"}]}]}`)
	g.ask("POST", "/v1/reservations/check", `{"agent":"Sandman","targets":[{"path":"name:db","at":[{"in":"names","path":"db"}]}]}`)
	g.ask("DELETE", "/v1/reservations/"+id+"?agent=Oracle", "")
	g.ask("DELETE", "/v1/reservations/"+id, "")
	g.ask("DELETE", "/v1/reservations/"+id, "")

	g.ask("POST", "/v1/pause", `{"agent":"Oracle","for_seconds":3600,"reason":"too eager","by":"Maria"}`)
	g.ask("POST", "/v1/claims", `{"agent":"Oracle"}`)
	g.ask("GET", "/v1/agents/Oracle", "")
	g.ask("POST", "/v1/resume", `{"agent":"Oracle"}`)
	g.ask("POST", "/v1/resume", "")
	g.ask("POST", "/v1/sweep", `{"note":"by Maria"}`)
	g.ask("GET", "/v1/tasks/"+gone, "")
	g.ask("GET", "/v1/cluster", "")
	g.ask("POST", "/v1/cluster/adopt", "")
	g.ask("GET", "/v1/webhook", "")
	g.ask("POST", "/v1/webhook/renew", "")
	g.ask("GET", "/v1/access", "")
	g.ask("POST", "/v1/tokens", `{"agent":"Oracle"}`)
	g.ask("GET", "/v1/tokens", "")
	g.ask("DELETE", "/v1/tokens/x", "")
	g.ask("POST", "/v1/claims", `{"agent":"Oracle","task":"`+third+`"}`)
	w.edit(third, map[string]any{"claimed_by": text("rich_text", ""), "status": option("status", "CANCELLED")})
	g.ask("POST", "/v1/sync", ``)
	g.ask("POST", "/v1/claims/mine/complete", `{"agent":"Oracle"}`)
	g.ask("POST", "/v1/agents/Oracle/poll", ``)
	g.ask("POST", "/v1/claims", `{"agent":"Oracle"}`)
	g.ask("GET", "/v1/claims/mine/alive?agent=Oracle&grace=1s", "")
	time.Sleep(10 * time.Minute)
	g.ask("GET", "/v1/events?after=0&follow=false", "")
	g.ask("GET", "/v1/log?limit=200", "")
	g.ask("GET", "/v1/story/"+third, "")
	g.ask("GET", "/v1/report", "")
	g.ask("GET", "/v1/nowhere", "")
	g.ask("PUT", "/v1/claims", "")
	g.ask("GET", "/v1/status", "", "Host", "evil.example")
	g.ask("GET", "/v1/status", "")
}

// add adds a task to the board. The daemon sees one at a time, so that their order is fixed.
func (g *golden) add(title string, props map[string]any) string {
	id := g.w.add(title, props)
	time.Sleep(time.Minute - time.Second) // sweeps run at full minutes, and the story between them
	g.sync()
	return id
}

// ask sends a request and records the answer. It reads a stream for a while only.
func (g *golden) ask(method, path, body string, header ...string) {
	g.w.Helper()
	ctx, cancel := context.WithTimeout(g.w.Context(), 2*time.Second)
	defer cancel()
	if !strings.Contains(path, "/alive") {
		ctx = g.w.Context()
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://dibs"+path, strings.NewReader(body))
	mustDo(g.w, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	g.requested[api.OperationOf(r).Name] = true
	resp, err := over(g.dial).Do(r)
	mustDo(g.w, err)
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body) // the part of the stream that was read
	g.given = append(g.given, given{method + " " + path, api.OperationOf(r), resp, string(answer)})
	synctest.Wait() // what the daemon does because of it is over before the next one
	var pretty bytes.Buffer
	if json.Indent(&pretty, answer, "", "  ") == nil {
		answer = pretty.Bytes()
	}
	fmt.Fprintf(&g.record, "> %s %s %s\n", method, path, body)
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&g.record, "> %s: %s\n", header[i], header[i+1])
	}
	resp.Header.Del("Date")
	resp.Header.Del("Content-Length")
	fmt.Fprintf(&g.record, "< %d\n", resp.StatusCode)
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		fmt.Fprintf(&g.record, "< %s: %s\n", name, strings.Join(resp.Header[name], ", "))
	}
	fmt.Fprintf(&g.record, "%s\n\n", strings.TrimSpace(string(answer)))
}

// last returns the last match in the answers.
func (g *golden) last(pattern string) string {
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(g.record.String(), -1)
	if len(found) == 0 {
		g.w.Fatalf("the record has no %s", pattern)
	}
	return found[len(found)-1][1]
}

// random matches what differs each time: ids, minted names, folders, and times, which depend on the
// duration of attempts.
var random = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T[\d:.]+Z|\d{4}-\d{2}-\d{2}T[\d:.]+\+00:00|[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b|\bagent-[0-9A-Z]{4}\b|"(?:pid|state_dir|uid|clock_skew_ms|fence|age_seconds|requests|retry_after|(?:wait|work)_seconds_p\d+|median_seconds|p\d+_ms|count|seconds)": ?(?:\[[^]]*\]|[^,\n]+)|"held": 0\.\d+`)

// compare compares the record with the golden file, or writes the file.
func (g *golden) compare(file, record string) {
	g.w.Helper()
	record = random.ReplaceAllStringFunc(record, func(s string) string {
		switch key, _, ok := strings.Cut(s, `":`); {
		case ok:
			return key + `": …`
		case strings.Contains(s, "T") && strings.Contains(s, ":"):
			return "‹time›"
		}
		s = strings.ReplaceAll(s, "-", "")
		if g.names[s] == "" {
			g.names[s] = fmt.Sprintf("‹%d›", len(g.names)+1)
		}
		return g.names[s]
	})
	file = "testdata/golden/" + file
	if *update {
		mustDo(g.w, os.WriteFile(file, []byte(record), 0o644))
	}
	want, err := os.ReadFile(file)
	mustDo(g.w, err)
	same(g.w, file, strings.Split(string(want), "\n"), strings.Split(record, "\n"))
}

// given is an answer.
type given struct {
	request string
	op      *api.Operation
	*http.Response
	body string
}

// described is what the description says of the answers.
type described struct {
	Paths map[string]map[string]struct {
		Parameters []struct{ Name, In string }
		Responses  map[string]struct {
			Content map[string]struct{ Schema map[string]any }
		}
	}
	Components struct{ Schemas map[string]any }
}

// validate compares the answers that were given with the description: their status, their type and
// their content. Every operation must have succeeded once, but those of the daemon's user and of
// access tokens, which the tests are not. Whatever a query says, a question fails with no status above 500.
func (g *golden) validate(description map[string]any) {
	g.w.Helper()
	text, err := json.Marshal(description)
	mustDo(g.w, err)
	var d described
	mustDo(g.w, json.Unmarshal([]byte(strings.ReplaceAll(string(text), "#/components/schemas/", "#/$defs/")), &d))
	succeeded := make(map[*api.Operation]bool)
	for _, a := range g.given {
		if a.op.Name == "" {
			continue // there is no such operation
		}
		if err := d.check(a); err != nil {
			g.w.Errorf("%s: answered %d %s, which the description does not allow: %v", a.request, a.StatusCode, a.body, err)
		}
		succeeded[a.op] = succeeded[a.op] || a.StatusCode < 300
	}
	for _, op := range api.Operations() {
		if !succeeded[op] && op.Meter != api.ByOwner && !slices.Contains([]*api.Operation{api.OpWebhook.Operation, api.OpTokens.Operation, api.OpAccess.Operation}, op) {
			g.w.Errorf("%s never succeeded, so that its answer was not seen", op.Pattern())
		}
		for _, p := range d.Paths[op.Path][strings.ToLower(op.Method)].Parameters {
			if p.In != "query" {
				continue
			}
			path := strings.NewReplacer("{id}", "zz", "{name}", "Sandman").Replace(op.Path) + "?follow=false&" + p.Name + "=zz"
			if op != api.OpEvents.Operation {
				path = strings.Replace(path, "follow=false&", "", 1)
			}
			if got := g.request(op.Method, path, "", ""); got.status >= http.StatusInternalServerError {
				g.w.Errorf("%s %s: answered %d %s", op.Method, path, got.status, got.body)
			}
		}
	}
}

// check returns what is wrong with an answer.
func (d described) check(a given) error {
	responses := d.Paths[a.op.Path][strings.ToLower(a.op.Method)].Responses
	r, known := responses[fmt.Sprint(a.StatusCode)]
	if !known && a.StatusCode >= http.StatusBadRequest {
		r, known = responses["default"]
	}
	media, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	content, typed := r.Content[media]
	if !known || !typed {
		return fmt.Errorf("it has no answer %d of the type %s", a.StatusCode, media)
	}
	root := maps.Clone(content.Schema)
	root["$defs"] = d.Components.Schemas
	data, err := json.Marshal(root)
	var schema jsonschema.Schema
	var rules *jsonschema.Resolved
	if err == nil {
		err = json.Unmarshal(data, &schema)
	}
	if err == nil {
		rules, err = schema.Resolve(nil)
	}
	if err != nil {
		return err
	}
	documents := []string{a.body}
	if media == api.EventStream {
		documents = nil
		for line := range strings.Lines(a.body) {
			if document, ok := strings.CutPrefix(line, "data: "); ok {
				documents = append(documents, document)
			}
		}
	}
	for _, document := range documents {
		var v any
		if err := json.Unmarshal([]byte(document), &v); err != nil {
			return err
		}
		if err := rules.Validate(v); err != nil {
			return err
		}
	}
	return nil
}
