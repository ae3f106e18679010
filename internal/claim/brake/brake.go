// Package brake decides who is granted nothing for now: agents that are paused, a board whose
// breaker opened after too many failures in a row, and agents that used up their day. It stores
// nothing: a ledger keeps a State, and asks it in the transaction that reserves a task.
package brake

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Everybody names all agents, for a pause.
const Everybody = ""

// State is what keeps agents from being granted anything for now: pauses, and the breaker. A
// ledger keeps it, and changes it in the transactions of which it follows.
type State struct {
	// Pauses are those that were asked for, by whom they are for: an agent, all that a pattern
	// covers, or Everybody. Some may be over.
	Pauses map[string]Pause `json:"pauses,omitempty"`
	// Failures are when the last claims ended, if all of them failed, in Breaker.Within.
	Failures []time.Time `json:"failures,omitempty"`
	// Tripped is the breaker's own pause; nil while the breaker is closed. When it is over, one
	// claim is let through: the Probe. Its end decides.
	Tripped *Pause   `json:"tripped,omitempty"`
	Probe   claim.ID `json:"probe,omitempty"`
}

// Pause is a time without grants.
type Pause struct {
	By     string    `json:"by"`               // who asked for it; claim.Sweeper for the breaker
	Reason string    `json:"reason,omitempty"` // in one line
	At     time.Time `json:"at"`
	Until  time.Time `json:"until,omitzero"` // zero if somebody has to end it
	Own    bool      `json:"own,omitempty"`  // the daemon's user, or root, asked for it
}

func (p Pause) over(now time.Time) bool { return !p.Until.IsZero() && !now.Before(p.Until) }

// Breaker pauses the board if many claims in a row fail, are blocked or go stale. The zero value
// never does.
type Breaker struct {
	Failures int           // that many
	Within   time.Duration // in that time
	Pause    time.Duration // pause the board for that long
}

// InForce returns the pauses that bar somebody at now, the one of Everybody first. That of the
// breaker has no end while the claim that was let through goes on.
func (b State) InForce(now time.Time) []PauseFor {
	var out []PauseFor
	for whom, p := range b.Pauses {
		if !p.over(now) {
			out = append(out, PauseFor{whom, p})
		}
	}
	slices.SortFunc(out, func(a, b PauseFor) int { return cmp.Compare(a.Agent, b.Agent) })
	switch p := b.Tripped; {
	case p != nil && !p.over(now):
		out = append(out, PauseFor{Everybody, *p})
	case p != nil && b.Probe != "":
		out = append(out, PauseFor{Everybody, Pause{By: p.By, At: p.At, Reason: p.Reason + "; one task was let through, and its end decides"}})
	}
	return out
}

// PauseFor is a pause of an agent, of all that a pattern covers, or of Everybody.
type PauseFor struct {
	Agent string
	Pause
}

// Of reports whether the pause is one of that agent.
func (p PauseFor) Of(agent string) bool {
	return p.Agent == Everybody || task.MatchAgent(p.Agent, agent)
}

// Whom says who is paused.
func (p PauseFor) Whom() string { return cmp.Or(p.Agent, "everybody") }

// Bars returns what keeps the agent from a grant at now; nil if nothing does.
func (b State) Bars(agent string, now time.Time) *claim.Barred {
	for _, p := range b.InForce(now) {
		if p.Of(agent) {
			detail := fmt.Sprintf("%s paused %s", p.By, p.Whom())
			if p.Reason != "" {
				detail += ": " + p.Reason
			}
			return &claim.Barred{Code: claim.CodePaused, By: p.By, Until: p.Until, Detail: detail + "; go on with what you hold, nothing new is granted"}
		}
	}
	return nil
}

// Admit notes that the claim of that id was let through, at now. It reports whether b changed.
func (b *State) Admit(id claim.ID, now time.Time) bool {
	if b.Tripped == nil || !b.Tripped.over(now) || b.Probe != "" {
		return false
	}
	b.Probe = id
	return true
}

