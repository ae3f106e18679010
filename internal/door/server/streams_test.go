package server_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// lost is an event, and lostJSON the same on the socket.
var lost = api.Event{
	ID: 17, At: api.Time{Time: noon}, Kind: api.ClaimLost, Agent: "Sandman", Holder: "Oracle", Claim: claimID,
	Task:   &api.TaskRef{ID: taskID, Title: "Write the <README>", URL: "https://notion.example/1", Status: task.Cancelled, Priority: "high"},
	Detail: "its status was set to CANCELLED",
}

const lostJSON = `{"id":17,"at":"2026-11-20T12:00:00.000Z","kind":"claim_lost",` +
	`"task":{"id":"11111111-2222-3333-4444-555555555555","title":"Write the <README>","url":"https://notion.example/1","status":"CANCELLED","priority":"high"},` +
	`"agent":"Sandman","holder":"Oracle","claim":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D","detail":"its status was set to CANCELLED"}`

// read is a question for events, and its answer.
type read struct {
	filter api.EventsInput
	wait   time.Duration
	events []api.Event
	next   int64
	err    error
}

func reading(f api.EventsInput, wait time.Duration, next int64, events ...api.Event) read {
	return read{f, wait, events, next, nil}
}

func stopped(f api.EventsInput) read { return read{f, 15 * time.Second, nil, 0, broker.ErrStopping} }

// reads answers these questions, in their order, and no other.
func reads(t *testing.T, expected ...read) func(context.Context, api.EventsInput, time.Duration) ([]api.Event, int64, error) {
	t.Cleanup(func() {
		testkit.Check(t, len(expected) == 0, "the broker was not asked for %v", expected)
	})
	return func(_ context.Context, f api.EventsInput, wait time.Duration) ([]api.Event, int64, error) {
		if len(expected) == 0 || f != expected[0].filter || wait != expected[0].wait {
			t.Errorf("the broker was asked for %v within %v, want %v", f, wait, expected)
			return nil, 0, broker.ErrStopping
		}
		next := expected[0]
		expected = expected[1:]
		return next.events, next.next, next.err
	}
}

func TestStream(t *testing.T) {
	const beat = 15 * time.Second
	edited := api.Event{ID: 18, At: api.Time{Time: noon}, Kind: claim.KindEdited, Task: &api.TaskRef{ID: "b", Priority: "none"}, Changed: []string{"title"}}
	gap := api.Event{ID: 9, At: api.Time{Time: noon}, Kind: api.Gap, Detail: "gone"}
	for name, tt := range map[string]struct {
		path   string
		header []string
		calls  []read
		want   string
	}{
		"from now on": {
			path: "/v1/events",
			calls: []read{
				reading(api.EventsInput{After: -1}, 0, 16),
				reading(api.EventsInput{After: 16}, beat, 17, lost),
				reading(api.EventsInput{After: 17}, beat, 30),
				stopped(api.EventsInput{After: 30}),
			},
			want: ": alive\nid: 16\n\nid: 17\nevent: claim_lost\ndata: " + lostJSON + "\n\n: alive\nid: 30\n\n",
		},
		"selected": {
			path: "/v1/events?after=5&agent=Oracle&task=11111111222233334444555555555555&follow=true",
			calls: []read{
				reading(api.EventsInput{After: 5, Agent: "Oracle", Task: string(taskID)}, beat, 18, gap, lost, edited),
				stopped(api.EventsInput{After: 18, Agent: "Oracle", Task: string(taskID)}),
			},
			want: ": alive\nid: 5\n\n" +
				"id: 9\nevent: gap\ndata: {\"id\":9,\"at\":\"2026-11-20T12:00:00.000Z\",\"kind\":\"gap\",\"detail\":\"gone\"}\n\n" +
				"id: 17\nevent: claim_lost\ndata: " + lostJSON + "\n\n" +
				"id: 18\nevent: edited\ndata: {\"id\":18,\"at\":\"2026-11-20T12:00:00.000Z\",\"kind\":\"edited\"," +
				"\"task\":{\"id\":\"b\",\"title\":\"\",\"status\":\"\",\"priority\":\"none\"},\"changed\":[\"title\"]}\n\n",
		},
		"once more": {
			path: "/v1/events?after=5", header: []string{"Last-Event-ID", "12"},
			calls: []read{stopped(api.EventsInput{After: 12})},
			want:  ": alive\nid: 12\n\n",
		},
		"what is there": {
			path: "/v1/events?after=0&follow=false",
			calls: []read{
				reading(api.EventsInput{}, 0, 17, lost),
				reading(api.EventsInput{After: 17}, 0, 17),
			},
			want: ": alive\nid: 0\n\nid: 17\nevent: claim_lost\ndata: " + lostJSON + "\n\n",
		},
	} {
		served(t, name, func(t *testing.T, f *fixture) {
			f.broker.events = reads(t, tt.calls...)
			got := f.must("GET", tt.path, "", tt.header...)
			if got.status != 200 || got.header.Get("Content-Type") != "text/event-stream" || got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("answer %d, %v", got.status, got.header)
			}
			body := strings.TrimSuffix(got.body, ": alive\nid: 17\n\n") // how far it is, at the end
			testkit.Same(t, tt.want, body, "stream")
		})
	}
}

