package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/door/access"
	"dibs/internal/door/server"
	"dibs/internal/kit/selfsigned"
	"dibs/internal/testkit"
)

// texts is an access.Storage.
type texts map[string]string

func (m texts) Meta(_ context.Context, key string) (string, error) { return m[key], nil }
func (m texts) SetMeta(_ context.Context, key, value string) error { m[key] = value; return nil }

// abroad is a server that callers of other machines reach.
type abroad struct {
	*fixture
	tokens *access.Tokens
	remote *server.Remote
	mcp    http.HandlerFunc
}

// reach serves callers of other machines until the test ends. They connect to the pipe over TLS, and
// with remote.Dial without it.
func reach(t *testing.T) *abroad {
	t.Helper()
	a := &abroad{fixture: &fixture{t: t, broker: newFake(t), keys: newMemory(t), pipe: server.NewPipe(), log: new(logBuffer)}}
	store := make(texts)
	a.tokens = testkit.Got(access.New(t.Context(), access.Config{
		Storage: store, Fingerprint: func(ctx context.Context) (string, error) { return access.Make(ctx, store) }, Log: a.logger(),
	}))(t)
	a.server = server.New(server.Options{Broker: a.broker, Journal: a.keys, Version: "v1.2.3", Log: a.logger(), Metrics: a, Access: a.tokens})
	a.remote = server.NewRemote(a.server, server.RemoteOptions{
		Certificate: access.Own(store.Meta).Get, Log: a.logger(),
		MCP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.mcp(w, r) }),
	})
	a.serveAt(a.remote, a.pipe)
	return a
}

// token makes an access token.
func (a *abroad) token(pattern string, seconds float64) string {
	a.t.Helper()
	made := testkit.Got(a.tokens.NewToken(a.t.Context(), api.TokenRequest{Agent: pattern, ForSeconds: seconds}))(a.t)
	return made.Token
}

// as asks with a token, "" for none.
func (a *abroad) as(token, method, path, body string) answer {
	a.t.Helper()
	header := []string{}
	if token != "" {
		header = []string{api.BearerHeader, "Bearer " + token}
	}
	return testkit.Got(exchange(a.t.Context(), a.remote.Dial, method, path, body, header...))(a.t)
}

