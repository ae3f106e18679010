package server_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/feed"
	"dibs/internal/server/servertest"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// lost is an event as the broker has it, and its data on the socket.
var lost = feed.Event{
	ID: 17, At: noon, Kind: feed.ClaimLost, Task: taskID, Title: "Write the <README>", URL: "https://notion.example/1",
	Status: task.Cancelled, Priority: task.High, Agent: "Sandman", Holder: "Oracle", Claim: claimID,
	Detail: "its status was\nset to CANCELLED",
}

const lostJSON = `{"id":17,"at":"2026-11-20T11:58:30.000Z","kind":"claim_lost",` +
	`"task":{"id":"11111111-2222-3333-4444-555555555555","title":"Write the <README>","url":"https://notion.example/1","status":"CANCELLED","priority":"high"},` +
	`"agent":"Sandman","holder":"Oracle","claim":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D","detail":"its status was set to CANCELLED","claim_id":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"}`

// reading is a call for events, and what it finds.
func reading(f api.EventFilter, wait time.Duration, next int64, events ...feed.Event) servertest.Call {
	return servertest.Call{Method: "Events", Args: []any{f, wait}, Result: broker.Page{Events: events, Next: next}}
}

func stopped(f api.EventFilter) servertest.Call {
	return servertest.Call{Method: "Events", Args: []any{f, 15 * time.Second}, Err: broker.ErrStopping}
}

func TestStream(t *testing.T) {
	const beat = 15 * time.Second
	edited := feed.Event{ID: 18, At: noon, Kind: feed.Edited, Task: "b", Priority: task.None, Changed: []string{"title"}}
	gap := feed.Event{ID: 9, At: noon, Kind: feed.Gap, Detail: "gone"}
	for name, tt := range map[string]struct {
		path   string
		header []string
		calls  []servertest.Call
		want   string
	}{
		"from now on": {
			path: "/v1/events",
			calls: []servertest.Call{
				reading(api.EventFilter{After: -1}, 0, 16),
				reading(api.EventFilter{After: 16}, beat, 17, lost),
				reading(api.EventFilter{After: 17}, beat, 30),
				stopped(api.EventFilter{After: 30}),
			},
			want: ": alive\nid: 16\n\nid: 17\nevent: claim_lost\ndata: " + lostJSON + "\n\n: alive\nid: 30\n\n",
		},
		"selected": {
			path: "/v1/events?after=5&agent=Oracle&task=11111111222233334444555555555555&follow=true",
			calls: []servertest.Call{
				reading(api.EventFilter{After: 5, Agent: "Oracle", Task: taskID}, beat, 18, gap, lost, edited),
				stopped(api.EventFilter{After: 18, Agent: "Oracle", Task: taskID}),
			},
			want: ": alive\nid: 5\n\n" +
				"id: 9\nevent: gap\ndata: {\"id\":9,\"at\":\"2026-11-20T11:58:30.000Z\",\"kind\":\"gap\",\"detail\":\"gone\"}\n\n" +
				"id: 17\nevent: claim_lost\ndata: " + lostJSON + "\n\n" +
				"id: 18\nevent: edited\ndata: {\"id\":18,\"at\":\"2026-11-20T11:58:30.000Z\",\"kind\":\"edited\"," +
				"\"task\":{\"id\":\"b\",\"title\":\"\",\"status\":\"\",\"priority\":\"none\"},\"changed\":[\"title\"]}\n\n",
		},
		"once more": {
			path: "/v1/events?after=5", header: []string{"Last-Event-ID", "12"},
			calls: []servertest.Call{stopped(api.EventFilter{After: 12})},
			want:  ": alive\nid: 12\n\n",
		},
		"what is there": {
			path: "/v1/events?after=0&follow=false",
			calls: []servertest.Call{
				reading(api.EventFilter{}, 0, 17, lost),
				reading(api.EventFilter{After: 17}, 0, 17),
			},
			want: ": alive\nid: 0\n\nid: 17\nevent: claim_lost\ndata: " + lostJSON + "\n\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t)
				f.broker.Expect(tt.calls...)
				got := f.must("GET", tt.path, "", tt.header...)
				if got.status != 200 || got.header.Get("Content-Type") != "text/event-stream" || got.header.Get("Cache-Control") != "no-store" {
					t.Errorf("answer %d, %v", got.status, got.header)
				}
				body := strings.TrimSuffix(got.body, ": alive\nid: 17\n\n") // how far it is, at the end
				if diff := cmp.Diff(tt.want, body); diff != "" {
					t.Errorf("stream (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestStreamRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		path   string
		header []string
		want   string
	}{
		"an id that is none":     {path: "/v1/events?after=x", want: "query.after"},
		"an id below all":        {path: "/v1/events?after=-2", want: "query.after"},
		"a last id that is none": {path: "/v1/events", header: []string{"Last-Event-ID", "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"}, want: "header.Last-Event-ID"},
		"a last id below zero":   {path: "/v1/events", header: []string{"Last-Event-ID", "-1"}, want: "header.Last-Event-ID"},
		"a task that is none":    {path: "/v1/events?task=x", want: "query.task"},
		"a key unknown":          {path: "/v1/events?claim=x", want: "query.claim"},
		"a wait that is none":    {path: "/v1/claims/" + string(claimID) + "?wait=long", want: "query.wait"},
		"a wait below zero":      {path: "/v1/claims/" + string(claimID) + "?wait=-1s", want: "query.wait"},
		"a wait too long":        {path: "/v1/claims/" + string(claimID) + "?wait=61m", want: "query.wait"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := start(t).must("GET", tt.path, "", tt.header...)
				if got.status != 422 || !strings.Contains(got.body, `"code":"invalid_request"`) || !strings.Contains(got.body, tt.want) {
					t.Errorf("answer %d %s, want a problem with %s", got.status, got.body, tt.want)
				}
			})
		})
	}
}

