package daemon_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/notion/emulator"
	"dibs/internal/outbox/wording"
)

// judge waits until everything is quiet, and looks at what is left.
func (m *mesh) judge() {
	m.settle()
	m.empty()
	m.checkBoard()
	facts := make(map[*dynasty][]claim.Fact)
	for _, l := range m.lines {
		l.stopped()
	}
	m.ghost.Wait()
	for _, l := range m.lines {
		facts[l] = m.facts(l)
	}
	m.checkRecord(facts)
	m.checkLogs(facts)
	m.checkHolds(facts)
}

// settle waits until no daemon has anything left to do, and no page shows a claim.
func (m *mesh) settle() {
	var left []string
	for range 6 * 12 {
		time.Sleep(5 * time.Minute)
		left = nil
		for _, l := range m.lines {
			left = append(left, l.unquiet()...)
		}
		for _, p := range m.notion.Pages(m.tasks) {
			if p.Select("status") == "IN_PROGRESS" && !p.Trashed && !assigned(p) {
				left = append(left, fmt.Sprintf("%q is %s", m.book.title(p.ID), shows(p)))
			}
		}
		if len(left) == 0 {
			return
		}
	}
	m.book.complain("all is quiet, and yet:\n  %s", strings.Join(left, "\n  "))
}

// assigned reports whether a page is a person's own: it has a name, and no claim.
func assigned(p emulator.Page) bool { return p.Date("claimed_at") == "" && p.Text("claim_token") == "" }

func shows(p emulator.Page) string {
	return fmt.Sprintf("%s, by %q since %s, with the token %q", p.Select("status"), p.Text("claimed_by"), p.Date("claimed_at"), p.Text("claim_token"))
}

// empty has the agents take all that is left for them, twice, so that what was taken and not
// acknowledged comes back in between; and then nothing is there that was acknowledged.
func (m *mesh) empty() {
	for range 3 {
		for _, h := range m.crew {
			for h.poll() > 0 {
			}
		}
		time.Sleep(visibility + time.Minute)
	}
	for _, missing := range m.book.untold() {
		m.book.complain("a message was accepted, and never told: %s", missing)
	}
}

// checkBoard looks whether anything is left of claims, and whether what is free can be had.
func (m *mesh) checkBoard() {
	late := newHand(m, 99, m.lines[0])
	for _, p := range m.notion.Pages(m.tasks) {
		token := claim.ParseToken(p.Text("claim_token"))
		switch {
		case !token.Void || p.Trashed:
		case m.leftAlone(p):
			m.count("void marks that the timeout decides about")
		default:
			m.book.complain("%q shows a void mark: %s", m.book.title(p.ID), shows(p))
		}
		if p.Select("status") != "OPEN" || p.Trashed || p.Text("claimed_by") != "" {
			continue
		}
		_, err := ask(late, "a claim of "+m.book.title(p.ID), func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
			cl, err := c.Claim(ctx, api.ClaimRequest{Agent: late.name, Task: p.ID}, key)
			if err == nil {
				_, err = c.Release(ctx, string(cl.ID), api.StopRequest{Agent: late.name}, key+"-back")
			}
			return cl, err
		})
		if err != nil && code(err) != denied(claim.CodeBlockedByDependency) {
			m.book.complain("%q is free, and cannot be had: %v", m.book.title(p.ID), err)
		}
	}
	time.Sleep(time.Minute)
}

// leftAlone reports whether a void mark may stay on a page. A daemon that was away does not touch it any
// more once the lease that it shows is over. A sweep still takes it off a task that is IN_PROGRESS.
func (m *mesh) leftAlone(p emulator.Page) bool {
	at, err := time.Parse(time.RFC3339, p.Date("claimed_at"))
	if err != nil || p.Select("status") == "IN_PROGRESS" {
		return false
	}
	lease := m.lease
	if minutes := p.Number("claim_timeout_minutes"); minutes > 0 {
		lease = time.Duration(minutes) * time.Minute
	}
	return m.book.awayAt(at.Add(time.Minute + lease))
}

// facts are what the journal of a stopped daemon says, which must be sound.
func (m *mesh) facts(l *dynasty) []claim.Fact {
	db, err := sql.Open("sqlite", l.journal())
	mustDo(m.world, err)
	var sound string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
		m.book.complain("the journal of %s: %s, %v", l.name(), sound, err)
	}
	mustDo(m.world, db.Close())
	found, err := journal.Inspect(m.Context(), l.journal())
	mustDo(m.world, err)
	for _, c := range found.Live {
		m.book.complain("%s: claim %s of %s on %q is stuck: %s, due at %v", l.name(), c.ID, c.Agent, c.Task.Title, c.State, c.Due)
	}
	for _, mark := range found.Marks {
		// What waits for a late write is forgotten after a day.
		if mark.State != claim.Unseen {
			m.book.complain("%s: mark %s (%s) beside %s on %q is stuck: %s, due at %v", l.name(), mark.ID, mark.Why, mark.Agent, mark.Task.Title, mark.State, mark.Due)
		}
	}
	j, err := journal.Open(m.Context(), l.journal())
	mustDo(m.world, err)
	defer j.Close()
	facts, err := j.Facts(m.Context(), journal.FactFilter{})
	mustDo(m.world, err)
	return facts
}

