package claim

import (
	"fmt"
	"strings"
	"time"

	"dibs/internal/task"
)

// claimWrite returns the write that puts h on its page.
func claimWrite(h Hold) Write {
	return Write{
		Status:    new(task.InProgress),
		ClaimedBy: new(h.Agent),
		ClaimedAt: new(h.ClaimedAt),
		Token:     new(string(h.ID)),
	}
}

// voidMark returns the write that makes the token of that id void on its page. It also writes
// the claim's agent: if another claim was written at the same time, the token alone would leave
// a claim that belongs to nobody.
func voidMark(id ID, agent string) Write {
	return Write{ClaimedBy: new(agent), Token: new(voidPrefix + string(id))}
}

// clearWrite returns the write that takes a claim off a page and sets the status to s.
func clearWrite(s task.Status) Write {
	return Write{Status: new(s), ClaimedBy: new(""), ClaimedAt: new(time.Time{}), Token: new("")}
}

// finishWrite returns the write for cl.Finish. Finished work keeps the agent's name on the
// task, for people to see, with a token that is no claim even if a person reopens the task.
// Everything else clears the claim. Each of them notes what became of the task.
func finishWrite(cl Hold, p Policy) Write {
	w := clearWrite(task.Open)
	w.ClaimedBy = new(cl.Finish.To)
	switch f := cl.Finish; f.As {
	case EndCompleted:
		w = Write{Status: new(task.Completed), ClaimedBy: new(cl.Agent), Token: new(doneToken(cl))}
	case EndReview:
		w = Write{Status: new(orBlocked(task.Review, p.Review)), ClaimedBy: new(cl.Agent), Token: new(doneToken(cl))}
	case EndBlocked:
		w.Status = new(task.Blocked)
	case EndReleased:
		if f.History != "" {
			w.Status = new(task.Blocked)
		}
	case EndFailed:
		if !f.Reopen {
			w.Status = new(orBlocked(task.Failed, p.Failed && f.History == ""))
		}
	}
	if cl.Finish.Unheard && cl.Assigned {
		w.ClaimedBy = new(cl.Agent)
	}
	w.Note = cl.note()
	return w
}

// orBlocked returns s if the board has that status, else BLOCKED.
func orBlocked(s task.Status, has bool) task.Status {
	if has {
		return s
	}
	return task.Blocked
}

// leavingWrite returns the write that takes the claim of agent off a page that people have
// changed meanwhile: their changes stay. A task with another name belongs to that person from
// then on, without a time limit.
func leavingWrite(agent string, t task.Task) Write {
	w := Write{ClaimedAt: new(time.Time{}), Token: new("")}
	if t.ClaimedBy == agent {
		w.ClaimedBy = new("")
		if t.Status == task.InProgress {
			w.Status = new(task.Open)
		}
	}
	return w
}

// frees reports whether w may hand the task to others: it sets it to OPEN, or takes a claim off.
func (w Write) frees() bool {
	if w.Status != nil {
		return *w.Status == task.Open
	}
	return w.Token != nil && *w.Token == ""
}

// shows reports whether t has every value that w sets, except the note. Notion has
// been seen to answer 200 to a write and show the old values.
func (w Write) shows(t task.Task) bool {
	return (w.Status == nil || *w.Status == t.Status) &&
		(w.ClaimedBy == nil || *w.ClaimedBy == t.ClaimedBy) &&
		(w.ClaimedAt == nil || w.ClaimedAt.Truncate(time.Minute).Equal(t.ClaimedAt)) &&
		(w.Token == nil || *w.Token == t.Token)
}

// doneToken returns the token of a task whose work c did.
func doneToken(c Hold) string { return donePrefix + string(c.ID) + " " + c.Agent }

// note returns the line that the page shows once cl.Finish is written.
func (c Hold) note() *string {
	what := map[Ending]string{
		EndCompleted: noteDone, EndBlocked: noteBlocked, EndFailed: noteFailed, EndReleased: noteGivenBack,
		EndReview: noteReview,
	}[c.Finish.As]
	if c.Finish.As == EndFailed && c.Finish.Reopen {
		what = noteTryAgain
	}
	if c.Finish.Ask {
		what = noteAsked
	}
	why := c.Finish.proof()
	if c.Finish.By != "" {
		what, why = noteTaken, strings.TrimSuffix("from "+c.Agent+": "+why, ": ")
	}
	if c.Finish.History != "" {
		what, why = noteBlocked, c.Finish.History
	}
	if to := c.Finish.To; to != "" {
		why = strings.TrimSuffix("offered to "+to+": "+why, ": ")
	}
	return new(noteLine(what, why, c.Finish.signature(c.Agent), c.Finish.At))
}

// proof returns the summary, with the evidence for it.
func (f Finish) proof() string {
	if len(f.Evidence) == 0 {
		return f.Summary
	}
	return strings.TrimPrefix(f.Summary+" ("+strings.Join(f.Evidence, "; ")+")", " ")
}

// sweptNote returns the line that the page shows once the stale claim under m is taken off.
func (p Policy) sweptNote(m Mark, at time.Time) *string {
	if m.History != "" {
		return new(noteLine(noteBlocked, m.History, m.signature(), at))
	}
	why := fmt.Sprintf("the claim of %s ran out at %s", m.Agent, noteTime(p.LeaseEnd(m.Task)))
	return new(noteLine(noteReopened, why, m.signature(), at))
}