// TestStreamBreaks fails in the middle, when it is too late for a problem.
func TestStreamBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		f.broker.Expect(
			reading(api.EventFilter{}, 15*time.Second, 17, lost),
			servertest.Call{Method: "Events", Args: []any{api.EventFilter{After: 17}, 15 * time.Second}, Err: errors.New("disk full")},
		)
		got := f.must("GET", "/v1/events?after=0", "")
		if !strings.HasSuffix(got.body, lostJSON+"\n\n") {
			t.Errorf("stream %s, want it to end after what was sent", got.body)
		}
		if !strings.Contains(f.log.String(), "disk full") {
			t.Errorf("the log does not say what happened: %s", f.log)
		}
	})
}

func TestWatch(t *testing.T) {
	ended := held()
	ended.State, ended.Ending, ended.Ended = claim.Ended, claim.EndLost, noon
	ref := broker.Ref{Claim: string(claimID), Agent: "Sandman"}
	for name, tt := range map[string]struct {
		path   string
		call   servertest.Call
		status int
		want   []string
	}{
		"something happened": {
			"/v1/claims/" + string(claimID) + "?wait=60s&agent=Sandman",
			servertest.Call{Method: "Watch", Args: []any{ref, int64(-1), time.Minute}, Result: servertest.Watched{Claim: ended, Event: &lost}},
			http.StatusOK, []string{`"state":"ended"`, `"outcome":"lost"`, `"event":` + lostJSON},
		},
		"nothing happened": {
			"/v1/claims/mine?agent=Sandman&wait=1m30s&after=4",
			servertest.Call{Method: "Watch", Args: []any{broker.Ref{Agent: "Sandman"}, int64(4), 90 * time.Second}, Result: servertest.Watched{Claim: held()}},
			http.StatusOK, []string{heldJSON},
		},
		"no such claim": {
			"/v1/claims/" + string(claimID) + "?wait=0s&agent=Sandman",
			servertest.Call{Method: "Watch", Args: []any{ref, int64(-1), time.Duration(0)}, Err: claim.ErrUnknownClaim},
			http.StatusNotFound, []string{`"code":"unknown_claim"`},
		},
		"the daemon stops": {
			"/v1/claims/" + string(claimID) + "?wait=60s&agent=Sandman",
			servertest.Call{Method: "Watch", Args: []any{ref, int64(-1), time.Minute}, Err: broker.ErrStopping},
			http.StatusServiceUnavailable, []string{`"code":"stopping"`, `"retry_after":1`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t)
				f.broker.Expect(tt.call)
				got := f.must("GET", tt.path, "")
				if got.status != tt.status {
					t.Errorf("status %d, want %d", got.status, tt.status)
				}
				for _, part := range tt.want {
					if !strings.Contains(got.body, part) {
						t.Errorf("answer %s, want it to have %s", got.body, part)
					}
				}
			})
		})
	}
}