// checkRecord compares what agents were told with what is on record.
func (m *mesh) checkRecord(facts map[*dynasty][]claim.Fact) {
	kinds := make(map[claim.ID]map[claim.Kind]int)
	for _, l := range m.lines {
		for _, f := range facts[l] {
			if kinds[f.Claim] == nil {
				kinds[f.Claim] = make(map[claim.Kind]int)
			}
			if f.Told == 0 || f.Agent != "" {
				kinds[f.Claim][f.Kind]++
			}
		}
	}
	for _, g := range m.book.grips() {
		k := kinds[g.id]
		if k[claim.KindGranted] != 1 {
			m.book.complain("claim %s was granted to %s, and is on record %d times", g.id, g.agent, k[claim.KindGranted])
		}
		if g.finished == "" {
			continue
		}
		if k[g.finished]+k[claim.KindLost] != 1 {
			m.book.complain("claim %s of %s was %s: %d facts say so, and %d that it was lost", g.id, g.agent, g.finished, k[g.finished], k[claim.KindLost])
		}
		if work := g.finished == claim.KindCompleted || g.finished == claim.KindFailed; work && k[g.finished]+k[claim.KindOrphaned] != 1 {
			m.book.complain("the work of %s under %s, %s, is on record %d times", g.agent, g.id, g.finished, k[g.finished]+k[claim.KindOrphaned])
		}
	}
}

// checkLogs looks whether each entry that a journal has is in Notion once, and nothing else.
func (m *mesh) checkLogs(facts map[*dynasty][]claim.Fact) {
	want := make(map[string]claim.Fact)
	for _, l := range m.lines {
		for _, f := range facts[l] {
			id := f.ID
			if f.Kind == claim.KindMessage {
				id = wording.MessagePrefix + id
			}
			for _, log := range f.Logs() {
				want[fmt.Sprint(log, " ", id)] = f
			}
		}
	}
	rows := make(map[string]int)
	dbs := m.notion.Databases()
	for log, db := range map[claim.Log]string{claim.MeshLog: dbs.MeshLog, claim.TaskLog: dbs.TaskLog} {
		for _, row := range m.notion.Pages(db) {
			key := fmt.Sprint(log, " ", row.Text("entry_id"))
			if rows[key]++; rows[key] == 2 {
				m.book.complain("the %s log has an entry twice: %q, claim %s", log, row.Title(), row.Text("claim_id"))
			}
			if _, ok := want[key]; !ok {
				m.book.complain("the %s log has an entry that no journal has: %q, claim %s", log, row.Title(), row.Text("claim_id"))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if f := want[key]; rows[key] == 0 && !strings.HasPrefix(key, string(claim.Comments)) {
			m.book.complain("the log has no entry %s: %s of %s, claim %s", key, f.Kind, f.Agent, f.Claim)
		}
	}
}

// grips are all holds, in the order in which agents were told of them.
func (b *book) grips() []*grip {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.holds), func(x, y *grip) int { return cmp.Or(x.told.Compare(y.told), cmp.Compare(x.id, y.id)) })
}

// checkHolds looks for two agents that trusted to have one task at the same time, and for claims
// that were lost for no reason.
func (m *mesh) checkHolds(facts map[*dynasty][]claim.Fact) {
	lost := make(map[claim.ID]time.Time)
	for _, l := range m.lines {
		for _, f := range facts[l] {
			if f.Kind == claim.KindLost {
				lost[f.Claim] = f.At
			}
		}
	}
	grips := m.book.grips()
	for i, a := range grips {
		at, isLost := lost[a.id]
		if isLost && !m.book.reason(a, at) && at.Before(a.expires.Add(-time.Minute)) {
			m.book.complain("claim %s of %s on %q was lost at %s, and nobody had touched the task", a.id, a.agent, m.book.title(a.task), at.Format(time.TimeOnly))
		}
		over := m.book.overOf(a)
		if isLost && m.book.reason(a, at) && at.Before(over) {
			over = at
		}
		for _, b := range grips[i+1:] {
			if b.task != a.task || !b.told.Before(over) || !b.told.Before(m.book.overOf(b)) {
				continue
			}
			if m.book.excused(a, b) {
				m.count("doubles that package claim leaves possible")
				continue
			}
			m.book.complain("%s trusts %s on %q until %s, and %s was granted %s at %s", a.agent, a.id, m.book.title(a.task),
				over.Format("15:04:05.000"), b.agent, b.id, b.told.Format("15:04:05.000"))
		}
	}
}

// onItsWay is how long a write that rests on what a page showed before a person changed it may be
// on its way.
const onItsWay = 30 * time.Second

// overOf is when the agent stopped to trust its claim, or had to expect its end: a person took
// the task.
func (b *book) overOf(g *grip) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := g.expires
	if !g.over.IsZero() && g.over.Before(over) {
		over = g.over
	}
	for _, at := range b.takings[g.task] {
		if at.After(g.call.Add(-onItsWay)) && at.Before(over) {
			over = at
		}
	}
	return over
}

// reason reports whether a claim may have been lost by then: a person changed the task, or a late
// write fell upon it.
func (b *book) reason(g *grip, by time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	within := func(at time.Time) bool { return at.After(g.call.Add(-onItsWay)) && !at.After(by.Add(time.Minute)) }
	return slices.ContainsFunc(b.takings[g.task], within) || slices.ContainsFunc(b.late[g.task], within)
}

// awayAt reports whether a daemon was away at that moment, or came back too late to take a mark off before
// it: that takes the grace.
func (b *book) awayAt(at time.Time) bool {
	const grace = 2 * time.Minute
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.aways, func(a absence) bool {
		return a.from.Before(at) && a.to.After(at.Add(-grace))
	})
}

// excused reports whether package claim leaves it possible that y was granted while x was
// trusted: a late claim covered x's, and its holder did not get through to repair that.
func (b *book) excused(x, y *grip) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.late[x.task], func(late time.Time) bool {
		return late.After(x.call) && late.Before(y.told) && slices.ContainsFunc(b.aways, func(a absence) bool {
			return (a.line == 0 || a.line == x.line) && a.from.Before(y.told) && a.to.After(late)
		})
	})
}