// TestWhoMayActFromElsewhere has every operation asked for under every kind of token: the one of the
// name that it is for, another name's, a pattern's that covers it, none, an unknown, a forged, an
// expired and a revoked one. docs/threats.md names the operations that no token may use.
func TestWhoMayActFromElsewhere(t *testing.T) {
	threats := string(testkit.Got(os.ReadFile("../../../docs/threats.md"))(t))
	synctest.Test(t, func(t *testing.T) {
		a := reach(t)
		a.broker.Broker = broker.New(broker.Config{
			Clock: testkit.Clock{}, Log: slog.New(slog.DiscardHandler),
			Agents: []broker.Agent{{Name: "Sandman", UIDs: []int{12345}}, {Name: "Oracle"}}, Inbox: broker.InboxConfig{Inbox: sandmans{}}, Reserved: sandmans{},
		})
		var uid int
		a.broker.owing = func(_ string, who caller, _ any) error {
			uid = who.UID
			return nil
		}
		a.broker.sweep = func(_ context.Context, who broker.Caller) (api.Sweep, error) { return api.Sweep{}, nil }
		a.broker.tasks = func(api.ListTasksInput) (api.Tasks, error) { return api.Tasks{}, nil }
		a.broker.watch = func(api.GetClaimInput) (api.Claim, error) { return held(), nil }
		a.broker.events = func(context.Context, api.EventsInput, time.Duration) ([]api.Event, int64, error) {
			return nil, 0, broker.ErrStopping
		}
		own, other, some := a.token("Sandman", 0), a.token("Oracle", 0), a.token("S*n", 0)
		expired, revoked := a.token("Sandman", 60), a.token("Sandman", 0)
		id, _ := api.ParseAccessToken(revoked)
		testkit.Got(a.tokens.Revoke(t.Context(), id.ID))(t)
		time.Sleep(time.Minute)
		known, _ := api.ParseAccessToken(own)
		known.Secret = id.Secret
		bodies := local(a).bodies("Sandman")

		inNobodys := []string{"POST /v1/messages", "POST /v1/tasks", "POST /v1/tasks/{id}/comments", "POST /v1/tasks/{id}/reopen", "POST /v1/reopen"}
		unnamed := append(slices.Clone(inNobodys), "POST /v1/agents", "POST /v1/reservations/check")
		var closed []string
		for _, op := range api.Operations() {
			name, about := op.Pattern(), string(taskID)
			if op.Local {
				closed = append(closed, strings.Split(op.Path, "/")[2])
			}
			if strings.HasPrefix(op.Path, "/v1/claims/") || strings.HasPrefix(op.Path, "/v1/story") {
				about = string(claimID)
			}
			path := strings.NewReplacer("{id}", about, "{name}", "Sandman").Replace(op.Path)
			reads := op.Method == "GET" && !op.Changes
			for who, token := range map[string]string{
				"its own": own, "another's": other, "a pattern's": some, "none": "", "nonsense": "dibs_x", "another secret": known.String(), "expired": expired, "revoked": revoked,
			} {
				status, code := 0, api.Code("")
				switch {
				case !slices.Contains([]string{"its own", "another's", "a pattern's"}, who):
					status, code = 401, api.CodeUnauthorized
				case op.Local:
					status, code = 403, api.CodeForbidden
				case reads || slices.Contains(unnamed, name) && who == "another's":
				case who == "another's":
					status, code = 403, api.CodeForbiddenAgent
				case who == "a pattern's" && slices.Contains(inNobodys, name):
					status, code = 403, api.CodeForbidden
				}
				uid = 0
				got := a.as(token, op.Method, path, bodies[name])
				if status == 0 {
					var p api.Problem
					if got.status == 401 || got.status == 403 {
						p = problemIn(t, got)
					}
					testkit.Check(t, got.status != 401 && got.status != 403 && uid < 2, "%s with the token of %s: answered %d %s", name, who, got.status, p.Detail)
					continue
				}
				p := problemIn(t, got)
				testkit.Check(t, got.status == status && p.Code == code && uid == 0, "%s with %s token: answered %d %s", name, who, got.status, got.body)
				testkit.Check(t, (status == 401) == (got.header.Get("Www-Authenticate") != ""), "%s with %s token: %v", name, who, got.header)
			}
		}
		for _, name := range closed {
			testkit.Check(t, strings.Contains(threats, "`"+name+"`"), "docs/threats.md does not say that %s is not for access tokens", name)
		}
		testkit.Check(t, a.as(own, "GET", "/metrics", "").status == 403, "metrics")
		testkit.Check(t, a.as(own, "POST", api.ProcessesPath, `{"pids":[1]}`).status == 403, "processes")
		door := server.NewDoor(nil, a.logger())
		for _, path := range []string{api.ProcessesPath, "/webhook"} {
			answer := httptest.NewRecorder()
			door.ServeHTTP(answer, httptest.NewRequest("POST", "http://dibs"+path, nil))
			testkit.Check(t, answer.Code == 404, "a door passes %s on", path)
		}
		testkit.Check(t, a.as(own, "GET", "/openapi.json", "").status == 200, "openapi.json")
	})
}

// TestFromElsewhere: an access token takes the place of a user's id. Another machine's process cannot be
// watched, a person's name is no agent's, and whoever has no name is named by the token.
func TestFromElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := reach(t)
		a.broker.Broker = broker.New(broker.Config{Clock: testkit.Clock{}, Log: slog.New(slog.DiscardHandler)})
		var by []string
		a.broker.owing = func(what string, who caller, in any) error {
			from := ""
			if m, ok := in.(*api.KeyedInput[api.MessageRequest]); ok {
				from = m.Body.From
			}
			by = append(by, fmt.Sprint(what, " ", from, " ", who.User, " ", who.Own, " ", who.Member, who.UID < -1))
			return nil
		}
		own, some := a.token("Sandman", 0), a.token("S*", 0)
		id, _ := api.ParseAccessToken(own)
		a.as(own, "POST", "/v1/messages", `{"to":"Oracle","text":"hi"}`)
		testkit.Check(t, slices.Equal(by, []string{"Send Sandman user token " + id.ID + " false true"}), "who said it: %q", by)
		for name, tt := range map[string]struct {
			path, body string
			status     int
			code       api.Code
		}{
			"a process":   {"/v1/claims", `{"agent":"Sandman","pid":1}`, 422, api.CodeOtherMachine},
			"a person":    {"/v1/claims/" + string(claimID) + "/release", `{"agent":"Sandman","by":"ada"}`, 403, api.CodeForbidden},
			"nobody":      {"/v1/messages", `{"to":"Oracle","text":"hi"}`, 403, api.CodeForbidden},
			"its pattern": {"/v1/claims", `{"agent":"S*"}`, 201, ""},
		} {
			got := a.as(some, "POST", tt.path, tt.body)
			code := api.Code("")
			if got.status >= 400 {
				code = problemIn(t, got).Code
			}
			testkit.Check(t, got.status == tt.status && code == tt.code, "%s: answered %d %s", name, got.status, got.body)
		}
		got := a.as(some, "GET", "/v1/access", "")
		testkit.Says(t, "access", got.body, `"agent":"S*"`, `"expires_at":"20`)
		testkit.Check(t, local(a).must("GET", "/v1/access", "").status == 422, "a user of this machine has an access token")
	})
}