// TestStreamBreaks fails in the middle, when it is too late for a problem.
func TestStreamBreaks(t *testing.T) {
	served(t, "", func(t *testing.T, f *fixture) {
		f.broker.real = true
		f.broker.events = reads(t,
			reading(api.EventsInput{}, 15*time.Second, 17, lost),
			read{filter: api.EventsInput{After: 17}, wait: 15 * time.Second, err: errors.New("disk full")},
		)
		got := f.must("GET", "/v1/events?after=0", "")
		testkit.Check(t, strings.HasSuffix(got.body, lostJSON+"\n\n"), "stream %s, want it to end after what was sent", got.body)
		testkit.Check(t, strings.Contains(f.log.String(), "disk full"), "the log does not say what happened: %s", f.log)
	})
}

func TestWatch(t *testing.T) {
	ended := held()
	ended.State, ended.Outcome, ended.Event = claim.Ended, claim.EndLost, &lost
	asked := func(id, wait string, after int64) api.GetClaimInput {
		return api.GetClaimInput{ID: id, Agent: "Sandman", Wait: wait, After: after}
	}
	for name, tt := range map[string]struct {
		path   string
		asked  api.GetClaimInput
		claim  api.Claim
		err    error
		status int
		want   []string
	}{
		"something happened": {
			"/v1/claims/" + string(claimID) + "?wait=60s&agent=Sandman", asked(string(claimID), "60s", -1), ended, nil,
			http.StatusOK, []string{`"state":"ended"`, `"outcome":"lost"`, `"event":` + lostJSON},
		},
		"nothing happened": {
			"/v1/claims/mine?agent=Sandman&wait=1m30s&after=4", asked(api.OnlyClaim, "1m30s", 4), held(), nil,
			http.StatusOK, []string{heldJSON},
		},
		"no such claim": {
			"/v1/claims/" + string(claimID) + "?wait=0s&agent=Sandman", asked(string(claimID), "0s", -1), api.Claim{}, claim.ErrUnknownClaim,
			http.StatusNotFound, []string{`"code":"unknown_claim"`},
		},
		"the daemon stops": {
			"/v1/claims/" + string(claimID) + "?wait=60s&agent=Sandman", asked(string(claimID), "60s", -1), api.Claim{}, broker.ErrStopping,
			http.StatusServiceUnavailable, []string{`"code":"stopping"`, `"retry_after":1`},
		},
	} {
		served(t, name, func(t *testing.T, f *fixture) {
			f.broker.watch = func(in api.GetClaimInput) (api.Claim, error) {
				testkit.Check(t, in == tt.asked, "the broker was asked to watch %+v", in)
				return tt.claim, tt.err
			}
			got := f.must("GET", tt.path, "")
			testkit.Check(t, got.status == tt.status, "status %d, want %d", got.status, tt.status)
			testkit.Says(t, "answer", got.body, tt.want...)
		})
	}
}

// TestConnectionKeepsAClaim follows a claim on a connection, to its end.
func TestConnectionKeepsAClaim(t *testing.T) {
	served(t, "", func(t *testing.T, f *fixture) {
		f.broker.act = func(what, id string, with any) (api.Claim, error) {
			testkit.Check(t, what == "connect" && id == string(claimID) && with == "60s",
				"the broker was asked to %s %v, %v", what, id, with)
			return held(), nil
		}
		f.broker.events = reads(t, reading(api.EventsInput{After: -1}, 0, 16))
		looks := 0
		f.broker.watch = func(in api.GetClaimInput) (api.Claim, error) {
			c := held()
			if looks++; looks == 2 {
				c.State, c.Outcome, c.Event = claim.Ended, claim.EndLost, &lost
			}
			testkit.Check(t, in.ID == string(claimID) && in.After == 16 && in.Wait == "15s", "the broker was asked to watch %+v", in)
			return c, nil
		}
		got := f.must("GET", "/v1/claims/"+string(claimID)+"/alive?agent=Sandman&grace=60s", "")
		testkit.Check(t, got.status == 200 && got.header.Get("Content-Type") == "text/event-stream",
			"answer %d, %v", got.status, got.header)
		if n := strings.Count(got.body, "event: claim\ndata: {"); n != 2 || !strings.Contains(got.body, ": alive\n\n") ||
			!strings.Contains(got.body, `"state":"ended"`) || !strings.Contains(got.body, lostJSON) {
			t.Errorf("stream:\n%s\nwant the claim, a sign of life, and the claim as it ended", got.body)
		}
		if synctest.Wait(); !f.broker.left.Load() {
			t.Error("the connection is still said to be there")
		}
	})
}

// TestProcessKeepsAClaim names this process.
func TestProcessKeepsAClaim(t *testing.T) {
	me := testkit.Got(keepers.Of(os.Getpid()))(t)
	body := `{"agent":"Sandman","pid":` + strconv.Itoa(os.Getpid()) + `,"grace_seconds":60}`
	for _, path := range []string{"/v1/claims", "/v1/claims/mine/renew"} {
		served(t, path, func(t *testing.T, f *fixture) {
			var by broker.Caller
			f.broker.claim = func(_ context.Context, who broker.Caller, _ api.ClaimRequest) (api.Claim, error) {
				by = who
				return held(), nil
			}
			f.broker.act = func(_, _ string, with any) (api.Claim, error) {
				by = with.(broker.Caller)
				return held(), nil
			}
			if got := f.must("POST", path, body); got.status >= 300 || by.Process != me {
				t.Errorf("answered %d %s, to be kept by %v", got.status, got.body, by.Process)
			}
		})
	}
}
