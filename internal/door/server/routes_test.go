package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/door/server"
	"dibs/internal/testkit"
)

// FuzzRequest asks for anything in any way. The answer is what was asked for, or
// a problem document that says what is wrong with the request.
func FuzzRequest(f *testing.F) {
	claims := "/v1/claims/" + string(claimID)
	for _, seed := range []struct{ method, path, media, key, body string }{
		{"POST", "/v1/claims", "application/json", "", `{"agent":"Sandman"}`},
		{"POST", "/v1/claims", "application/json; charset=utf-8", "k1", `{"agent":"Sandman","task":"11111111222233334444555555555555","timeout_minutes":30,"wait_seconds":0.5}`},
		{"POST", "/v1/claims", "application/json", "k1", `{"agent":"Oracle","wait_seconds":1e308}`},
		{"POST", "/v1/claims", "application/json", "", `{"agent":"Oracle","timeout_minutes":9223372036854775807}`},
		{"POST", "/v1/claims", "application/json", "", `{"agent":"\u0000\ud800","task":"","extra":[{}]}`},
		{"POST", "/v1/claims", "application/x-www-form-urlencoded", "", `agent=Sandman`},
		{"POST", "/v1/claims", "", "", `{}`},
		{"POST", "/v1/claims", "application/json", "", `[[[[`},
		{"GET", "/v1/claims?agent=Sandman", "", "", ""},
		{"GET", claims, "", "", ""},
		{"GET", claims + "?wait=60s&after=-1", "", "", ""},
		{"GET", claims + "?wait=-1ns&after=9223372036854775808", "", "", ""},
		{"GET", "/v1/claims/mine?agent=", "", "", ""},
		{"POST", claims + "/renew", "", "k2", ""},
		{"POST", "/v1/claims/mine/renew", "application/json", "k2", `{"agent":"Sandman"}`},
		{"POST", claims + "/complete", "application/json", "", `{"summary":"done\r\n\u2028"}`},
		{"POST", claims + "/release", "application/json", "", `{"reason":null}`},
		{"POST", claims + "/block", "application/json", "", `null`},
		{"POST", claims + "/fail", "application/json", "", `{"reopen":"yes"}`},
		{"GET", "/v1/tasks?status=OPEN&ready=true&limit=5", "", "", ""},
		{"GET", "/v1/tasks?status=open&limit=-1&nonsense=%zz", "", "", ""},
		{"GET", "/v1/tasks/" + string(taskID), "", "", ""},
		{"GET", "/v1/tasks/%00", "", "", ""},
		{"GET", "/v1/events?after=0&follow=false", "", "", ""},
		{"GET", "/v1/events?task=" + string(taskID), "", "", ""},
		{"POST", "/v1/sweep", "", "", ""},
		{"POST", "/v1/sync", "application/json", "", `{"full":true}`},
		{"GET", "/v1/status", "", "", ""},
		{"GET", "/v1/log?limit=3&claim=" + string(claimID), "", "", ""},
		{"GET", "/openapi.json", "", "", ""},
		{"PATCH", "//v1/../v1/claims", "", "", ""},
		{"OPTIONS", "/", "", "", "x"},
		{"HEAD", "/v1/nowhere", "", "", ""},
	} {
		f.Add(seed.method, seed.path, seed.media, seed.key, seed.body)
	}
	f.Fuzz(func(t *testing.T, method, path, media, key, body string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://dibs"+path, strings.NewReader(body))
		if err != nil || !strings.HasPrefix(path, "/") || method == http.MethodConnect {
			return // not a request that could be sent
		}
		if media != "" {
			req.Header.Set("Content-Type", media)
		}
		if key != "" {
			req.Header.Set(api.KeyHeader, key)
		}
		s := server.New(server.Options{
			Broker: easygoing(t), Journal: newMemory(t), Version: "v1", Log: slog.New(slog.DiscardHandler),
		})
		pipe := server.NewPipe()
		served := make(chan error, 1)
		go func() { served <- s.Serve(pipe) }()
		transport := &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return pipe.Dial(ctx) },
		}
		defer func() {
			transport.CloseIdleConnections()
			err := s.Shutdown(context.Background())
			testkit.Check(t, err == nil, "Shutdown: %v", err)
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
		}()
		for range 2 { // the second time, a key is known
			if body != "" {
				req.Body, _ = req.GetBody()
			}
			resp, err := transport.RoundTrip(req)
			switch {
			case err != nil && strings.Contains(err.Error(), "invalid header field"):
				return // not one that could be sent, either
			case err != nil:
				t.Fatalf("%s %s: no answer: %v", method, path, err)
			case strings.HasPrefix(resp.Header.Get("Content-Type"), api.EventStream):
				resp.Body.Close() // it need not have an end
			default:
				checkAnswer(t, req, resp)
			}
		}
	})
}