// local is the same server for callers of this machine.
func local(a *abroad) *fixture {
	f := &fixture{t: a.t, broker: a.broker, keys: a.keys, pipe: server.NewPipe(), log: a.log}
	f.serveAt(server.NewFront(a.server, server.FrontOptions{Log: a.logger()}), f.pipe)
	return f
}

// TestTokensHaveKeysOfTheirOwn: two tokens may use one idempotency key, and each its own only.
func TestTokensHaveKeysOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := reach(t)
		var uids []int
		a.broker.claim = func(_ context.Context, who broker.Caller, _ api.ClaimRequest) (api.Claim, error) {
			uids = append(uids, who.UID)
			return held(), nil
		}
		one, two := a.token("Sandman", 0), a.token("Sandman", 0)
		for _, token := range []string{one, two, one} {
			got := testkit.Got(exchange(t.Context(), a.remote.Dial, "POST", "/v1/claims", `{"agent":"Sandman"}`, api.BearerHeader, "Bearer "+token, api.KeyHeader, "k"))(t)
			testkit.Check(t, got.status == 201, "answered %d %s", got.status, got.body)
		}
		testkit.Check(t, len(uids) == 2 && uids[0] != uids[1], "claimed by %v", uids)
	})
}

// TestOpenEndsWithItsToken: what is open ends with a revocation, and with the token's time.
func TestOpenEndsWithItsToken(t *testing.T) {
	for what, path := range map[string]string{"a stream": "/v1/events", "a wait": "/v1/claims/" + string(claimID) + "?wait=1h", "a session": "/mcp"} {
		for _, revoke := range []bool{true, false} {
			testkit.Bubble(t, fmt.Sprint(what, revoke), func(t *testing.T) {
				a := reach(t)
				a.broker.events = func(ctx context.Context, in api.EventsInput, d time.Duration) ([]api.Event, int64, error) {
					if d == 0 {
						return nil, 1, nil
					}
					select {
					case <-time.After(d):
						return nil, 1, nil
					case <-ctx.Done():
						return nil, 1, ctx.Err()
					}
				}
				a.broker.get = func(ctx context.Context) (api.Claim, error) { <-ctx.Done(); return api.Claim{}, ctx.Err() }
				a.mcp = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
				token := a.token("Sandman", 600)
				id, _ := api.ParseAccessToken(token)
				over := make(chan answer)
				go func() { over <- a.as(token, "GET", path, "") }()
				synctest.Wait()
				began := time.Now()
				if revoke {
					testkit.Got(a.tokens.Revoke(t.Context(), id.ID))(t)
				}
				got := <-over
				took := time.Since(began)
				testkit.Check(t, revoke && took <= time.Second || !revoke && took >= 9*time.Minute && took < 11*time.Minute, "ended after %v", took)
				testkit.Check(t, what != "a wait" || got.status == 401, "answered %d %s", got.status, got.body)
			})
		}
	}
}

