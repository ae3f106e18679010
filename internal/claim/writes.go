package claim

import (
	"cmp"
	"time"

	"dibs/internal/task"
)

// claimWrite is the write that puts h on its page.
func claimWrite(h Hold) Write {
	w := Write{
		Status:    new(task.InProgress),
		ClaimedBy: new(h.Agent),
		ClaimedAt: new(h.ClaimedAt),
		Token:     new(string(h.ID)),
	}
	if h.Requested > 0 || !h.Task.OddTimeout {
		// Also where it does not change: a rival that this write covers may have asked
		// for another lease.
		w.Timeout = new(cmp.Or(h.Requested, h.Own))
	}
	return w
}

// restoreWrite is the write that puts cl back on a page that shows t, with the
// lease that its holder counts on.
func restoreWrite(cl Hold, t task.Task) Write {
	w := claimWrite(cl)
	if w.Timeout = nil; t.Timeout != cl.Task.Timeout {
		w.Timeout = new(cl.Task.Timeout)
	}
	return w
}

// voidMark is the write that makes the token of that id void on its page. It names whose
// claim that is: on a claim that was written at the same time, the token alone would leave
// one that is nobody's.
func voidMark(id ID, agent string) Write {
	return Write{ClaimedBy: new(agent), Token: new(voidPrefix + string(id))}
}

// clearWrite takes a claim off a page and leaves it in the given status.
func clearWrite(s task.Status) Write {
	return Write{Status: new(s), ClaimedBy: new(""), ClaimedAt: new(time.Time{}), Token: new("")}
}

// finishWrite is the write that cl.Finish asks for. Work that is done keeps the name
// on the task, for people to see who did it, and a token by which it is no claim even once
// a person opens the task; everything else clears the claim. All of them say in the note
// what became of the task.
func finishWrite(cl Hold, p Policy) Write {
	w := clearWrite(task.Open)
	w.ClaimedBy = new(cl.Finish.To)
	switch f := cl.Finish; f.As {
	case EndCompleted:
		w = Write{Status: new(task.Completed), ClaimedBy: new(cl.Agent), Token: new(doneToken(cl))}
	case EndReview:
		if !p.NoToken { // else the name and the date would be a claim again, once the task is OPEN
			w = Write{ClaimedBy: new(cl.Agent), Token: new(doneToken(cl))}
		}
		w.Status = new(orBlocked(task.Review, p.Review))
	case EndBlocked:
		w.Status = new(task.Blocked)
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

// orBlocked is the status s if the board has it, else BLOCKED.
func orBlocked(s task.Status, has bool) task.Status {
	if has {
		return s
	}
	return task.Blocked
}

// leavingWrite takes the claim of an agent off a page that shows t, where people have
// changed the task meanwhile: what they changed stays. A task that bears another name is
// that person's from then on, without a time limit.
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

// givingBack adds to a write that takes a claim with the lease l off the page that shows t
// what the task had for a lease before, unless that was changed since.
func (w Write) givingBack(l Lease, t task.Task) Write {
	if l.borrows(t) {
		w.Timeout = new(l.Own)
	}
	return w
}

// asked is the lease length that was asked for, as a page has it; 0 if none was.
func (l Lease) asked() time.Duration {
	return (l.Requested + time.Minute - 1).Truncate(time.Minute)
}

// borrows reports whether t has a lease length that l asked for, in the place of its own.
func (l Lease) borrows(t task.Task) bool {
	asked := l.asked()
	return asked > 0 && t.Timeout == asked && l.Own != asked
}

// shows reports whether t has every value that w sets. Notion has been seen to
// answer 200 to a write and show the old values.
func (w Write) shows(t task.Task, noToken bool) bool {
	return (w.Status == nil || *w.Status == t.Status) &&
		(w.ClaimedBy == nil || *w.ClaimedBy == t.ClaimedBy) &&
		(w.ClaimedAt == nil || w.ClaimedAt.Truncate(time.Minute).Equal(t.ClaimedAt)) &&
		(w.Token == nil || noToken || *w.Token == t.Token)
}
