package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/history"
	"dibs/internal/inbox"
	"dibs/internal/reserve"
	"dibs/internal/server/servertest"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// pendingJSON is what is added of which Notion has yet to be told.
const pendingJSON = `,"pending":true,"unknown":"whether a person has taken the task, or another agent will once the lease is over"`

const heldJSON = `{"id":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D",` +
	`"task":{"id":"11111111-2222-3333-4444-555555555555","title":"Write the <README>","url":"https://notion.example/1","status":"IN_PROGRESS","priority":"high"},` +
	`"agent":"Sandman","state":"held","claimed_at":"2026-11-20T11:58:30.123Z","expires_at":"2026-11-20T12:28:30.123Z","claim_id":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"}`

const reservedJSON = `{"id":"R","patterns":["*.go"],"agent":"Sandman","expires_at":"2026-11-20T11:58:30.000Z","shared":true,"folder":"/r",` +
	`"made_at":"2026-11-20T10:58:30.000Z","claim_id":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"}`

func reserved() reserve.Reservation {
	return reserve.Reservation{
		ID: "R", Agent: "Sandman", Folder: "/r", Shared: true, Made: noon.Add(-time.Hour), Until: noon, Claim: claimID,
		Targets: []reserve.Target{{Text: "*.go", Files: true, At: []reserve.Spot{{Place: "/r/.git", Path: "/**/*.go"}, {Place: "files", Path: "/r/**/*.go"}}}},
	}
}

