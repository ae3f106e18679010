package daemon_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/journal/inbox"
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
			cl, err := client.Do(ctx, c, api.OpClaim, api.Keyed(key, api.ClaimRequest{Agent: late.name, Task: p.ID}))
			if err == nil {
				_, err = client.Do(ctx, c, api.OpRelease, api.On(string(cl.ID), key+"-back", api.StopRequest{Agent: late.name}))
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

// book is what is known of a mesh without asking its daemons: what agents were told, what
// people did, and what befell whom.
type book struct {
	mu       sync.Mutex
	titles   map[string]string // of tasks, by ids
	holds    map[claim.ID]*grip
	takings  map[string][]time.Time // when people changed what claims rest on, by task
	late     map[string][]time.Time // when claim writes were held up, by task
	aways    []absence
	showings map[string]*showing // of triggers, by ids
	told     map[string]string   // the ids of messages that were told, by agents and texts
	offers   map[string]int      // how many there may have been, by who made them and task
	answers  map[string][]string // the ids of what came of them, in the same way
	owed     map[string]bool     // messages that have to be told, by agents and texts
	reserves []*keeping
	wrong    []string
}

// grip is an agent's hold on a task, as it was told.
type grip struct {
	id       claim.ID
	task     string
	agent    string
	line     int
	call     time.Time // when the agent asked
	told     time.Time
	expires  time.Time
	over     time.Time // when the agent itself stopped to trust it; zero before
	why      string
	finished claim.Kind // as which its finish was accepted
}

// absence is a time in which a daemon, 0 for all, could do nothing.
type absence struct {
	line     int
	from, to time.Time
}

// keeping is an agent's reservation, as it was told.
type keeping struct {
	line         int
	thing, agent string
	from, to     time.Time
}

func newBook() *book {
	return &book{
		titles: make(map[string]string), holds: make(map[claim.ID]*grip),
		takings: make(map[string][]time.Time), late: make(map[string][]time.Time),
		showings: make(map[string]*showing), told: make(map[string]string), owed: make(map[string]bool),
		offers: make(map[string]int), answers: make(map[string][]string),
	}
}

// complain notes what must not have happened.
func (b *book) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault(format, args...)
}

// fault is complain for who has b.mu.
func (b *book) fault(format string, args ...any) {
	b.wrong = append(b.wrong, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (b *book) named(id, title string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.titles[id] = title
}

// title is what a task was called at first.
func (b *book) title(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.titles[id]
}

// granted notes that an agent was told of its claim, for which it asked first at call.
func (b *book) granted(h *hand, call time.Time, cl api.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.holds[cl.ID]; known != nil {
		b.fault("claim %s was given to %s and to %s", cl.ID, known.agent, h.name)
		return
	}
	b.holds[cl.ID] = &grip{
		id: cl.ID, task: string(cl.Task.ID), agent: h.name, line: h.line.number,
		call: call, told: time.Now(), expires: cl.ExpiresAt.Time,
	}
}

// renewed notes that an agent was told that its claim lasts longer.
func (b *book) renewed(id claim.ID, expires time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.holds[id]; g != nil && expires.After(g.expires) {
		g.expires = expires
	}
}

// ended notes that an agent trusts its claim no longer, from that moment on.
func (b *book) ended(id claim.ID, at time.Time, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.holds[id]; g != nil && (g.over.IsZero() || at.Before(g.over)) {
		g.over, g.why = at, fmt.Sprintf(format, args...)
	}
}

// gaveUp notes that an agent says that it does not want a task, from now on.
func (b *book) gaveUp(h *hand, task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.holds {
		if g.agent == h.name && g.task == task && g.over.IsZero() {
			g.over, g.why = time.Now(), "its agent is to decline the task"
		}
	}
}

// finished notes that what an agent made of its task was accepted.
func (b *book) finished(id claim.ID, as claim.Kind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.holds[id]; g != nil {
		g.finished = as
	}
}

// trusted reports whether the agent has no reason yet to think that its claim is over.
func (b *book) trusted(id claim.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.holds[id]
	return g != nil && g.over.IsZero() && time.Now().Before(g.expires)
}

// taken notes that a person changes what the claim on a task rests on.
func (b *book) taken(task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.takings[task] = append(b.takings[task], time.Now())
}

// heldUp notes that a claim write is held up on its way to the task.
func (b *book) heldUp(task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late[task] = append(b.late[task], time.Now())
}

// wasAway notes that a daemon, 0 for all of them, could do nothing from then until now.
func (b *book) wasAway(line int, from time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.aways = append(b.aways, absence{line, from, time.Now()})
}

// sent notes that a message was accepted. Within one line, it has to be told.
func (b *book) sent(from, to *hand, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if from.line == to.line {
		b.owed[to.name+" "+text] = true
	}
}

// shown notes that a trigger was handed to an agent. It is not to be had by another poll while it
// is not visible, and never once it was acknowledged.
func (b *book) shown(h *hand, taker string, t api.Trigger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	before, known := b.showings[t.ID]
	switch {
	case !known:
		before = &showing{line: named(t)}
		b.showings[t.ID] = before
		if t.Type == inbox.Message {
			b.heard(h, t)
		}
	case before.done == acked:
		b.fault("%q comes back to %s after it was acknowledged", before.line, h.name)
	case before.taker != taker && now.Sub(before.at) < visibility-2*time.Second:
		b.fault("%q is handed to another poll of %s %v after the last one", before.line, h.name, now.Sub(before.at))
	}
	before.taker, before.at = taker, now
}

// heard notes a message. Each that an agent sends has a text of its own. The others are about a task:
// they say what came of an offer, with words that are always the same.
func (b *book) heard(h *hand, t api.Trigger) {
	if t.Task != nil {
		key := h.name + " " + string(t.Task.ID)
		b.answers[key] = append(b.answers[key], t.ID)
		if ids := b.answers[key]; len(ids) > b.offers[key] {
			b.fault("%s is told %q of %q, the last of %s, and made %d offers of it", h.name, t.Text, b.titles[string(t.Task.ID)], strings.Join(ids, ", "), b.offers[key])
		}
		return
	}
	key := h.name + " " + t.Text
	if other := b.told[key]; other != "" {
		b.fault("%s is told %q as %s and as %s", h.name, t.Text, other, t.ID)
	}
	b.told[key] = t.ID
}

// offered notes that an agent is about to offer a task.
func (b *book) offered(h *hand, task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offers[h.name+" "+task]++
}

// acked notes how far the acknowledgement of triggers came.
func (b *book) acked(ids []string, how done) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		b.showings[id].done = max(b.showings[id].done, how)
	}
}

