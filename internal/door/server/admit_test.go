package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/door/server"
	"dibs/internal/reserve"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// What decides the answer to a request reaches the broker: whose it is, and where it came in. Two
// users may use one key.
func TestWhatIsAskedArrives(t *testing.T) {
	for _, tt := range []struct{ method, path, body, want string }{
		{"GET", "/v1/claims?agent=Sandman", "", "ListClaims of &{Sandman}, at one, key  of -1"},
		{"GET", "/v1/reservations?agent=Sandman&targets=true", "", "Reservations of &{Sandman true}, at one, key  of -1"},
		{"POST", "/v1/reservations/check", `{"agent":"Sandman","targets":[{"path":"a.go","at":[{"in":"name:x","path":"a.go"}]}]}`, "Check of Sandman, at one, key k of -1"},
		{"POST", "/v1/agents/Sandman/poll", `{}`, "Poll of Sandman, at one, key k of -1"},
		{"POST", "/v1/messages", `{"from":"Sandman","to":"Oracle","text":"hi"}`, "Send of Sandman, at one, key k of -1"},
		{"POST", "/v1/tasks/" + string(taskID) + "/comments", `{"agent":"Sandman","text":"hi"}`, "Comment of Sandman, at one, key k of -1"},
	} {
		testkit.Bubble(t, tt.want, func(t *testing.T) {
			asked := ""
			f := &fixture{t: t, broker: newFake(t), keys: newMemory(t), pipe: server.NewPipe(), log: new(logBuffer)}
			f.broker.anyone = true
			f.broker.owing = func(what string, by caller, in any) error {
				switch i := in.(type) {
				case *api.CheckInput:
					in = i.Body.Agent
				case *api.PollInput:
					in = i.Name
				case *api.KeyedInput[api.MessageRequest]:
					in = i.Body.From
				case *api.TaskInput[api.CommentRequest]:
					in = i.Body.Agent
				}
				asked += fmt.Sprintf("%s of %v, at %s, key %s of %d", what, in, by.Member, by.Key, by.UID)
				return nil
			}
			f.server = server.New(server.Options{Broker: f.broker, Journal: f.keys, Version: "v1.2.3", Log: f.logger()})
			f.serveAt(server.NewFront(f.server, server.FrontOptions{Member: "one", Log: f.logger()}), f.pipe)
			var header []string
			if tt.method == "POST" {
				header = []string{"Idempotency-Key", "k"}
			}
			got := f.must(tt.method, tt.path, tt.body, header...)
			testkit.Check(t, got.status < 300 && asked == tt.want, "answered %d: %s; asked for %q", got.status, got.body, asked)
		})
	}
}

// operation is what the description says of one.
type operation struct {
	RequestBody struct {
		Content map[string]struct{ Schema *schema }
	}
}

// schema is a type, as the description has it.
type schema struct {
	Ref        string `json:"$ref"`
	Type       any
	Properties map[string]*schema
	Required   []string
	Items      *schema
}

// nobodysRow is a row of the table of what is done in nobody's name.
var nobodysRow = regexp.MustCompile("(?m)^\\| `([A-Z]+ /v1/[^`]*)` \\|([^|]*)\\|$")

// sandmans are triggers and reservations, all of them Sandman's.
type sandmans struct {
	broker.Inbox
	broker.Reservations
}

func (sandmans) TriggerAgents(context.Context, []string) (map[string]string, error) {
	return map[string]string{"x": "Sandman"}, nil
}

func (sandmans) Find(context.Context, string) (reserve.Reservation, error) {
	return reserve.Reservation{Agent: "Sandman"}, nil
}