// checkAnswer checks the form of an answer, and that nothing is called the
// daemon's fault.
func checkAnswer(t *testing.T, req *http.Request, resp *http.Response) {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	testkit.Require(t, err == nil, "%s %s: %v", req.Method, req.URL, err)
	media := resp.Header.Get("Content-Type")
	switch {
	case resp.StatusCode >= 500:
		t.Errorf("%s %s: %d %s", req.Method, req.URL, resp.StatusCode, data)
	case req.Method == http.MethodHead:
	case resp.StatusCode >= 400:
		var p api.Problem
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&p); err != nil || media != api.ProblemType {
			t.Errorf("%s %s: %d %q is no problem document (%v): %s", req.Method, req.URL, resp.StatusCode, media, err, data)
		}
		if p.Status != resp.StatusCode || p.Code == "" || p.Title == "" || p.Detail == "" || strings.Contains(p.Detail, "\n") {
			t.Errorf("%s %s: %d says %s", req.Method, req.URL, resp.StatusCode, data)
		}
	case resp.StatusCode < 300:
		testkit.Check(t, strings.HasSuffix(media, "json") && json.Valid(data),
			"%s %s: %d %q: %s", req.Method, req.URL, resp.StatusCode, media, data)
	}
}

// easygoing is a broker that grants whatever it is asked for, at once, and reports what it should
// not have been asked.
func easygoing(t *testing.T) *fake {
	f := newFake(t)
	f.claim = func(_ context.Context, _ broker.Caller, r api.ClaimRequest) (api.Claim, error) {
		testkit.Check(t, r.Agent != "" && r.WaitSeconds >= 0 && r.WaitSeconds <= api.MaxWait.Seconds() && r.TimeoutMinutes >= 0,
			"asked for a claim that cannot be: %+v", r)
		return held(), nil
	}
	f.lookup = func(id, agent string) (api.Claim, error) {
		testkit.Check(t, id != "" && (id != api.OnlyClaim || agent != ""), "asked for no claim in particular")
		return held(), nil
	}
	f.watch = func(in api.GetClaimInput) (api.Claim, error) {
		if wait, err := time.ParseDuration(in.Wait); err != nil || wait < 0 || wait > api.MaxWait {
			return api.Claim{}, api.Invalid("query.wait", errors.New("no time to wait"))
		}
		return f.lookup(in.ID, in.Agent)
	}
	f.events = func(ctx context.Context, _ api.EventsInput, wait time.Duration) ([]api.Event, int64, error) {
		if wait > 0 { // there is none, however long it waits
			<-ctx.Done()
		}
		return nil, 0, ctx.Err()
	}
	f.tasks = func(filter api.ListTasksInput) (api.Tasks, error) {
		testkit.Check(t, filter.Limit >= 0, "asked for tasks that cannot be: %+v", filter)
		return api.Tasks{}, nil
	}
	return f
}

// A lookup may tell an agent that it lost a claim. So a request that is refused for what it says itself
// is refused first: its answer is not about the loss.
func TestWrongRequestsLookNothingUp(t *testing.T) {
	for name, request := range map[string][3]string{
		"a grace for nothing":        {"POST", "/v1/claims/mine/renew", `{"agent":"Sandman","grace_seconds":5}`},
		"an orphan for nobody":       {"POST", "/v1/claims/mine/renew", `{"agent":"Sandman","orphaned":true}`},
		"a name that cannot be":      {"POST", "/v1/claims/mine/release", `{"agent":"Sandman","by":"a\u200bb","usage":{"tokens":5}}`},
		"a time that cannot be kept": {"GET", "/v1/claims/mine/alive?agent=Sandman&grace=x", ""},
	} {
		served(t, name, func(t *testing.T, f *fixture) {
			f.broker.lookup = func(string, string) (api.Claim, error) {
				t.Error("the claim was looked up")
				return held(), nil
			}
			if got := f.must(request[0], request[1], request[2]); got.status != http.StatusUnprocessableEntity && got.status != http.StatusForbidden {
				t.Errorf("answered %d %s", got.status, got.body)
			}
		})
	}
}