// TestRoutes asks every operation for everything it can be asked for.
func TestRoutes(t *testing.T) {
	taken := held()
	taken.Former = "Oracle"
	finishing := held()
	finishing.State, finishing.Finish = claim.Finishing, &claim.Finish{As: claim.EndCompleted, Summary: "all of it", At: noon}
	ended := held()
	ended.State, ended.Ending, ended.Ended, ended.Detail = claim.Ended, claim.EndLost, noon.Add(time.Hour), "cleared by a person"
	endedJSON := strings.Replace(strings.TrimSuffix(heldJSON, "}"), `"held"`, `"ended"`, 1) +
		`,"outcome":"lost","ended_at":"2026-11-20T12:58:30.000Z","detail":"cleared by a person"}`
	writing := held()
	writing.State, writing.ClaimedAt = claim.Writing, time.Time{}
	view := broker.View{
		Task: task.Task{
			ID: taskID, Title: "Write", Status: task.InProgress, Priority: task.None,
			ClaimedBy: "Sandman", ClaimedAt: noon, Token: "secret", DependsOn: []task.ID{"a", "b"},
			Created: noon.Add(-time.Hour), Edited: noon.Add(-time.Minute), Trashed: true,
		},
		WaitsFor: []task.ID{"b"}, Claim: &taken, LeaseUntil: noon.Add(time.Hour),
	}
	const viewJSON = `{"id":"11111111-2222-3333-4444-555555555555","title":"Write","status":"IN_PROGRESS","priority":"none",` +
		`"ready":false,"claimed_by":"Sandman","claimed_at":"2026-11-20T11:58:30.000Z","lease_until":"2026-11-20T12:58:30.000Z",` +
		`"claim_id":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D","depends_on":["a","b"],"waits_for":["b"],` +
		`"created_at":"2026-11-20T10:58:30.000Z","edited_at":"2026-11-20T11:57:30.000Z","trashed":true,"agent":"Sandman","expires_at":"2026-11-20T12:58:30.000Z"}`
	byID := broker.Ref{Claim: string(claimID)}
	owed := finishing
	owed.Detail = "Notion is down"
	triggers := []inbox.Trigger{
		{ID: "a", Type: inbox.TaskOffered, Agent: "Sandman", At: noon, Task: held().Task, From: "Oracle", Text: "you\nknow <this>"},
		{ID: "b", Type: inbox.TasksAvailable, Agent: "Sandman", At: noon, Count: 3},
	}
	const refJSON = `{"id":"11111111-2222-3333-4444-555555555555","title":"Write the <README>","url":"https://notion.example/1","status":"IN_PROGRESS","priority":"high"}`
	const triggersJSON = `{"triggers":[` +
		`{"id":"a","type":"task_offered","agent":"Sandman","at":"2026-11-20T11:58:30.000Z","task":` + refJSON + `,"from":"Oracle","text":"you\nknow <this>"},` +
		`{"id":"b","type":"tasks_available","agent":"Sandman","at":"2026-11-20T11:58:30.000Z","count":3}]}`

	for _, tt := range []struct {
		name, method, path, body string
		calls                    []servertest.Call
		status                   int
		want                     string
	}{
		{
			name: "claim a task", method: "POST", path: "/v1/claims",
			body: `{"agent":"Sandman","task":"https://www.notion.so/Write-11111111222233334444555555555555","timeout_minutes":45,"wait_seconds":1.5}`,
			calls: []servertest.Call{allowed("Sandman"), {Method: "Claim", Result: held(), Args: []any{
				broker.Request{Agent: "Sandman", Task: taskID, Timeout: 45 * time.Minute, Wait: 1500 * time.Millisecond},
			}}},
			status: 201, want: heldJSON,
		},
		{
			name: "add a task", method: "POST", path: "/v1/tasks",
			body: `{"agent":"Sandman","title":"Write","body":"# Plan","priority":"high","depends_on":["T-3"],"for":"Oracle","fields":{"Area":"api","Points":2.5,"Urgent":true,"Tags":["a","b"],"None":null}}`,
			calls: []servertest.Call{allowed("Sandman"), {Method: "Add", Result: view, Args: []any{broker.Addition{
				Agent: "Sandman", DependsOn: []string{"T-3"}, Fingerprint: "95ba7590050a81c40c951879b7a5c762a542e4f9d5b35b33ceea254c8e5951e6",
				Draft: task.Draft{Title: "Write", Body: "# Plan", Priority: "high", For: "Oracle", Fields: []task.Field{
					{Name: "Area", Values: []string{"api"}}, {Name: "None"}, {Name: "Points", Values: []string{"2.5"}},
					{Name: "Tags", Values: []string{"a", "b"}}, {Name: "Urgent", Values: []string{"true"}},
				}},
			}}}},
			status: 201, want: `{"task":` + viewJSON + `}`,
		},
		{
			name: "comment", method: "POST", path: "/v1/tasks/11111111222233334444555555555555/comments", body: `{"agent":"Sandman","text":"hello","mention":"Ada"}`,
			calls: []servertest.Call{allowed("Sandman"), {Method: "Comment", Args: []any{broker.Remark{Agent: "Sandman", Task: taskID, Text: "hello", Mention: "Ada"}},
				Result: broker.Said{Task: held().Task, At: noon, Delivered: true}}},
			status: 201, want: `{"task":` + refJSON + `,"comment":{"by":"Sandman","at":"2026-11-20T11:58:30.000Z","text":"hello"}}`,
		},
		{
			name: "comment that is owed", method: "POST", path: "/v1/tasks/11111111222233334444555555555555/comments", body: `{"agent":"Sandman","text":"hello"}`,
			calls: []servertest.Call{allowed("Sandman"), {Method: "Comment", Args: []any{broker.Remark{Agent: "Sandman", Task: taskID, Text: "hello"}},
				Result: broker.Said{Task: held().Task, At: noon, Detail: "Notion is down"}}},
			status: 202, want: `{"task":` + refJSON + `,"comment":{"by":"Sandman","at":"2026-11-20T11:58:30.000Z","text":"hello"},"detail":"Notion is down"}`,
		},
		{
			name: "ask", method: "POST", path: "/v1/claims/01KA8XQ5V8ZJ6N3T4R7W9Y2M1D/ask", body: `{"text":"which?","to":"Ada"}`,
			calls: []servertest.Call{{Method: "Lookup", Args: []any{byID}, Result: held()}, allowed("Sandman"),
				{Method: "Finish", Args: []any{byID, claim.Finish{As: claim.EndBlocked, Summary: "which?", Mention: "Ada", Ask: true}}, Result: held()}},
			status: 200, want: heldJSON,
		},
		{
			name: "claim the next task", method: "POST", path: "/v1/claims", body: `{"agent":"Sandman"}`,
			calls:  []servertest.Call{allowed("Sandman"), {Method: "Claim", Args: []any{broker.Request{Agent: "Sandman"}}, Result: taken}},
			status: 201, want: strings.TrimSuffix(heldJSON, "}") + `,"override":true,"former":"Oracle"}`,
		},
		{
			name: "claim the next task that matches", method: "POST", path: "/v1/claims",
			body: `{"agent":"Sandman","priority":"high","where":["Sprint=42","a=b=c"],"text":"fix it"}`,
			calls: []servertest.Call{allowed("Sandman"), {Method: "Claim", Result: held(), Args: []any{
				broker.Request{Agent: "Sandman", Filter: api.Filter{Priority: "high", Where: []string{"Sprint=42", "a=b=c"}, Text: "fix it"}},
			}}},
			status: 201, want: heldJSON,
		},
		{
			name: "tasks that match, and why not the others", method: "GET",
			path: "/v1/tasks?ready=true&why=true&where=Sprint%3D42&where=a%3Db%2Cc&priority=high&text=fix+it",
			calls: []servertest.Call{{
				Method: "Tasks", Args: []any{api.TaskFilter{Ready: true, Why: true, Filter: api.Filter{Priority: "high", Where: []string{"Sprint=42", "a=b,c"}, Text: "fix it"}}},
				Result: broker.Listing{Tasks: []broker.View{{Task: task.Task{ID: taskID, Title: "Write", Status: task.Open, Fields: task.Fields{"Sprint": 42.0, "Area": nil}}, Code: broker.CodeFiltered, Reason: "its\nAREA is empty"}}},
			}},
			status: 200, want: `{"tasks":[{"id":"11111111-2222-3333-4444-555555555555","title":"Write","status":"OPEN","priority":"none","fields":{"Area":null,"Sprint":42},"ready":false,"code":"filtered","reason":"its AREA is empty"}]}`,
		},
		{
			name: "poll", method: "POST", path: "/v1/agents/Sandman/poll", body: `{"wait_seconds":1.5,"limit":5,"finished":true}`,
			calls: []servertest.Call{allowed("Sandman"), {
				Method: "Poll", Args: []any{broker.Poll{Agent: "Sandman", Wait: 1500 * time.Millisecond, Limit: 5, Finished: true}}, Result: triggers,
			}},
			status: 200, want: triggersJSON,
		},
		{
			name: "poll without a body", method: "POST", path: "/v1/agents/claude-chat%207K9X/poll",
			calls: []servertest.Call{allowed("claude-chat 7K9X"), {
				Method: "Poll", Args: []any{broker.Poll{Agent: "claude-chat 7K9X", Limit: 100}},
			}},
			status: 200, want: `{"triggers":[]}`,
		},
		{
			name: "acknowledge", method: "POST", path: "/v1/agents/Sandman/ack", body: `{"ids":["a","b"]}`,
			calls:  []servertest.Call{allowed("Sandman"), {Method: "Ack", Args: []any{"Sandman", []string{"a", "b"}}, Result: []string{"b"}}},
			status: 200, want: `{"acknowledged":["a"],"unknown":["b"]}`,
		},
		{
			name: "acknowledge for whoever it is", method: "POST", path: "/v1/ack", body: `{"ids":["a","b","c"]}`,
			calls: []servertest.Call{
				{Method: "TriggerAgents", Args: []any{[]string{"a", "b", "c"}}, Result: map[string]string{"a": "Sandman", "c": "Oracle"}},
				allowed("Sandman"), allowed("Oracle"),
				{Method: "Ack", Args: []any{"Sandman", []string{"a"}}}, {Method: "Ack", Args: []any{"Oracle", []string{"c"}}},
			},
			status: 200, want: `{"acknowledged":["a","c"],"unknown":["b"]}`,
		},
		{
			name: "mint", method: "POST", path: "/v1/agents", body: `{"session":"a"}`,
			calls:  []servertest.Call{{Method: "Mint", Args: []any{broker.Caller{UID: -1}, "a"}, Result: servertest.Minted{Name: "agent-7K9X", New: true}}},
			status: 201, want: `{"agent":"agent-7K9X","minted":true}`,
		},
		{
			name: "mint again", method: "POST", path: "/v1/agents", body: `{"session":"a"}`,
			calls:  []servertest.Call{{Method: "Mint", Args: []any{broker.Caller{UID: -1}, "a"}, Result: servertest.Minted{Name: "agent-7K9X"}}},
			status: 200, want: `{"agent":"agent-7K9X","minted":false}`,
		},
		{
			name: "mint without a body", method: "POST", path: "/v1/agents",
			calls:  []servertest.Call{{Method: "Mint", Args: []any{broker.Caller{UID: -1}, ""}, Result: servertest.Minted{Name: "agent-7K9X", New: true}}},
			status: 201, want: `{"agent":"agent-7K9X","minted":true}`,
		},
		{
			name: "agent", method: "GET", path: "/v1/agents/Sandman",
			calls: []servertest.Call{{Method: "Identify", Args: []any{"Sandman", broker.Caller{UID: -1}}, Result: broker.Identity{
				Agent: "Sandman", UID: 1000, Claims: []claim.Claim{held()}, Limit: 2, Waiting: 3,
			}}},
			status: 200, want: `{"agent":"Sandman","uid":1000,"allowed":true,"claims":[` + heldJSON + `],"max_per_agent":2,"inbox":3}`,
		},
		{
			name: "agent that the caller may not be", method: "GET", path: "/v1/agents/Sandman",
			calls: []servertest.Call{{Method: "Identify", Args: []any{"Sandman", broker.Caller{UID: -1}}, Result: broker.Identity{
				Agent: "Sandman", UID: -1, Forbidden: &broker.ForbiddenError{Agent: "Sandman", Detail: "not\nyou"},
			}}},
			status: 200, want: `{"agent":"Sandman","allowed":false,"reason":"not; you","claims":[],"max_per_agent":0,"inbox":0}`,
		},
		{
			name: "agent of a session", method: "GET", path: "/v1/agents/auto?session=a",
			calls: []servertest.Call{{Method: "IdentifySession", Args: []any{"a", broker.Caller{UID: -1}}, Result: broker.Identity{
				Agent: "agent-7K9X", UID: 1000, Lost: []claim.Claim{ended},
			}}},
			status: 200, want: `{"agent":"agent-7K9X","uid":1000,"allowed":true,"claims":[],"max_per_agent":0,"lost":[` + endedJSON + `],"inbox":0}`,
		},
		{
			name: "agents", method: "GET", path: "/v1/agents",
			calls: []servertest.Call{{Method: "Agents", Args: []any{7}, Result: []broker.Doing{
				{Agent: history.Agent{Name: "Sandman", Seen: noon, Done: 2, Median: new(1500 * time.Millisecond)}, Claims: []claim.Claim{held()}, Waiting: 3},
				{Agent: history.Agent{Name: "Oracle", Seen: noon.Add(-time.Hour)}},
			}}},
			status: 200, want: `{"agents":[` +
				`{"agent":"Sandman","claims":[` + heldJSON + `],"done_today":2,"median_seconds":1.5,"last_seen":"2026-11-20T11:58:30.000Z","inbox":3},` +
				`{"agent":"Oracle","claims":[],"done_today":0,"last_seen":"2026-11-20T10:58:30.000Z","inbox":0}]}`,
		},
		{
			name: "no agents", method: "GET", path: "/v1/agents?days=30",
			calls:  []servertest.Call{{Method: "Agents", Args: []any{30}}},
			status: 200, want: `{"agents":[]}`,
		},
		{
			name: "history", method: "GET", path: "/v1/history?hours=1&points=10",
			calls: []servertest.Call{{Method: "History", Args: []any{1, 10}, Result: broker.History{
				Window: history.Window{From: noon, Step: 10 * time.Minute, Points: 2}, Budget: 1800,
				Steps: []history.Counts{
					{history.Granted: 2, history.Lost: 1, history.Denied("held"): 7, history.Waited(0): 2},
					{history.Completed: 3, history.Failed: 4, history.Swept: 5, history.Requests: 6, history.Denied("lost_race"): 8},
				},
			}}},
			status: 200, want: `{"from":"2026-11-20T11:58:30.000Z","to":"2026-11-20T12:18:30.000Z","step_seconds":600,` +
				`"granted":[2,0],"completed":[0,3],"failed":[0,4],"denied":{"held":[7,0],"lost_race":[0,8]},"lost":[1,0],"swept":[0,5],` +
				`"wait_seconds_p50":[0,null],"wait_seconds_p90":[0,null],"requests":[0,6],"budget":1800}`,
		},
		{
			name: "history of no length given", method: "GET", path: "/v1/history",
			calls:  []servertest.Call{{Method: "History", Args: []any{6, 72}}},
			status: 200, want: `{"from":"0001-01-01T00:00:00.000Z","to":"0001-01-01T00:00:00.000Z","step_seconds":0,` +
				`"granted":[],"completed":[],"failed":[],"denied":{},"lost":[],"swept":[],"wait_seconds_p50":[],"wait_seconds_p90":[],"requests":[],"budget":0}`,
		},
		{
			name: "send", method: "POST", path: "/v1/messages", body: `{"from":"Sandman","to":"Oracle","text":"hello"}`,
			calls: []servertest.Call{allowed("Sandman"), {
				Method: "Send", Args: []any{broker.Message{From: "Sandman", To: "Oracle", Text: "hello"}},
				Result: broker.Message{ID: "m", At: noon, From: "Sandman", To: "Oracle", Text: "hello", Agents: []string{"Oracle"}},
			}},
			status: 201, want: `{"id":"m","at":"2026-11-20T11:58:30.000Z","from":"Sandman","to":"Oracle","text":"hello","agents":["Oracle"]}`,
		},
		{
			name: "reserve", method: "POST", path: "/v1/reservations",
			body: `{"agent":"Sandman","targets":[{"pattern":"*.go","files":true,"at":[{"in":"/r/.git","path":"/**/*.go"},{"in":"files","path":"/r/**/*.go"}]}],` +
				`"folder":"/r","shared":true,"for_seconds":90,"claim":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"}`,
			calls: []servertest.Call{allowed("Sandman"), {Method: "Reserve", Result: reserved(), Args: []any{
				reserve.Request{Agent: "Sandman", Folder: "/r", Shared: true, For: 90 * time.Second, Targets: reserved().Targets, UID: -1},
				broker.Ref{Claim: string(claimID), Agent: "Sandman"},
			}}},
			status: 201, want: `{"reservation":` + reservedJSON + `}`,
		},
		{
			name: "reservations", method: "GET", path: "/v1/reservations?agent=Sandman",
			calls:  []servertest.Call{{Method: "Reservations", Args: []any{"Sandman"}, Result: []reserve.Reservation{reserved()}}},
			status: 200, want: `{"reservations":[` + reservedJSON + `]}`,
		},
		{
			name: "reservations with their targets", method: "GET", path: "/v1/reservations?targets=true",
			calls:  []servertest.Call{{Method: "ComparedReservations", Args: []any{"", ""}, Result: []reserve.Reservation{reserved()}}},
			status: 200, want: `{"reservations":[` + strings.TrimSuffix(reservedJSON, "}") +
				`,"targets":[{"pattern":"*.go","at":[{"in":"/r/.git","path":"/**/*.go"},{"in":"files","path":"/r/**/*.go"}],"files":true}]}]}`,
		},
		{
			name: "unreserve", method: "DELETE", path: "/v1/reservations/R?agent=Sandman",
			calls: []servertest.Call{
				{Method: "Reservation", Args: []any{"R"}, Result: reserved()}, allowed("Sandman"),
				{Method: "Unreserve", Args: []any{"R", "Sandman"}, Result: reserved()},
			},
			status: 200, want: `{"reservation":` + reservedJSON + `}`,
		},
		{
			name: "check", method: "POST", path: "/v1/reservations/check",
			body: `{"agent":"Sandman","targets":[{"path":"a/","folder":true,"at":[{"in":"files","path":"/r/a"}]}]}`,
			calls: []servertest.Call{{Method: "CheckReserved", Args: []any{"Sandman", "", []reserve.Target{
				{Text: "a/", Folder: true, At: []reserve.Spot{{Place: "files", Path: "/r/a"}}},
			}}}},
			status: 200, want: `{"paths":["a/"]}`,
		},
		{
			name: "offer", method: "POST", path: "/v1/tasks/" + string(taskID) + "/offer", body: `{"agent":"Sandman","to":"Oracle","text":"yours"}`,
			calls: []servertest.Call{allowed("Sandman"), {
				Method: "Offer", Args: []any{broker.Offer{Agent: "Sandman", To: "Oracle", Task: taskID, Text: "yours"}}, Result: servertest.Offered{Claim: ended, Until: noon},
			}},
			status: 200, want: `{"task":` + refJSON + `,"offer":{"state":"reviewing","from":"Sandman","to":"Oracle","expires_at":"2026-11-20T11:58:30.000Z"}}`,
		},
		{
			name: "accept", method: "POST", path: "/v1/tasks/" + string(taskID) + "/accept", body: `{"agent":"Sandman"}`,
			calls:  []servertest.Call{allowed("Sandman"), {Method: "Claim", Args: []any{broker.Request{Agent: "Sandman", Task: taskID}}, Result: held()}},
			status: 201, want: heldJSON,
		},
		{
			name: "accept for another", method: "POST", path: "/v1/tasks/" + string(taskID) + "/accept", body: `{"agent":"Sandman","note":"by Maria"}`,
			calls:  []servertest.Call{allowed("Sandman"), {Method: "Claim", Args: []any{broker.Request{Agent: "Sandman", Task: taskID, Note: "by Maria"}}, Result: held()}},
			status: 201, want: heldJSON,
		},
		{
			name: "decline", method: "POST", path: "/v1/tasks/" + string(taskID) + "/decline", body: `{"agent":"Sandman","reason":"no time"}`,
			calls:  []servertest.Call{allowed("Sandman"), {Method: "Decline", Args: []any{"Sandman", taskID, "no time"}, Result: owed}},
			status: 202, want: `{"task":` + refJSON + `,"detail":"Notion is down"` + pendingJSON + `}`,
		},
		{
			name: "claims", method: "GET", path: "/v1/claims",
			calls:  []servertest.Call{{Method: "Claims", Args: []any{""}, Result: []claim.Claim{held(), held()}}},
			status: 200, want: `{"claims":[` + heldJSON + `,` + heldJSON + `]}`,
		},
		{
			name: "an agent's claims", method: "GET", path: "/v1/claims?agent=claude-chat+7K9X",
			calls:  []servertest.Call{{Method: "Claims", Args: []any{"claude-chat 7K9X"}}},
			status: 200, want: `{"claims":[]}`,
		},
		{
			name: "a claim", method: "GET", path: "/v1/claims/" + strings.ToLower(string(claimID)),
			calls:  []servertest.Call{{Method: "Lookup", Args: []any{byID}, Result: ended}},
			status: 200, want: endedJSON,
		},
		{
			name: "an attempt", method: "GET", path: "/v1/claims/" + string(claimID),
			calls:  []servertest.Call{{Method: "Lookup", Args: []any{byID}, Result: writing}},
			status: 200, want: strings.Replace(heldJSON, `"held","claimed_at":"2026-11-20T11:58:30.123Z","expires_at":"2026-11-20T12:28:30.123Z"`, `"writing"`, 1),
		},
		{
			name: "the claim on a task", method: "GET", path: "/v1/claims/11111111222233334444555555555555?agent=Sandman",
			calls:  []servertest.Call{found(broker.Ref{Claim: string(taskID), Agent: "Sandman"})},
			status: 200, want: heldJSON,
		},
		{
			name: "the only claim", method: "GET", path: "/v1/claims/mine?agent=Sandman",
			calls:  []servertest.Call{found(broker.Ref{Agent: "Sandman"})},
			status: 200, want: heldJSON,
		},
		{
			name: "renew", method: "POST", path: "/v1/claims/" + string(claimID) + "/renew",
			calls:  []servertest.Call{found(byID), allowed("Sandman"), {Method: "Renew", Args: []any{byID}, Result: held()}},
			status: 200, want: heldJSON,
		},
		{
			name: "renew the only claim", method: "POST", path: "/v1/claims/mine/renew", body: `{"agent":"Sandman"}`,
			calls: []servertest.Call{
				allowed("Sandman"), found(broker.Ref{Agent: "Sandman"}),
				{Method: "Renew", Args: []any{broker.Ref{Claim: string(claimID), Agent: "Sandman"}}, Result: held()},
			},
			status: 200, want: heldJSON,
		},
		{
			name: "renew, owed to Notion", method: "POST", path: "/v1/claims/" + string(claimID) + "/renew",
			calls: []servertest.Call{
				found(byID), allowed("Sandman"),
				{Method: "Renew", Args: []any{byID}, Err: &broker.OwedError{Claim: held(), Err: errors.New("Notion is down\nfor good")}},
			},
			status: 202, want: strings.TrimSuffix(heldJSON, "}") + `,"detail":"Notion is down; for good"` + pendingJSON + `}`,
		},
		{
			name: "complete, owed to Notion", method: "POST", path: "/v1/claims/" + string(taskID) + "/complete", body: `{"summary":"all of it"}`,
			calls: []servertest.Call{
				found(broker.Ref{Claim: string(taskID)}), allowed("Sandman"),
				{Method: "Finish", Args: []any{byID, claim.Finish{As: claim.EndCompleted, Summary: "all of it"}}, Result: finishing},
			},
			status: 202, want: strings.Replace(strings.TrimSuffix(heldJSON, "}"), `"held"`, `"finishing"`, 1) +
				`,"outcome":"completed","summary":"all of it"` + pendingJSON + `}`,
		},
		{
			name: "release", method: "POST", path: "/v1/claims/" + string(claimID) + "/release", body: `{"reason":"no time"}`,
			calls: []servertest.Call{
				found(byID), allowed("Sandman"),
				{Method: "Finish", Args: []any{byID, claim.Finish{As: claim.EndReleased, Summary: "no time"}}, Result: held()},
			},
			status: 200, want: heldJSON,
		},
		{
			name: "block", method: "POST", path: "/v1/claims/" + string(claimID) + "/block", body: `{"reason":"no key"}`,
			calls: []servertest.Call{
				found(byID), allowed("Sandman"),
				{Method: "Finish", Args: []any{byID, claim.Finish{As: claim.EndBlocked, Summary: "no key"}}, Result: held()},
			},
			status: 200, want: heldJSON,
		},
		{
			name: "fail", method: "POST", path: "/v1/claims/" + string(claimID) + "/fail", body: `{"reason":"tests","reopen":true,"agent":"Sandman"}`,
			calls: []servertest.Call{
				allowed("Sandman"), found(broker.Ref{Claim: string(claimID), Agent: "Sandman"}),
				{Method: "Finish", Args: []any{
					broker.Ref{Claim: string(claimID), Agent: "Sandman"},
					claim.Finish{As: claim.EndFailed, Summary: "tests", Reopen: true},
				}, Result: held()},
			},
			status: 200, want: heldJSON,
		},
		{
			name: "review", method: "POST", path: "/v1/claims/" + string(claimID) + "/review", body: `{"note":"the ridge","mention":"Maria","agent":"Sandman"}`,
			calls: []servertest.Call{
				allowed("Sandman"), found(broker.Ref{Claim: string(claimID), Agent: "Sandman"}),
				{Method: "Finish", Args: []any{
					broker.Ref{Claim: string(claimID), Agent: "Sandman"}, claim.Finish{As: claim.EndReview, Summary: "the ridge", Mention: "Maria"},
				}, Result: held()},
			},
			status: 200, want: heldJSON,
		},
		{
			name: "reopen", method: "POST", path: "/v1/tasks/" + string(taskID) + "/reopen", body: `{"note":"again","agent":"Sandman"}`,
			calls: []servertest.Call{
				allowed("Sandman"),
				{Method: "Reopen", Args: []any{broker.Reopening{Task: taskID, Agent: "Sandman", Note: "again"}}, Result: broker.Reopened{Task: held().Task, Was: task.Blocked}},
			},
			status: 200, want: `{"task":` + refJSON + `,"was":"BLOCKED"}`,
		},
		{
			name: "reopen, by a person", method: "POST", path: "/v1/tasks/" + string(taskID) + "/reopen", body: `{"was":"COMPLETED"}`,
			calls: []servertest.Call{
				{Method: "Reopen", Args: []any{broker.Reopening{Task: taskID, By: "user unknown", Was: task.Completed}}, Result: broker.Reopened{Task: held().Task, Was: task.Open}},
			},
			status: 200, want: `{"task":` + refJSON + `,"was":"OPEN"}`,
		},
		{
			name: "tasks", method: "GET", path: "/v1/tasks?status=IN_PROGRESS&ready=true&agent=Oracle&limit=7",
			calls: []servertest.Call{{
				Method: "Tasks", Args: []any{api.TaskFilter{Status: task.InProgress, Ready: true, Agent: "Oracle", Limit: 7}},
				Result: broker.Listing{Tasks: []broker.View{view}, Age: api.NewAge(noon, 90*time.Second+1, true)},
			}},
			status: 200, want: `{"tasks":[` + viewJSON + `],"synced_at":"2026-11-20T11:58:30.000Z","age_seconds":90,"stale":true}`,
		},
		{
			name: "no tasks", method: "GET", path: "/v1/tasks",
			calls:  []servertest.Call{{Method: "Tasks", Args: []any{api.TaskFilter{}}}},
			status: 200, want: `{"tasks":[]}`,
		},
		{
			name: "a task", method: "GET", path: "/v1/tasks/" + string(taskID),
			calls:  []servertest.Call{{Method: "Task", Args: []any{taskID}, Result: view}},
			status: 200, want: viewJSON,
		},
		{
			name: "a task with its page", method: "GET", path: "/v1/tasks/" + string(taskID) + "/content",
			calls: []servertest.Call{{Method: "Content", Args: []any{taskID}, Result: broker.Content{
				View: view, Text: "# Do <this>\n", Missing: []string{"bookmark, https://x"}, Cut: 7, CommentsCut: 2,
				Comments: []broker.Comment{{By: "Maria\n", At: noon, Text: "which\none?"}, {At: noon, Text: "x"}},
			}}},
			status: 200, want: strings.TrimSuffix(viewJSON, "}") + `,"fields":{},"written_by":"others","content":"# Do <this>\n","not_shown":["bookmark, https://x"],"content_cut":7,` +
				`"comments":[{"by":"Maria","at":"2026-11-20T11:58:30.000Z","text":"which\none?"},{"by":"","at":"2026-11-20T11:58:30.000Z","text":"x"}],"comments_cut":2}`,
		},
		{
			name: "a task with an empty page", method: "GET", path: "/v1/tasks/" + string(taskID) + "/content",
			calls:  []servertest.Call{{Method: "Content", Args: []any{taskID}, Result: broker.Content{View: view}}},
			status: 200, want: strings.TrimSuffix(viewJSON, "}") + `,"fields":{},"written_by":"others","content":"","comments":[]}`,
		},
		{
			name: "a task whose page cannot be read", method: "GET", path: "/v1/tasks/" + string(taskID) + "/content",
			calls: []servertest.Call{{Method: "Content", Args: []any{taskID}, Result: broker.Content{
				View: view, TextErr: errors.New("Notion is\ndown"), CommentsErr: errors.New("no capability"),
			}}},
			status: 200, want: strings.TrimSuffix(viewJSON, "}") + `,"fields":{},"written_by":"others","content_error":"Notion is; down","comments_error":"no capability"}`,
		},
		{
			name: "sweep", method: "POST", path: "/v1/sweep",
			calls:  []servertest.Call{{Method: "Sweep", Result: []api.Swept{{Task: taskID, Title: "Write", Former: "Oracle"}}}},
			status: 200, want: `{"swept":[{"task":"11111111-2222-3333-4444-555555555555","title":"Write","former":"Oracle"}]}`,
		},
		{
			name: "sweep for somebody", method: "POST", path: "/v1/sweep", body: `{"note":"by Maria"}`,
			calls:  []servertest.Call{{Method: "Sweep", Args: []any{"by Maria", "user unknown"}, Result: []api.Swept{}}},
			status: 200, want: `{"swept":[]}`,
		},
		{
			name: "sync", method: "POST", path: "/v1/sync",
			calls:  []servertest.Call{{Method: "Sync", Args: []any{false}, Result: api.Sync{Read: 1}}},
			status: 200, want: `{"full":false,"read":1,"changed":0,"gone":0,"tasks":0}`,
		},
		{
			name: "full sync", method: "POST", path: "/v1/sync", body: `{"full":true}`,
			calls: []servertest.Call{{
				Method: "Sync", Args: []any{true},
				Result: api.Sync{Full: true, Read: 4, Changed: 3, Gone: 2, Tasks: 5, Age: api.NewAge(noon, 0, false)},
			}},
			status: 200, want: `{"full":true,"read":4,"changed":3,"gone":2,"tasks":5,"synced_at":"2026-11-20T11:58:30.000Z"}`,
		},
		{
			name: "status", method: "GET", path: "/v1/status",
			calls: []servertest.Call{{Method: "Status", Result: api.Status{
				Version: "v1", PID: 7, StartedAt: api.Time{Time: noon}, Socket: "/s", StateDir: "/d",
				Notion: api.NotionStatus{BaseURL: "http://n", Requests: 3, PausedUntil: api.Time{Time: noon}, LastError: "down", ClockSkewMS: 90000},
				Mirror: api.MirrorStatus{Tasks: 5, Ready: 2, Age: api.NewAge(noon, 0, false), Syncing: api.NewSyncProgress(700, 1000)}, ClaimsHeld: 1,
				Outbox: api.OutboxStatus{Depth: 4, Finishes: 1, Oldest: api.Time{Time: noon}, LastError: "late"},
				Policy: api.PolicyStatus{TimeoutSeconds: 1800, WriteWindowSeconds: 2, SettleSeconds: 3, Override: "any", Exclusive: true},
			}}},
			status: 200, want: `{"version":"v1","pid":7,"started_at":"2026-11-20T12:00:00.000Z","socket":"/s","state_dir":"/d",` +
				`"notion":{"base_url":"http://n","requests":3,"paused_until":"2026-11-20T12:00:00.000Z","last_error":"down","clock_skew_ms":90000},` +
				`"mirror":{"tasks":5,"ready":2,"synced_at":"2026-11-20T11:58:30.000Z","syncing":{"read":700,"percent":70}},"claims_held":1,` +
				`"outbox":{"depth":4,"finishes":1,"oldest":"2026-11-20T11:58:30.000Z","last_error":"late"},` +
				`"policy":{"timeout_seconds":1800,"write_window_seconds":2,"settle_seconds":3,"override":"any","exclusive":true},"warnings":[]}`,
		},
		{
			name: "log", method: "GET", path: "/v1/log?agent=Oracle&task=" + string(taskID) + "&claim=" + strings.ToLower(string(claimID)) + "&after=E0&limit=2",
			calls: []servertest.Call{{
				Method: "Log", Args: []any{api.LogFilter{Agent: "Oracle", Task: taskID, Claim: claimID, After: "E0", Limit: 2}},
				Result: []claim.Event{
					{ID: "E1", At: noon, Kind: claim.KindDenied, Task: taskID, Title: "Write", URL: "u", Agent: "Oracle", Code: claim.CodeHeld, Holder: "Sandman", Against: claimID, Remote: true, Detail: "d"},
					{ID: "E2", At: noon, Kind: claim.KindCompleted, Task: taskID, Agent: "Sandman", Claim: claimID, Started: noon, Finished: noon, Summary: "s"},
					{ID: "E3", At: noon, Kind: claim.KindContested, Task: taskID, Count: 2, Names: []string{"Oracle"}},
				},
			}},
			status: 200, want: `{"events":[` +
				`{"id":"E1","at":"2026-11-20T11:58:30.000Z","kind":"denied","task":"11111111-2222-3333-4444-555555555555","title":"Write","url":"u","agent":"Oracle",` +
				`"code":"held","holder":"Sandman","against":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D","remote":true,"detail":"d"},` +
				`{"id":"E2","at":"2026-11-20T11:58:30.000Z","kind":"completed","task":"11111111-2222-3333-4444-555555555555","agent":"Sandman","claim":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D",` +
				`"started_at":"2026-11-20T11:58:30.000Z","finished_at":"2026-11-20T11:58:30.000Z","summary":"s","claim_id":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"},` +
				`{"id":"E3","at":"2026-11-20T11:58:30.000Z","kind":"contested","task":"11111111-2222-3333-4444-555555555555","count":2,"names":["Oracle"]}]}`,
		},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := start(t)
			f.broker.Expect(tt.calls...)
			got := f.must(tt.method, tt.path, tt.body)
			if got.status != tt.status || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("status %d, type %q; want %d, application/json", got.status, got.header.Get("Content-Type"), tt.status)
			}
			if diff := cmp.Diff(tt.want+"\n", got.body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}