// Every operation that changes something demands an agent's name that the caller may use, or
// stands in the table of docs/threats.md; where that says that it is signed, the broker is
// told which user it was (TestSigned of package broker shows that it signs). It goes through all
// operations that there are.
func TestWhateverIsDoneInNobodysNameIsSigned(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the kernel does not say who calls")
	}
	me := testkit.Got(user.Current())(t)
	signature := task.UserSignature(me.Username)
	threats := testkit.Got(os.ReadFile("../../../docs/threats.md"))(t)
	rows := make(map[string]string)
	for _, row := range nobodysRow.FindAllStringSubmatch(string(threats), -1) {
		rows[row[1]] = row[2]
	}

	path := socketPath(t)
	f := start(t)
	f.serve(listen(t, path))
	f.broker.Broker = broker.New(broker.Config{
		Clock: testkit.Clock{}, Log: slog.New(slog.DiscardHandler),
		Agents: []broker.Agent{{Name: "somebody else"}}, Inbox: broker.InboxConfig{Inbox: sandmans{}}, Reserved: sandmans{},
	})
	var acted, signed bool
	f.broker.owing = func(_ string, who caller, _ any) error {
		acted, signed = true, who.User == signature
		return nil
	}
	f.broker.sweep = func(_ context.Context, who broker.Caller) (api.Sweep, error) {
		return api.Sweep{}, f.broker.owing("sweep", who, nil)
	}
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]*schema }
	}
	testkit.Must(t, json.Unmarshal([]byte(f.must("GET", "/openapi.json", "").body), &doc))
	var least func(s *schema) any
	least = func(s *schema) any {
		if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
			s = doc.Components.Schemas[name]
		}
		switch {
		case s.Properties != nil:
			made := make(map[string]any)
			for _, name := range s.Required {
				made[name] = least(s.Properties[name])
			}
			return made
		case s.Items != nil:
			return []any{least(s.Items)}
		}
		return "x"
	}
	var seen []string
	for address, methods := range doc.Paths {
		for method, op := range methods {
			if method == "get" {
				continue
			}
			name := strings.ToUpper(method) + " " + address
			seen = append(seen, name)
			about := string(taskID)
			if strings.HasPrefix(address, "/v1/claims/") {
				about = string(claimID)
			}
			body := ""
			if content, ok := op.RequestBody.Content["application/json"]; ok {
				data := testkit.Got(json.Marshal(least(content.Schema)))(t)
				body = string(data)
			}
			acted, signed = false, false
			got := testkit.Got(exchange(t.Context(), dialer(path), strings.ToUpper(method), strings.NewReplacer("{id}", about, "{name}", "Sandman").Replace(address), body))(t)
			row, listed := rows[name]
			switch {
			case !acted && problemIn(t, got).Code == api.CodeForbiddenAgent:
				testkit.Check(t, !listed, "%s demands an agent's name, and stands in the table of what is done in nobody's", name)
			case !acted:
				t.Errorf("%s %s was answered %d %s: it is to be seen whether it demands an agent's name", name, body, got.status, got.body)
			case !listed:
				t.Errorf("%s is done in nobody's name and does not stand in the table of docs/threats.md: have it demand an agent's name, or sign it (see signature), and say so there", name)
			case strings.Contains(row, "signed") && !signed:
				t.Errorf("%s: signed is %v, and docs/threats.md says:%s", name, signed, row)
			}
		}
	}
	for name := range rows {
		testkit.Check(t, slices.Contains(seen, name), "docs/threats.md speaks of %s, which there is not", name)
	}
}

// What a user may ask for without end is bounded, all together: so many at once, then one
// every so often. The refusal says when to go on, and is not remembered under the key. Every
// operation that writes says what meters it.
func TestOwingIsBounded(t *testing.T) {
	requests := []struct{ path, body string }{
		{"/v1/messages", `{"from":"Sandman","to":"Oracle","text":"hello"}`},
		{"/v1/messages", `{"to":"all","text":"hello"}`},
		{"/v1/tasks", `{"title":"Write"}`},
		{"/v1/tasks/" + string(taskID) + "/comments", `{"agent":"Sandman","text":"hello"}`},
		{"/v1/tasks/" + string(taskID) + "/offer", `{"agent":"Sandman","to":"Oracle"}`},
		{"/v1/tasks/" + string(taskID) + "/decline", `{"agent":"Sandman"}`},
		{"/v1/tasks/" + string(taskID) + "/reopen", `{}`},
		{"/v1/reopen", `{"failed_by":"Sandman"}`},
		{"/v1/pause", `{"agent":"Sandman"}`},
	}
	asks := []*api.Operation{api.OpCheck.Operation} // which is no GET, and writes nothing
	for _, op := range api.Operations() {
		if writes := (op.Method != http.MethodGet || op.Changes) && !slices.Contains(asks, op); writes != (op.Meter != "") {
			t.Errorf("%s: that it writes is %v, and what meters it is %q", op.Pattern(), writes, op.Meter)
		}
		asked := slices.ContainsFunc(requests, func(r struct{ path, body string }) bool {
			return api.OperationOf(httptest.NewRequest(http.MethodPost, r.path, nil)) == op
		})
		if metered := op.Meter == api.ByQuota; metered != asked {
			t.Errorf("%s is metered by the user's quota: %v, and asked for here: %v", op.Pattern(), metered, asked)
		}
	}
	served(t, "bounds", func(t *testing.T, f *fixture) {
		done := 0
		f.broker.owing = func(string, caller, any) error {
			done++
			return nil
		}
		for i := range 200 {
			r := requests[i%len(requests)]
			got := f.must("POST", r.path, r.body)
			testkit.Require(t, got.status < 300, "%d, %s: answered %d %s", i, r.path, got.status, got.body)
		}
		for i, r := range requests {
			key := fmt.Sprint("key", i)
			got := f.must("POST", r.path, r.body, api.KeyHeader, key)
			p := problemIn(t, got)
			if got.status != 429 || p.Code != api.Code(claim.CodeLimitReached) || p.RetryAfter != 2 || got.header.Get("Retry-After") != "2" {
				t.Errorf("%s: answered %d %v %s", r.path, got.status, got.header, got.body)
			}
			testkit.Require(t, done == 200+i, "%s: %d were done, want %d", r.path, done, 200+i)
			time.Sleep(time.Duration(p.RetryAfter) * time.Second)
			if got := f.must("POST", r.path, r.body, api.KeyHeader, key); got.status >= 300 {
				t.Errorf("%s, after the wait: answered %d %s", r.path, got.status, got.body)
			}
		}
		// An answer that was given is given again at any time, and counts for nothing.
		got := f.must("POST", requests[0].path, requests[0].body, api.KeyHeader, "key0")
		testkit.Check(t, got.header.Get(api.ReplayedHeader) == "true", "a repetition was answered %d %s", got.status, got.body)
		// Nothing else is held up.
		if got := f.must("POST", "/v1/claims/"+string(claimID)+"/release", ""); got.status >= 300 {
			t.Errorf("a release was answered %d %s", got.status, got.body)
		}
	})
}
