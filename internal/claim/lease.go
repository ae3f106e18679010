package claim

import (
	"time"

	"dibs/internal/task"
)

// arrival is how long after it was sent a write that was given up may still take effect: Notion ends
// requests after 60 s.
const arrival = time.Minute + clockAllowance

// MaxLease is the longest lease, whatever a task or a setting says. It is the same for
// all daemons: otherwise one would take what another still counts on.
const MaxLease = 24 * time.Hour

// LeaseOf returns the length of a lease on t.
func (p Policy) LeaseOf(t task.Task) time.Duration {
	if t.Timeout > 0 {
		return min(t.Timeout, MaxLease)
	}
	return min(p.Timeout, MaxLease)
}

// StaleAt returns the earliest moment, in Notion's time, at which a claim written at claimedAt
// may be overridden. Notion shows claimedAt cut to the minute, so it allows for the whole
// minute. The holder trusts its claim until claimedAt + lease; the write window, the settle
// wait and a clock allowance come on top, so that its last write is out of the way.
func (p Policy) StaleAt(claimedAt time.Time, lease time.Duration) time.Time {
	return claimedAt.Truncate(time.Minute).Add(time.Minute + lease + p.WriteWindow + p.Settle + clockAllowance)
}

// LeaseEnd returns the latest moment at which the lease shown by t can end for its holder; zero
// if t shows no claim with a lease.
func (p Policy) LeaseEnd(t task.Task) time.Time {
	if t.ClaimedBy == "" || !dated(t) {
		return time.Time{}
	}
	return t.ClaimedAt.Truncate(time.Minute).Add(time.Minute + p.LeaseOf(t))
}

// Over reports whether the lease shown by t has ended at now, so that the claim is stale, or
// soon will be.
func (p Policy) Over(t task.Task, now time.Time) bool {
	end := p.LeaseEnd(t)
	return !end.IsZero() && !now.Before(end)
}

// Stale reports whether the claim that t shows may be overridden at now.
func (p Policy) Stale(t task.Task, now time.Time) bool {
	return t.ClaimedBy != "" && dated(t) && now.After(p.StaleAt(t.ClaimedAt, p.LeaseOf(t)))
}

// outlives reports whether the claim that t shows cannot be overridden before a write sent at now
// must have arrived.
func (p Policy) outlives(t task.Task, now time.Time) bool { return !p.Stale(t, now.Add(arrival)) }

// refreshed returns h with the date and the lease on its page: others go by what was changed
// there.
func (p Policy) refreshed(h Hold, t task.Task) Hold {
	h.Task, h.Timeout = t, p.LeaseOf(t)
	since := h.ClaimedAt
	if !t.ClaimedAt.IsZero() {
		since = t.ClaimedAt
	}
	if since.Before(h.ClaimedAt.Truncate(time.Minute)) {
		h.ClaimedAt = since
	}
	h.StaleAt = p.StaleAt(since, p.LeaseOf(t))
	return h
}

// dated reports whether the date on t belongs to a claim of the agent that t names. It does not
// if a person put another name on a completed task and reopened it: then the date is that of
// the finished claim.
func dated(t task.Task) bool {
	tok := ParseToken(t.Token)
	return !t.ClaimedAt.IsZero() && (!tok.Done || tok.By == "" || tok.By == t.ClaimedBy)
}