// TestOneTokenCannotKeepOthersOut: a token has 64 connections with a request at most, however little of
// the request is there, and what wrong tokens have open gives way.
func TestOneTokenCannotKeepOthersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := reach(t)
		busy, other := a.token("Sandman", 0), a.token("Oracle", 0)
		a.mcp = func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }
		begin := func(token string) net.Conn {
			conn := a.encrypted()
			go io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+token+"\r\nContent-Length: 9\r\n\r\n{")
			synctest.Wait()
			return conn
		}
		for range 63 {
			begin(busy)
		}
		last := begin(busy)
		got := a.overTLS(busy, nil)
		testkit.Check(t, got.status == 429 && got.header.Get("Retry-After") == "1", "the 65th: answered %d %s", got.status, got.body)
		testkit.Check(t, a.overTLS(other, nil).status == 200, "another token was kept out")
		last.Close()
		synctest.Wait()
		testkit.Check(t, a.overTLS(busy, nil).status == 200, "its place is not free again")

		for range 600 { // none gets as far as a token
			conn := testkit.Got(a.pipe.Dial(t.Context()))(t)
			defer conn.Close()
			synctest.Wait()
		}
		testkit.Check(t, a.overTLS(other, nil).status == 200, "strangers' connections keep a token out")
	})
}

// encrypted connects over TLS until the test ends.
func (a *abroad) encrypted() net.Conn {
	a.t.Helper()
	conn := tls.Client(testkit.Got(a.pipe.Dial(a.t.Context()))(a.t), &tls.Config{InsecureSkipVerify: true})
	a.t.Cleanup(func() { conn.Close() })
	return conn
}

// overTLS asks for the claims over an encrypted connection, whose server check checks.
func (a *abroad) overTLS(token string, check func([]byte) error) answer {
	a.t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := a.pipe.Dial(ctx)
			if err != nil {
				return nil, err
			}
			return tls.Client(conn, &tls.Config{InsecureSkipVerify: true, VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
				if check == nil {
					return nil
				}
				return check(raw[0])
			}}), nil
		},
	}}
	req := testkit.Got(http.NewRequestWithContext(a.t.Context(), "GET", "https://example.org/v1/claims", nil))(a.t)
	req.Header.Set(api.BearerHeader, "Bearer "+token)
	resp := testkit.Got(client.Do(req))(a.t)
	defer resp.Body.Close()
	body := testkit.Got(io.ReadAll(resp.Body))(a.t)
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// TestTokenKnowsItsCertificate: the certificate on the connection is the one whose fingerprint stands in
// the token. A wrong token ends its connection, a right one of another origin's page is refused.
func TestTokenKnowsItsCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := reach(t)
		token := a.token("Sandman", 0)
		secret, _ := api.ParseAccessToken(token)
		shown := ""
		got := a.overTLS(token, func(certificate []byte) error {
			shown = selfsigned.Fingerprint(certificate)
			return nil
		})
		testkit.Check(t, got.status == 200 && shown == secret.Fingerprint && len(shown) == 64, "answered %d; shown %s, want %s", got.status, shown, secret.Fingerprint)
		for range 3 {
			testkit.Check(t, a.overTLS("dibs_x", nil).status == 401, "anything is a token")
		}
		testkit.Check(t, strings.Count(a.logged(), "a caller from another machine was refused") == 1, "logged: %s", a.log)
		browser := testkit.Got(exchange(t.Context(), a.remote.Dial, "POST", "/v1/claims", `{"agent":"Sandman"}`, api.BearerHeader, "Bearer "+token, "Origin", "https://evil.example"))(t)
		testkit.Check(t, browser.status == 403 && problemIn(t, browser).Code == api.CodeCrossOrigin, "answered %d %s", browser.status, browser.body)
	})
}

// TestMCPFromElsewhere: whoever asks for /mcp is known by the token.
func TestMCPFromElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := reach(t)
		var callers []server.RemoteCaller
		a.mcp = func(_ http.ResponseWriter, r *http.Request) { callers = append(callers, server.CallerOf(r)) }
		token := a.token("Sandman", 0)
		testkit.Check(t, a.as("", "POST", "/mcp", "{}").status == 401 && a.as("dibs_x", "POST", "/mcp", "{}").status == 401 && callers == nil, "anybody gets there: %v", callers)
		testkit.Check(t, a.as(token, "POST", "/mcp", "{}").status == 200 && len(callers) == 1, "nobody gets there")
		testkit.Check(t, callers[0].Token == token && callers[0].UID < -1 && callers[0].Access.Agent == "Sandman", "it is %+v", callers)
	})
}
