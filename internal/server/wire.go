package server

import (
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/feed"
	"dibs/internal/task"
)

// What the broker hands out bears Notion's time; what is sent bears this machine's.
// This file is where the one becomes the other, and where the nouns of the daemon
// become those of the socket.

// localTime turns Notion's time into this machine's; zero stays zero.
func (s *Server) localTime(t time.Time) api.Time {
	if t.IsZero() {
		return api.Time{}
	}
	return api.Time{Time: s.broker.Local(t)}
}

// each translates a slice; nothing becomes an empty slice, as with orEmpty.
func each[From, To any](from []From, translate func(From) To) []To {
	to := make([]To, len(from))
	for i, v := range from {
		to[i] = translate(v)
	}
	return to
}

// orEmpty turns no slice into an empty one, so that JSON says [].
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (s *Server) localAge(a api.Age) api.Age {
	a.SyncedAt = s.localTime(a.SyncedAt.Time)
	return a
}

// localStatus leaves alone what the daemon measured by this machine's clock.
func (s *Server) localStatus(st api.Status) api.Status {
	st.Mirror.Age = s.localAge(st.Mirror.Age)
	st.Outbox.Oldest = s.localTime(st.Outbox.Oldest.Time)
	st.Reservations = each(st.Reservations, s.localReservation)
	st.Warnings = orEmpty(st.Warnings)
	return st
}

func refOf(t task.Task) api.TaskRef {
	return api.TaskRef{ID: t.ID, Key: t.Key, Title: t.Title, URL: t.URL, Note: t.Note, Status: t.Status, Priority: t.Priority.String(), Fields: t.Fields}
}

func (s *Server) claimOf(c claim.Claim) api.Claim {
	out := api.Claim{
		ID: c.ID, ClaimID: c.ID, Task: refOf(c.Task), Agent: c.Agent, State: c.State,
		ClaimedAt: s.localTime(c.ClaimedAt),
		Fence:     c.Fence,
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
	if c.State == claim.Finishing {
		out.Owed = s.owed(c)
	}
	return out
}

// owed says what is not known of a claim of which Notion has yet to be told something.
func (s *Server) owed(c claim.Claim) api.Owed {
	if time.Now().Before(s.broker.Local(c.ExpiresAt())) {
		return api.Owed{Pending: true, Unknown: "whether a person has taken the task, or another agent will once the lease is over"}
	}
	return api.Owed{Pending: true, Unknown: "whether another agent or a person has taken the task: the lease is over"}
}

func (s *Server) taskOf(v broker.View) api.Task {
	out := api.Task{
		TaskRef: refOf(v.Task), Ready: v.Ready,
		Agent: v.ClaimedBy, ClaimedBy: v.ClaimedBy, ClaimedAt: s.localTime(v.ClaimedAt),
		ExpiresAt: s.localTime(v.LeaseUntil), LeaseUntil: s.localTime(v.LeaseUntil), AssignedTo: v.AssignedTo,
		DependsOn: v.DependsOn, WaitsFor: v.WaitsFor, WaitingFor: waitedOf(v.WaitingFor), Code: string(v.Code), Reason: oneLine(v.Reason),
		CreatedAt: s.localTime(v.Created), EditedAt: s.localTime(v.Edited), Trashed: v.Trashed,
	}
	if v.Claim != nil {
		out.ClaimID = v.Claim.ID
	}
	if o := v.Offer; o != nil {
		out.Offer = &api.Offer{State: api.Reviewing, From: o.From, To: o.To, ExpiresAt: s.localTime(o.Until)}
	}
	return out
}

func waitedOf(tasks []task.Task) []api.Waited {
	var out []api.Waited
	for _, t := range tasks {
		out = append(out, api.Waited{TaskRef: refOf(t), Agent: t.ClaimedBy})
	}
	return out
}

func (s *Server) pageOf(c broker.Content) api.Page {
	page := api.Page{WrittenBy: api.ByOthers, NotShown: c.Missing, ContentCut: c.Cut, CommentsCut: c.CommentsCut}
	if c.TextErr != nil {
		page.ContentError = saying(c.TextErr)
	} else {
		page.Content = &c.Text
	}
	if c.CommentsErr != nil {
		page.CommentsError = saying(c.CommentsErr)
	} else {
		page.Comments = each(c.Comments, func(said broker.Comment) api.Comment {
			return api.Comment{By: oneLine(said.By), At: s.localTime(said.At), Text: said.Text}
		})
	}
	return page
}

func (s *Server) logEntryOf(e claim.Event) api.LogEntry {
	return api.LogEntry{
		ID: e.ID, At: s.localTime(e.At), Kind: e.Kind,
		Task: e.Task, Title: e.Title, URL: e.URL,
		Agent: e.Agent, By: e.By, ClaimID: e.Claim, Claim: e.Claim,
		Code: e.Code, Holder: e.Holder, Against: e.Against, Remote: e.Remote, Detail: e.Detail,
		Started: s.localTime(e.Started), Finished: s.localTime(e.Finished), Summary: e.Summary,
		Count: e.Count, Names: e.Names, Expires: s.localTime(e.Expires),
	}
}

func (s *Server) eventOf(e feed.Event) api.Event {
	out := api.Event{
		ID: e.ID, At: s.localTime(e.At), Kind: e.Kind,
		Agent: e.Agent, By: e.By, Holder: e.Holder, ClaimID: e.Claim, Claim: e.Claim, Changed: e.Changed,
		ExpiresAt: s.localTime(e.ExpiresAt), Detail: oneLine(e.Detail), Summary: e.Summary,
		Reservation: e.Reservation, Patterns: e.Patterns, Shared: e.Shared,
	}
	if e.Task != "" {
		out.Task = &api.TaskRef{ID: e.Task, Title: e.Title, URL: e.URL, Status: e.Status, Priority: e.Priority.String()}
	}
	return out
}