// Ended takes in that the claim h ended. changed reports whether b changed. news are the facts
// that follow: the breaker paused the board, or lets go of it.
func (b *State) Ended(h claim.Hold, c Breaker) (changed bool, news []claim.Fact) {
	v := verdictOn(h)
	probe := h.ID == b.Probe && b.Probe != ""
	switch {
	case probe && v == neither: // the next one decides
		b.Probe = ""
		return true, nil
	case probe && v == good:
		b.Failures, b.Tripped, b.Probe = nil, nil, ""
		return true, []claim.Fact{resumed(Everybody, claim.Sweeper, "", fmt.Sprintf("%s got %q, and it did not fail", h.Agent, h.Task.Title), h.Ended)}
	case probe:
		return true, []claim.Fact{b.trip(fmt.Sprintf("the task that was let through, %q, %s again", h.Task.Title, cmp.Or(badly[h.Ending], "went stale")), h.Ended, c)}
	case v == neither || c.Failures <= 0 || b.Tripped != nil:
		return false, nil
	case v == good:
		changed = len(b.Failures) > 0
		b.Failures = nil
		return changed, nil
	}
	at := h.Ended
	if h.Finish != nil {
		at = h.Finish.At
	}
	b.Failures = append(b.Failures, at)
	for len(b.Failures) > 0 && at.Sub(b.Failures[0]) > c.Within {
		b.Failures = b.Failures[1:]
	}
	if len(b.Failures) < c.Failures {
		return true, nil
	}
	return true, []claim.Fact{b.trip(fmt.Sprintf("%d tasks in a row failed, were blocked or went stale within %v", len(b.Failures), c.Within), h.Ended, c)}
}

func (b *State) trip(why string, now time.Time, c Breaker) claim.Fact {
	b.Failures, b.Probe = nil, ""
	b.Tripped = &Pause{By: claim.Sweeper, Reason: why, At: now, Until: now.Add(c.Pause)}
	return paused(Everybody, *b.Tripped, "")
}

// MostPauses is how many pauses there are at a time, besides that of Everybody. Each reservation
// reads them all.
const MostPauses = 100

// Owned returns the pause of the agent, or of Everybody, if the daemon's user asked for it and it is
// in force at now.
func (b State) Owned(agent string, now time.Time) (PauseFor, bool) {
	p := b.Pauses[agent]
	return PauseFor{agent, p}, p.Own && !p.over(now)
}

// Pause pauses the agent, or Everybody, in place of an earlier pause. user is as in Fact.By. It
// returns false, and does nothing, if there are MostPauses.
func (b *State) Pause(agent string, p Pause, user string) (news claim.Fact, done bool) {
	if b.Pauses == nil {
		b.Pauses = make(map[string]Pause)
	}
	others := 0
	for of, earlier := range b.Pauses {
		if earlier.over(p.At) {
			delete(b.Pauses, of)
		} else if of != agent && of != Everybody {
			others++
		}
	}
	if others >= MostPauses && agent != Everybody {
		return claim.Fact{}, false
	}
	b.Pauses[agent] = p
	return paused(agent, p, user), true
}

// Resume ends the pause of the agent, or that of Everybody and the breaker's. was is false if
// there was none.
func (b *State) Resume(agent, by, user string, now time.Time) (news claim.Fact, was bool) {
	p, was := b.Pauses[agent]
	was = was && !p.over(now)
	delete(b.Pauses, agent)
	if agent == Everybody {
		was = was || b.Tripped != nil
		b.Failures, b.Tripped, b.Probe = nil, nil, ""
	}
	return resumed(agent, by, user, "", now), was
}

func paused(agent string, p Pause, user string) claim.Fact {
	return claim.Fact{ID: claim.NewFactID(p.At), At: p.At, Kind: claim.KindPaused, Agent: agent, Holder: p.By, By: user, Detail: p.Reason, Expires: p.Until}
}

func resumed(agent, by, user, why string, now time.Time) claim.Fact {
	return claim.Fact{ID: claim.NewFactID(now), At: now, Kind: claim.KindResumed, Agent: agent, Holder: by, By: user, Detail: why}
}

