package server

import (
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// localTime turns Notion's time into this machine's; zero stays zero.
func (s *Server) localTime(t time.Time) api.Time {
	if t.IsZero() {
		return api.Time{}
	}
	return api.Time{Time: s.broker.Local(t)}
}

// each translates a slice; nothing becomes an empty slice, so that JSON says [].
func each[From, To any](from []From, translate func(From) To) []To {
	to := make([]To, len(from))
	for i, v := range from {
		to[i] = translate(v)
	}
	return to
}

func refOf(t task.Task) api.TaskRef {
	return api.TaskRef{ID: t.ID, Title: t.Title, URL: t.URL, Status: t.Status, Priority: t.Priority.String()}
}

func (s *Server) claimOf(c claim.Claim) api.Claim {
	out := api.Claim{
		ID: c.ID, Task: refOf(c.Task), Agent: c.Agent, State: c.State,
		ClaimedAt: s.localTime(c.ClaimedAt),
		Override:  c.Former != "", Former: c.Former,
		Outcome: c.Ending, EndedAt: s.localTime(c.Ended), Detail: c.Detail,
	}
	if !c.ClaimedAt.IsZero() {
		out.ExpiresAt = s.localTime(c.ExpiresAt())
	}
	if c.Finish != nil {
		out.Summary = c.Finish.Summary
		if out.Outcome == "" {
			out.Outcome = c.Finish.As
		}
	}
	return out
}

func (s *Server) taskOf(v broker.View) api.Task {
	out := api.Task{
		TaskRef: refOf(v.Task), Ready: v.Ready,
		ClaimedBy: v.ClaimedBy, ClaimedAt: s.localTime(v.ClaimedAt), LeaseUntil: s.localTime(v.LeaseUntil),
		DependsOn: v.DependsOn, WaitsFor: v.WaitsFor,
		CreatedAt: s.localTime(v.Created), EditedAt: s.localTime(v.Edited), Trashed: v.Trashed,
	}
	if v.Claim != nil {
		out.ClaimID = v.Claim.ID
	}
	return out
}

func (s *Server) ageOf(a broker.Age) api.Age {
	return api.Age{SyncedAt: s.localTime(a.SyncedAt), AgeSeconds: a.Old.Round(time.Millisecond).Seconds(), Stale: a.Stale}
}

func progressOf(p *broker.Progress) *api.SyncProgress {
	if p == nil {
		return nil
	}
	out := &api.SyncProgress{Read: p.Read}
	if p.Of > 0 {
		out.Percent = new(min(100*p.Read/p.Of, 100))
	}
	return out
}

func sweptOf(s broker.Swept) api.Swept {
	return api.Swept{Task: s.Task, Title: s.Title, Former: s.Former}
}

func (s *Server) eventOf(e claim.Event) api.Event {
	return api.Event{
		ID: e.ID, At: s.localTime(e.At), Kind: e.Kind,
		Task: e.Task, Title: e.Title, URL: e.URL,
		Agent: e.Agent, Claim: e.Claim,
		Code: e.Code, Holder: e.Holder, Against: e.Against, Remote: e.Remote, Detail: e.Detail,
		Started: s.localTime(e.Started), Finished: s.localTime(e.Finished), Summary: e.Summary,
		Count: e.Count, Names: e.Names,
	}
}

func (s *Server) statusOf(b broker.Status) api.Status {
	warnings := b.Warnings
	if warnings == nil {
		warnings = []string{}
	}
	return api.Status{
		Version: b.Version, PID: b.PID, StartedAt: api.Time{Time: b.Started},
		Socket: b.Socket, StateDir: b.StateDir,
		Notion: api.NotionStatus{
			BaseURL: b.Notion.BaseURL, Requests: b.Notion.Requests,
			PausedUntil: api.Time{Time: b.Notion.PausedUntil}, LastError: b.Notion.LastError,
			ClockSkewMS: b.Notion.ClockSkewMS,
		},
		Mirror: api.MirrorStatus{
			Tasks: b.Mirror.Tasks, Ready: b.Mirror.Ready, Age: s.ageOf(b.Mirror.Age), Syncing: progressOf(b.Mirror.Syncing),
		},
		Outbox: api.OutboxStatus{Depth: b.Outbox.Depth, Finishes: b.Outbox.Finishes, Oldest: s.localTime(b.Outbox.Oldest), LastError: b.Outbox.LastError},
		Policy: api.PolicyStatus(b.Policy), ClaimsHeld: b.Claims, Warnings: warnings,
	}
}