// untold are the messages that were accepted and not told.
func (b *book) untold() (missing []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.owed {
		if b.told[key] == "" {
			missing = append(missing, key)
		}
	}
	return missing
}

// reserved notes that an agent was told that it has something for itself.
func (b *book) reserved(h *hand, thing string, r api.Reservation) *keeping {
	b.mu.Lock()
	defer b.mu.Unlock()
	const clocks = 2 * time.Second // by which ideas of the time may differ
	k := &keeping{h.line.number, thing, h.name, time.Now(), r.ExpiresAt.Time}
	for _, other := range b.reserves {
		if other.line == k.line && other.thing == thing && other.agent == k.agent && other.to.After(k.from) {
			other.to = k.from // this one takes its place, and may be shorter
		}
		if other.line == k.line && other.thing == thing && other.agent != k.agent && other.to.After(k.from.Add(clocks)) {
			b.fault("%s has %s until %v, and %s was given it", other.agent, thing, other.to, k.agent)
		}
	}
	b.reserves = append(b.reserves, k)
	return k
}

// unreserved notes that an agent is about to give back what it has reserved. Who reserves the same
// twice has one reservation.
func (b *book) unreserved(k *keeping) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.reserves {
		if now := time.Now(); r.line == k.line && r.agent == k.agent && r.thing == k.thing && now.Before(r.to) {
			r.to = now
		}
	}
}

// trace is what happened in a mesh: each line has the virtual time in nanoseconds, and those of
// one moment are a set, in the order of their letters. Two runs are the same run if their traces
// are the same.
type trace struct {
	began time.Time

	mu    sync.Mutex
	now   time.Duration
	lines []string
	first int // the first line of now
}

func (t *trace) add(who, format string, args ...any) {
	at := time.Since(t.began)
	line := fmt.Sprintf("%18.9f %s ", at.Seconds(), who) + fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if at != t.now {
		t.now, t.first = at, len(t.lines)
	}
	i, known := slices.BinarySearch(t.lines[t.first:], line)
	if !known {
		t.lines = slices.Insert(t.lines, t.first+i, line)
	}
}

// hash tells this trace from others.
func (t *trace) hash() string {
	sum := sha256.Sum256([]byte(t.String()))
	return hex.EncodeToString(sum[:8])
}

func (t *trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// line is one of the trace; empty behind the last.
func (t *trace) line(i int) string {
	if i >= len(t.lines) {
		return ""
	}
	return t.lines[i]
}

// ulids are the ids of claims, entries and triggers.
var ulids = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`)

// about returns the lines that have a word in them.
func (t *trace) about(word string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out strings.Builder
	for _, line := range t.lines {
		if strings.Contains(line, word) {
			fmt.Fprintln(&out, line)
		}
	}
	return out.String()
}

// chance is a number that a seed draws for one moment and one thing. It depends on no draw
// before it, so that two things at one moment may come in either order.
func chance(seed uint64, what ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, append([]any{seed, time.Now().UnixNano()}, what...)...)
	x := h.Sum64() // FNV mixes its last bytes poorly
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// wire carries a daemon's requests to the emulator, and writes them down. There is no HTTP
// connection in between, whose goroutines would run in any order.
type wire struct {
	who    string
	notion *emulator.Emulator
	trace  *trace
}

// RoundTrip implements http.RoundTripper.
func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	request := fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)
	w.trace.add(w.who, "> %s", request)
	in := r.Clone(r.Context())
	in.Body, in.RequestURI, in.Host = io.NopCloser(bytes.NewReader(body)), r.URL.RequestURI(), r.URL.Host
	in.URL.Scheme, in.URL.Host = "", ""
	out := httptest.NewRecorder()
	if cut := carried(w.notion, out, in); cut || r.Context().Err() != nil {
		w.trace.add(w.who, "< cut off: %.60s", request)
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return nil, io.ErrUnexpectedEOF
	}
	w.trace.add(w.who, "< %d %s %.60s", out.Code, digest(out.Body.Bytes()), request)
	answer := out.Result()
	answer.Request = r
	return answer, nil
}

// carried reports whether the connection was cut instead of an answer.
func carried(h http.Handler, w http.ResponseWriter, r *http.Request) (cut bool) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			cut = true
		} else if p != nil {
			panic(p)
		}
	}()
	h.ServeHTTP(w, r)
	return false
}

var requestID = regexp.MustCompile(`"request_id":"[^"]*"`)

// digest tells one answer from others, but for what is never the same.
func digest(body []byte) string {
	h := fnv.New32a()
	h.Write(requestID.ReplaceAll(body, nil))
	return fmt.Sprintf("%d bytes %08x", len(body), h.Sum32())
}