// verdict is what the end of a claim means to the breaker.
type verdict int

const (
	neither verdict = iota
	good
	bad
)

// badly are the endings that the breaker counts, in words.
var badly = map[claim.Ending]string{
	claim.EndFailed: "failed", claim.EndBlocked: "was blocked", claim.EndOverridden: "went stale", claim.EndSwept: "went stale",
}

// verdictOn classifies the end of h. Claims that were never granted, tasks that a person took,
// questions to people, and agents whose process died count as neither.
func verdictOn(h claim.Hold) verdict {
	switch {
	case h.Started.IsZero() || h.Brief || h.Finish != nil && (h.Finish.Unheard || h.Finish.Died || h.Finish.Ask):
		return neither
	case badly[h.Ending] != "" || h.Finish != nil && h.Finish.Unkept():
		return bad
	case h.Ending == claim.EndCompleted || h.Ending == claim.EndReview || h.Ending == claim.EndReleased:
		return good
	}
	return neither
}

// Bounds are the limits under which a ledger reserves tasks, besides that of the agent's tasks at
// a time.
type Bounds struct {
	Days    []DayLimit
	Zone    *time.Location // whose midnight ends a day; nil for the machine's
	Breaker Breaker
}

// DayLimit bounds what all agents together may be granted in a day that a name covers.
type DayLimit struct {
	Name   string // a name, or a pattern as in task.MatchAgent
	Grants int    // grants, those under way included; 0 for any number
	Micros int64  // money, as reported, in millionths of a US dollar; 0 for any amount
}

// Covers reports whether the limit is one for the agent.
func (l DayLimit) Covers(agent string) bool { return task.MatchAgent(l.Name, agent) }

// Bars returns the refusal of one more grant, after those of the day and what was spent in it; nil
// if there is room for it. until is the end of the day in zone.
func (l DayLimit) Bars(agent string, granted int, spent int64, until time.Time, zone *time.Location) *claim.Barred {
	var used string
	switch {
	case l.Grants > 0 && granted >= l.Grants:
		used = fmt.Sprintf("max_per_day: %d of %d grants", granted, l.Grants)
	case l.Micros > 0 && spent >= l.Micros:
		used = fmt.Sprintf("max_usd_per_day: %s of %s USD", claim.Dollars(spent), claim.Dollars(l.Micros))
	default:
		return nil
	}
	whose := agent
	if l.Name != agent {
		whose = "the agents " + l.Name + " together"
	}
	of := ""
	if zone != time.Local {
		of = fmt.Sprintf(" (%v)", zone)
	}
	return &claim.Barred{Code: claim.CodeLimitReached, Until: until, Detail: fmt.Sprintf(
		"%s used up %s of this day%s; go on with what you hold", whose, used, of)}
}

// Day returns the beginning of the day of now, and of the next one.
func (b Bounds) Day(now time.Time) (from, until time.Time, zone *time.Location) {
	if zone = b.Zone; zone == nil {
		zone = time.Local
	}
	y, m, d := now.In(zone).Date()
	return midnight(y, m, d, zone), midnight(y, m, d+1, zone), zone
}

// midnight returns the first moment of a day. The clocks may be set forward over it, or back to
// it.
func midnight(y int, m time.Month, d int, zone *time.Location) time.Time {
	noon := time.Date(y, m, d, 12, 0, 0, 0, zone)
	first := time.Date(y, m, d, 0, 0, 0, 0, zone)
	begun := func(t time.Time) bool { return t.In(zone).Day() == noon.Day() && noon.Sub(t) < 24*time.Hour }
	if _, set := first.ZoneBounds(); !begun(first) && !set.IsZero() {
		return set
	}
	if set, _ := first.ZoneBounds(); !set.IsZero() {
		_, now := first.Zone()
		_, was := set.Add(-1).Zone()
		if earlier := first.Add(time.Duration(now-was) * time.Second); now < was && begun(earlier) && earlier.Before(set) {
			return earlier
		}
	}
	return first
}
